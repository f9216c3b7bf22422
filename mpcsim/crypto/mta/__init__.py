"""Multiplicative-to-additive conversion: the seam between signing and its heavy machinery."""
