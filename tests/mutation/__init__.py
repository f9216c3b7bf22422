"""Remove one consistency check from the product at a time, and see a test fail.

``python -m tests.mutation`` finds a killing test for every check that has none in ``table.json``.
"""
