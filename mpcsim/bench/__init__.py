"""Benchmarks: speed of protocols, simulator and service on this machine, beside its primitives.

Imports all rooms but ``cli``. ``report`` joins the parts, one file each, under ``mpcsim bench``.
"""

from mpcsim.bench.protocols import FULL_RUNS
from mpcsim.bench.report import SECTIONS, sections

__all__ = [
    "FULL_RUNS",
    "SECTIONS",
    "sections",
]
