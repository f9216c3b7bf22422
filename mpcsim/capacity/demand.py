"""Service demands of a workload, and the capacity that follows (operational bounds).

A resource that every call visits for ``d`` seconds in total serves at most ``1 / d`` calls a
second, whatever the arrival process: the largest demand is the bottleneck (Denning and Buzen, The
operational analysis of queueing network models, 1978).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from mpcsim.capacity.kernel import records as kernel
from mpcsim.capacity.simulation.call_graph import ROLES
from mpcsim.capacity.simulation.layout import Layout
from mpcsim.sim.network.traffic import wire_bytes


@dataclass(frozen=True)
class Demand:
    """Service demand of a workload at each resource of a deployment."""

    seconds: Mapping[str, float]
    """Mean service demand of a call by resource, divided by the number of its servers (cores,
    threads); of a link's direction, the time that its bytes take at the link's rate."""

    @property
    def bottleneck(self) -> str:
        """Resource with the largest demand."""
        return max(self.seconds, key=lambda name: self.seconds[name], default="nothing")

    @property
    def most_per_s(self) -> float:
        """Capacity: calls a second at which the bottleneck is saturated; infinite: calls take no
        time."""
        most = max(self.seconds.values(), default=0.0)
        return 1 / most if most else math.inf

    @property
    def at_most(self) -> str:
        """Capacity as text, rounded down."""
        return f"{rounded_down(self.most_per_s):.3g} calls a second at most"


def rounded_down(value: float) -> float:
    """Return a positive value with three digits, not above it, so that a bound stays a bound."""
    if not 0 < value < math.inf:
        return value
    step = 10.0 ** (math.floor(math.log10(value)) - 2)
    return math.floor(value / step) * step


def demand(layout: Layout, mix: Mapping[int, float]) -> Demand:
    """Return the service demand of calls, of which each operation has its share.

    Left out are the cost of event-loop iterations (under load, many jobs share one), and
    acknowledgements and retransmissions on links: the real demand is larger, the capacity smaller.
    """
    service, calls = layout.service, layout.calls
    tables, levels = service.tables, service.levels
    means = ((tables[:, :-1] + tables[:, 1:]) / 2 * np.diff(levels, axis=1)).sum(axis=1)
    loops = np.zeros(len(layout.processes))
    resources = np.zeros(len(layout.resources))
    threads = np.zeros(len(layout.processes))
    links: dict[str, float] = {}
    whole = sum(mix.values())
    for number, share in mix.items():
        for sent in layout.shapes[number].messages:
            link, side, _ = layout.links.between(sent.source, sent.target)
            if sent.has_cost and link != kernel.NONE:
                ends = layout.model.links[link]
                direction = ends.direction((ends.a, ends.b)[side])
                size = wire_bytes(layout.model.connection, sent.size)
                ms = 8 * size / (direction.mbit_per_s * 1000) * share / whole
                links[f"link {direction}"] = links.get(f"link {direction}", 0.0) + ms
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
                    resources[record["disk"] if on_disk else record["cpu"]] += ms
                    if kind in {kernel.LOOP, kernel.LOOP_DISK, kernel.THREAD}:
                        loops[process] += ms
                    if kind in {kernel.THREAD, kernel.FREE_THREAD, kernel.THREAD_DISK}:
                        threads[process] += ms / record["threads"]
    found = links
    found |= {f"event loop of {p}": ms for p, ms in zip(layout.processes, loops, strict=True)}
    found |= {f"threads of {p}": ms for p, ms in zip(layout.processes, threads, strict=True)}
    found |= {
        resource.name: ms / resource.cores
        for resource, ms in zip(layout.resources, resources, strict=True)
        if resource.cores
    }
    return Demand({name: ms / 1000 for name, ms in found.items() if ms})
