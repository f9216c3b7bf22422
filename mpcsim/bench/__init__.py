"""Benchmarks: how fast the protocols are on this machine, beside what its primitives cost."""
