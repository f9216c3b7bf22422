"""What people look at in Jupyter. Imports ``sim``, ``service`` and ``node``.

- ``explorer``: a session message by message, cheated in and repeated
- ``what_if``: a signing call over two networks side by side
"""
