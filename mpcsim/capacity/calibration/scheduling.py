"""How the operating system hands out cores: chances with which the twin serves as many calls a
second as the real service, with one, some and many at a time.

Equal shares of all cores would be too good. On two cores, who wakes up does not always find the one
that is free, and often goes before who woke it; so processes wait for each other at loads at which
each might have a core of its own, and an event loop that has to wait is busy for longer than its
work takes. Linux says how long each process waits (``/proc/PID/schedstat``): these chances come
close to that, too.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from mpcsim.capacity.calibration import twin
from mpcsim.capacity.calibration.twin import Load
from mpcsim.capacity.model.costs import Costs, Scheduling
from mpcsim.capacity.model.operations import Operation

BEGIN: Final = Scheduling(0.6, 0.8, 0.5)
TRIED: Final[Mapping[str, Sequence[float]]] = {
    "together": (0.0, 0.2, 0.4, 0.5, 0.6, 0.7, 0.8, 1.0),
    "ahead": (0.0, 0.25, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0),
    "takes": (0.0, 0.5, 1.0),
}
SWEEPS: Final = 2


def scheduling(
    operation: Operation, costs: Costs, per_s: Mapping[Load, float], cores: int, calls: int
) -> Scheduling:
    """What explains best how many calls a second there were.

    Args:
        per_s: with so many calls at a time, as measured.
        calls: of each run of the twin.
    """
    known: dict[Scheduling, float] = {}

    def off(tried: Scheduling) -> float:
        """The sum of squares, relative."""
        if tried not in known:
            with_it = replace(costs, scheduling=tried)
            known[tried] = sum(
                math.log(_per_s(operation, with_it, load, cores, calls) / measured) ** 2
                for load, measured in per_s.items()
            )
        return known[tried]

    best = BEGIN
    for _ in range(SWEEPS):
        for name, values in TRIED.items():
            best = min((replace(best, **{name: value}) for value in values), key=off)
    return best


def _per_s(operation: Operation, costs: Costs, load: Load, cores: int, calls: int) -> float:
    return twin.predict(operation, costs, load, cores, hop_ms=costs.hop_ms, calls=calls).per_s
