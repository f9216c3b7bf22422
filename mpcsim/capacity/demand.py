"""How much of everything one call takes, and hence how many a second there can be at most.

A place, or an event loop, through which every call goes for ``d`` seconds serves ``1 / d`` calls a
second, however they come: the largest demand is the bottleneck (Denning and Buzen, The operational
analysis of queueing network models, 1978).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from mpcsim.capacity.kernel import records as kernel
from mpcsim.capacity.simulation.layout import Layout
from mpcsim.capacity.simulation.shape import ROLES


@dataclass(frozen=True)
class Demand:
    """Of a workload on a deployment."""

    seconds: Mapping[str, float]
    """Of each call, on average, by what it takes; divided by how many of it there are at a time."""

    @property
    def bottleneck(self) -> str:
        """What is full first."""
        return max(self.seconds, key=lambda name: self.seconds[name], default="nothing")

    @property
    def most_per_s(self) -> float:
        """Calls a second, if nothing but their work took time; infinite: they take none."""
        most = max(self.seconds.values(), default=0.0)
        return 1 / most if most else math.inf

    @property
    def at_most(self) -> str:
        """The same in words, of which so many calls are really possible."""
        return f"{rounded_down(self.most_per_s):.3g} calls a second at most"


def rounded_down(value: float) -> float:
    """Return a positive value with three digits, not above it: bounds that are shown are kept."""
    if not 0 < value < math.inf:
        return value
    step = 10.0 ** (math.floor(math.log10(value)) - 2)
    return math.floor(value / step) * step


def demand(layout: Layout, mix: Mapping[int, float]) -> Demand:
    """What calls take, of which each number of an operation has its share.

    What a turn of an event loop costs is left out: the fuller a loop is, the more share it.
    """
    service, calls = layout.service, layout.calls
    tables, levels = service.tables, service.levels
    means = ((tables[:, :-1] + tables[:, 1:]) / 2 * np.diff(levels, axis=1)).sum(axis=1)
    loops = np.zeros(len(layout.processes))
    places = np.zeros(len(layout.places))
    threads = np.zeros(len(layout.processes))
    whole = sum(mix.values())
    for number, share in mix.items():
        operation = calls.operations[number]
        first = operation["first_message"]
        for message in calls.messages[first : first + operation["messages"]]:
            group = layout.groups[ROLES[message["target"]]]
            every = range(group.first, group.first + group.count)
            for stage in range(message["first_stage"], message["end_stage"]):
                kind, table = service.stages[stage]
                for process in every:
                    ms = means[table] * service.speeds[process, stage]
                    ms *= share / whole / len(every)
                    on_disk = kind in {kernel.LOOP_DISK, kernel.THREAD_DISK}
                    record = service.processes[process]
                    places[record["disk"] if on_disk else record["cores"]] += ms
                    if kind in {kernel.LOOP, kernel.LOOP_DISK, kernel.THREAD}:
                        loops[process] += ms
                    if kind in {kernel.THREAD, kernel.FREE_THREAD, kernel.THREAD_DISK}:
                        threads[process] += ms / record["threads"]
    found = {f"event loop of {p}": ms for p, ms in zip(layout.processes, loops, strict=True)}
    found |= {f"threads of {p}": ms for p, ms in zip(layout.processes, threads, strict=True)}
    found |= {
        place.name: ms / place.cores
        for place, ms in zip(layout.places, places, strict=True)
        if place.cores
    }
    return Demand({name: ms / 1000 for name, ms in found.items() if ms})
