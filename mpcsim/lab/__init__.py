"""Widgets for Jupyter. Imports ``sim``, ``service`` and ``node``.

- ``explorer``: a session message by message, with alterations and other networks
- ``what_if``: a signing call over two networks side by side
"""
