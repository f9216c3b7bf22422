"""Benchmarks: speed of protocols, simulator and service on this machine, beside its primitives.

Imports all rooms but ``cli``. ``report`` joins the parts, one file each, under ``mpcsim bench``.
"""

from typing import TYPE_CHECKING

from mpcsim.lazy_names import lazy_names

if TYPE_CHECKING:
    from mpcsim.bench.defaults import FULL_RUNS, SECTIONS
    from mpcsim.bench.report import sections
else:
    __getattr__, __dir__ = lazy_names(__name__)

__all__ = [
    "FULL_RUNS",
    "SECTIONS",
    "sections",
]
