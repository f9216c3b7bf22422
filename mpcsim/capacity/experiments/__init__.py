"""Questions that take many runs: load by load, which input matters, what is cheap enough."""

from mpcsim.capacity.experiments.load import LOADS, LoadCurve, load_curve
from mpcsim.capacity.experiments.points import capacity_point, with_parts
from mpcsim.capacity.experiments.search import Found, cheapest, cores
from mpcsim.capacity.experiments.sensitivity import sensitivity

__all__ = [
    "LOADS",
    "Found",
    "LoadCurve",
    "capacity_point",
    "cheapest",
    "cores",
    "load_curve",
    "sensitivity",
    "with_parts",
]
