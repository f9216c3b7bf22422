"""Experiments of many runs: parameter sweeps, comparisons of distributions, reruns of a trace.

Model: a full factorial design; each point is run or replayed with a seed derived from its
parameters (``sweep``). Assumed: points are independent. Left out: significance tests; ``compare``
puts percentiles side by side.
"""

from mpcsim.sim.experiments.sweep import PointFailed

__all__ = [
    "PointFailed",
]
