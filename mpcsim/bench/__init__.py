"""Benchmarks: how fast protocols, simulator and service are here, beside what primitives cost.

Imports all rooms but ``cli``. ``report`` joins the parts, one file each, under ``mpcsim bench``.
"""

from mpcsim.bench.protocols import FULL_RUNS
from mpcsim.bench.report import SECTIONS, sections

__all__ = [
    "FULL_RUNS",
    "SECTIONS",
    "sections",
]
