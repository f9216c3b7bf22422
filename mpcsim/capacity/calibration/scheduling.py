"""Fit of the CPU scheduler's probabilities to the measured throughput of closed workloads.

Equal shares of all cores would be too optimistic. On two cores, a woken thread does not always find
the idle one, and often preempts its waker; so processes wait for each other at loads at which each
might have a core of its own, and an event loop that waits is busy for longer than its work takes.
The fitted probabilities also come close to the waiting times that Linux reports for each process
(``/proc/PID/schedstat``).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from mpcsim.capacity.calibration import prediction
from mpcsim.capacity.calibration.prediction import Load
from mpcsim.capacity.model.costs import Costs, Scheduling
from mpcsim.capacity.model.operations import Operation

INITIAL: Final = Scheduling(0.6, 0.8, 0.5)
GRID: Final[Mapping[str, Sequence[float]]] = {
    "together": (0.0, 0.2, 0.4, 0.5, 0.6, 0.7, 0.8, 1.0),
    "ahead": (0.0, 0.25, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0),
    "takes": (0.0, 0.5, 1.0),
}
SWEEPS: Final = 2


def scheduling(
    operation: Operation, costs: Costs, per_s: Mapping[Load, float], cores: int, calls: int
) -> Scheduling:
    """Return the probabilities that explain the throughput best (coordinate descent on a grid).

    Args:
        per_s: measured throughput by number of calls at a time.
        calls: of each run of the model.
    """
    known: dict[Scheduling, float] = {}

    def squared_error(tried: Scheduling) -> float:
        """Return the sum of squared relative errors."""
        if tried not in known:
            with_it = replace(costs, scheduling=tried)
            known[tried] = sum(
                math.log(_per_s(operation, with_it, load, cores, calls) / measured) ** 2
                for load, measured in per_s.items()
            )
        return known[tried]

    best = INITIAL
    for _ in range(SWEEPS):
        for name, values in GRID.items():
            best = min((replace(best, **{name: value}) for value in values), key=squared_error)
    return best


def _per_s(operation: Operation, costs: Costs, load: Load, cores: int, calls: int) -> float:
    return prediction.predict(operation, costs, load, cores, hop_ms=costs.hop_ms, calls=calls).per_s
