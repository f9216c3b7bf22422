"""What one wants to know of a run: is it too much, what breaks first, when is it well again."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np

from mpcsim.capacity import events
from mpcsim.capacity.arrivals import Arrivals, Bursts, Profile, Steady, Users
from mpcsim.capacity.results.record import RunRecord
from mpcsim.sim.traces.frame import load_pandas

if TYPE_CHECKING:
    import pandas as pd

FULL: Final = 0.95
"""Utilisation from which on something counts as full."""
OFTEN: Final = 0.001
"""Share of the attempts of a window from which on refusals and time-outs count."""
GROWING: Final = 0.02
"""Share of the calls that come and are not answered, from which on the queue counts as growing."""
BY_CHANCE: Final = 3.0
"""Standard deviations of the number of calls that come, by which it has to grow, too."""
NEAR: Final = 0.7
"""Part of the rate that the demand allows, below which no steady rate is too much."""
WELL: Final = 1.5
"""Calls under way, over those before an overload, at which it counts as over."""


@dataclass(frozen=True)
class Break:
    """Something that does not suffice (any more)."""

    at_s: float
    what: str
    offered_per_s: float
    """Attempts that came to an end then."""

    def __str__(self) -> str:
        came = f"when {self.offered_per_s:.3g} calls a second came to an end"
        return f"{self.what}, from {clock(self.at_s)} on, {came}"


def clock(seconds: float) -> str:
    """A time of a run: h:mm:ss."""
    whole = round(seconds)
    return f"{whole // 3600}:{whole // 60 % 60:02}:{whole % 60:02}"


def overload(run: RunRecord) -> str:
    """More calls come than are answered, all the time: how many, and why. Empty: it is not so."""
    offered = _offered_per_s(run.workload.arrivals)
    if isinstance(run.workload.arrivals, Steady):
        least = NEAR * run.demand.most_per_s  # turns of event loops are not in it
    else:
        least = run.demand.most_per_s
    if run.demand.seconds and offered < least:
        return ""  # whatever grows, it is not for the rate
    under_way = run.gauges.in_flight[:, 0]
    n = len(under_way)
    if n < 4:
        return ""
    later = np.arange(n // 2, n)
    middle = (run.edges_s[later] + run.edges_s[later + 1]) / 2
    grows = float(np.polyfit(middle, under_way[later], 1)[0])
    length = float(run.edges_s[-1] - run.edges_s[n // 2])
    if grows < GROWING * offered or under_way[-1] < 1.5 * under_way[n // 2]:
        return ""
    if grows * length < BY_CHANCE * math.sqrt(offered * length):
        return ""
    return (
        f"{offered:g} calls a second come and {offered - grows:.3g} are answered: those under way "
        f"grow by {grows:.3g} a second, without bound; the bottleneck is the "
        f"{run.demand.bottleneck}, {run.demand.at_most}"
    )


def _offered_per_s(arrivals: Arrivals) -> float:
    """Return the rate at which calls come in the long run; 0: nothing says it."""
    match arrivals:
        case Steady():
            return arrivals.per_s
        case Profile():
            return float(np.mean(arrivals.per_s))
        case Bursts():
            part = arrivals.lasting_s / arrivals.every_s
            return arrivals.per_s + part * (arrivals.burst_per_s - arrivals.per_s)
        case _:
            return 0.0


def breaks(run: RunRecord) -> list[Break]:
    """Everything that did not suffice, first things first."""
    return sorted(_breaks(run), key=lambda each: each.at_s)


def first_to_break(run: RunRecord) -> str:
    """In a sentence."""
    if found := breaks(run):
        return f"What breaks first: {found[0]}."
    busy, part = busiest(run)
    return f"Nothing breaks; what is busiest is the {busy}, {part:.0%} of the time."


def busiest(run: RunRecord) -> tuple[str, float]:
    """What has the highest utilisation over the run, and that."""
    return max(
        ((name, float(column.mean())) for name, column in utilisations(run)),
        key=lambda each: each[1],
        default=("nothing", 0.0),
    )


def utilisations(run: RunRecord) -> Iterator[tuple[str, np.ndarray]]:
    """Of cores, disks and event loops: name, and a value for each window."""
    gauges = run.gauges
    for k, place in enumerate(run.layout.places):
        yield place.name, gauges.cores[:, k]
    for k, process in enumerate(run.layout.processes):
        yield f"event loop of {process}", gauges.loops[:, k]
    threads = run.layout.service.processes["threads"]
    for k, process in enumerate(run.layout.processes):
        yield f"threads of {process}", gauges.threads[:, k] / threads[k]


def places(run: RunRecord) -> pd.DataFrame:
    """A row for each window and place, tidy; needs pandas: ``begin_s``, ``end_s``, ``place``, the
    part of it that was ``used``, and how many waited for it on average (``queue``); nan: it has no
    such thing."""
    gauges = run.gauges
    queues = {
        f"event loop of {process}": gauges.queues[:, k]
        for k, process in enumerate(run.layout.processes)
    }
    queues |= {
        f"threads of {process}": gauges.thread_queues[:, k]
        for k, process in enumerate(run.layout.processes)
    }
    used = dict(utilisations(run))
    links = [f"{link.a} to {link.b}" for link in run.layout.model.links]
    by_link = gauges.connection_queues.reshape(len(gauges.in_flight), len(links), -1).sum(axis=2)
    queues |= {f"connections {link}": by_link[:, k] for k, link in enumerate(links)}
    queues |= {f"limit {k + 1}": column for k, column in enumerate(gauges.limit_queues.T)}
    none = np.full(len(gauges.in_flight), math.nan)
    rows = [
        (begin, end, name, used.get(name, none)[k], queues.get(name, none)[k])
        for name in dict.fromkeys([*used, *queues])
        for k, (begin, end) in enumerate(pairwise(run.edges_s))
    ]
    return load_pandas().DataFrame(rows, columns=["begin_s", "end_s", "place", "used", "queue"])


def _breaks(run: RunRecord) -> Iterator[Break]:
    lengths = np.diff(run.edges_s)
    attempts = np.array([counts.attempts.sum(axis=0) for counts in run.collector.windows])
    offered = attempts.sum(axis=1) / lengths

    def first(bad: np.ndarray, what: str) -> Iterator[Break]:
        if bad.any():
            k = int(np.argmax(bad))
            yield Break(float(run.edges_s[k]), what, float(offered[k]))

    expected = OFTEN * attempts.sum(axis=1)
    too_many = np.maximum(expected + 3 * np.sqrt(expected), 2)  # not by chance
    at_limits = run.gauges.limit_refusals.sum(axis=1) * lengths * 1000
    yield from first(at_limits > too_many, "too many keys are made at a time")
    at_keys = attempts[:, 1] - at_limits
    yield from first(at_keys > too_many, "calls are refused because their keys are in use")
    for column, what in ((2, "callers run out of time"), (3, "calls break off")):
        yield from first(attempts[:, column] > too_many, what)
    for name, used in utilisations(run):
        yield from first(used > FULL, f"the {name} is full")
    for part, memory in run.memory_mb.items():
        limit = run.deployment.parts[part].memory_mb
        yield from first(memory > limit, f"{part} needs more than its {limit:g} MB")


def recovered_s(run: RunRecord, over_s: float) -> float:
    """How long after the end of an overload as few calls are under way as before it began, and stay
    so; infinite: that has not happened by the end of the run.

    Args:
        over_s: when what caused it was over.
    """
    if isinstance(run.workload.arrivals, Users):
        usual = run.gauges.in_flight[1, 0]
    else:
        usual = np.median(run.gauges.in_flight[: max(1, _before(run))])
    bad = run.gauges.in_flight[:, 0] > max(WELL * usual, usual + 3)
    bad &= run.edges_s[1:] > over_s
    if not bad.any():
        return 0.0
    last = int(np.flatnonzero(bad)[-1])
    if last == len(bad) - 1:
        return math.inf
    return float(run.edges_s[last + 1] - over_s)


def _before(run: RunRecord) -> int:
    """Windows before anything happens."""
    first = min((begin for begin, _ in disturbed_s(run)), default=run.length_s / 10)
    return int(np.searchsorted(run.edges_s, first, "right")) - 1


def disturbed_s(run: RunRecord) -> list[tuple[float, float]]:
    """When something happened that is not always so: begin and end of events and bursts."""
    found = [events.during_s(event) for event in run.workload.events]
    if isinstance(arrivals := run.workload.arrivals, Bursts):
        found += arrivals.during_s(run.length_s)
    return sorted((begin, min(end, run.length_s)) for begin, end in found if begin < run.length_s)
