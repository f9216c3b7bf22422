"""Sections of the benchmarks and their default length, apart from what measures them."""

FULL_RUNS = 60
"""Number of runs behind every median of a signature; key generation takes half as many."""
SECTIONS = (
    *("protocols", "simulator", "accuracy", "rest", "service", "capacity", "starting", "notebooks"),
)
"""Sections that can be measured; all of them take about half an hour."""
