"""Oblivious transfer: base, extension, and all-but-one from a tree of seeds."""
