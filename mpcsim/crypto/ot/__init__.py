"""Oblivious transfer: base, extension, and all-but-one from a tree of seeds."""

from mpcsim.crypto.ot import extension

__all__ = [
    "extension",
]
