"""Experiments of many runs: load curve, sensitivity, cheapest sufficient deployment."""

from mpcsim.capacity.experiments.load import LOADS, LoadCurve, load_curve
from mpcsim.capacity.experiments.points import capacity_point, with_parts
from mpcsim.capacity.experiments.search import SearchResult, cheapest, total_cores
from mpcsim.capacity.experiments.sensitivity import sensitivity

__all__ = [
    "LOADS",
    "SearchResult",
    "LoadCurve",
    "capacity_point",
    "cheapest",
    "total_cores",
    "load_curve",
    "sensitivity",
    "with_parts",
]
