"""Mutants of the product, and whether a fast test notices each: `python -m tests.mutation`."""
