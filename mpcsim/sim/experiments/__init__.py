"""Many runs: sweeps, comparisons, repetitions."""

from mpcsim.sim.experiments.sweep import PointFailed

__all__ = [
    "PointFailed",
]
