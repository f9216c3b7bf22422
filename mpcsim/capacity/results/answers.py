"""Conclusions from a run: overload, saturation, and recovery from a disturbance.

Each of these statements rests on a test. ``ERROR_RATE`` is the share of runs in which it is made
although nothing of the kind is the case.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from statistics import NormalDist
from typing import TYPE_CHECKING, Final

import numpy as np

from mpcsim.capacity.model import incidents as events
from mpcsim.capacity.model.arrivals import Bursts, Profile, Steady, Times, Users
from mpcsim.capacity.results.record import RunRecord
from mpcsim.sim.traces.frame import load_pandas

if TYPE_CHECKING:
    import pandas as pd

FULL: Final = 0.95
"""Utilisation from which a resource counts as saturated."""
OFTEN: Final = 0.001
"""Share of a window's attempts from which refusals and time-outs count."""
ERROR_RATE: Final = 0.01
KINDS: Final = 4
"""Kinds of failure of calls, each of which is tested in each window."""
GROWING: Final = 0.02
"""Share of unanswered arrivals from which a queue counts as growing."""
BY_CHANCE: Final = NormalDist().inv_cdf(1 - ERROR_RATE / 2) * math.sqrt(2 * 1.2)
"""Standard deviations of the number of arrivals by which the queue must also grow. A service at its
capacity (M/M/1 with a load of 1) has a queue that is a reflected random walk: twice the variance of
the arrivals, 1.2 times that in the slope of a regression line."""
NEAR: Final = 0.7
"""Share of the capacity by demand below which no steady rate is an overload."""
WELL: Final = 1.5
"""Calls in flight, relative to those before a disturbance, at which it counts as over."""


@dataclass(frozen=True)
class Saturation:
    """Shortage that a test has found: a saturated resource, failing calls, growing queues, or
    memory."""

    at_s: float
    what: str
    offered_per_s: float
    """Offered load in that window."""

    def __str__(self) -> str:
        came = f"when {self.offered_per_s:.3g} calls a second came"
        return f"{self.what}, from {format_clock(self.at_s)} on, {came}"


def format_clock(seconds: float) -> str:
    """Return a time of a run as h:mm:ss."""
    whole = round(seconds)
    return f"{whole // 3600}:{whole // 60 % 60:02}:{whole % 60:02}"


def overload(run: RunRecord) -> str:
    """Return by how much arrivals exceed answers in the long run, and why; empty: they do not, or
    that is undecided.

    Near capacity a queue grows by chance, too, and during an incident because of it: where the
    demand alone does not decide, windows with incidents are left out, and the growth must exceed
    chance (``BY_CHANCE``).
    """
    offered = _offered_per_s(run)
    if isinstance(run.workload.arrivals, Steady):
        least = NEAR * run.demand.most_per_s  # the demand is without event-loop iterations
    else:
        least = run.demand.most_per_s
    if run.demand.seconds and offered < least:
        return ""  # the rate is not the cause of growth
    under_way = run.gauges.in_flight[:, 0]
    n = len(under_way)
    later = np.arange(n // 2, n)
    if offered < run.demand.most_per_s:
        for begin, end in disturbances_s(run):
            happens = (run.edges_s[later + 1] > begin) & (run.edges_s[later] < end)
            later = later[np.flatnonzero(happens)[-1] + 1 :] if happens.any() else later
    if n < 4 or len(later) < 2:
        return ""
    middle = (run.edges_s[later] + run.edges_s[later + 1]) / 2
    grows = float(np.polyfit(middle, under_way[later], 1)[0])
    length = float(run.edges_s[-1] - run.edges_s[later[0]])
    if grows < GROWING * offered or under_way[-1] < 1.5 * under_way[later[0]]:
        return ""
    if grows * length < BY_CHANCE * math.sqrt(offered * length):
        return ""
    return (
        f"{offered:g} calls a second come and {offered - grows:.3g} are answered: those under way "
        f"grow by {grows:.3g} a second, without bound; the bottleneck is the "
        f"{run.demand.bottleneck}, {run.demand.at_most}"
    )


def _offered_per_s(run: RunRecord) -> float:
    """Return the offered load in the long run, of given times that in the second half of the run;
    0: the workload does not say."""
    match arrivals := run.workload.arrivals:
        case Steady():
            return arrivals.per_s
        case Profile():
            return float(np.mean(arrivals.per_s))
        case Bursts():
            part = arrivals.lasting_s / arrivals.every_s
            return arrivals.per_s + part * (arrivals.burst_per_s - arrivals.per_s)
        case Times():
            return run.offered_per_s((run.edges_s[len(run.edges_s) // 2], run.length_s))
        case _:
            return 0.0


def saturations(run: RunRecord) -> list[Saturation]:
    """Return all shortages that tests find, by time."""
    return sorted(_saturations(run), key=lambda each: each.at_s)


def first_to_break(run: RunRecord) -> str:
    """Return a sentence with the first shortage, or that none is found."""
    if found := saturations(run):
        return f"What breaks first: {found[0]}."
    busy, part = busiest(run)
    law = "" if busy in dict(utilisations(run)) else " by the utilisation law"
    return (
        f"No shortage is found (tests err in {ERROR_RATE:.0%} of runs); the busiest is the {busy}, "
        f"used {part:.0%} of the time{law}."
    )


def busiest(run: RunRecord) -> tuple[str, float]:
    """Return the resource with the highest utilisation over the run, and that. Of a link it is by
    the utilisation law: the rate of attempts that are not refused, times demand. The service
    continues with those that time out."""
    used = {name: float(column.mean()) for name, column in utilisations(run)}
    outcomes = run.outcomes()
    per_s = (sum(outcomes.values()) - outcomes["refused"]) / run.length_s
    for name, call_s in run.demand.seconds.items():
        used.setdefault(name, min(1.0, call_s * per_s))
    return max(used.items(), key=lambda each: each[1], default=("nothing", 0.0))


def utilisations(run: RunRecord) -> Iterator[tuple[str, np.ndarray]]:
    """Yield names and utilisations (a value for each window) of cores, event loops and threads; a
    disk serves all at once, and has none."""
    gauges = run.gauges
    for k, place in enumerate(run.layout.resources):
        if place.cores:
            yield place.name, gauges.cores[:, k]
    for k, process in enumerate(run.layout.processes):
        yield f"event loop of {process}", gauges.loops[:, k]
    threads = run.layout.service.processes["threads"]
    for k, process in enumerate(run.layout.processes):
        yield f"threads of {process}", gauges.threads[:, k] / threads[k]


def resources(run: RunRecord) -> pd.DataFrame:
    """Return a row for each window and resource, tidy; needs pandas: ``begin_s``, ``end_s``,
    ``place``, its utilisation (``used``), and the mean queue length (``queue``); nan: it has no
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


def _saturations(run: RunRecord) -> Iterator[Saturation]:
    yield from _failures(run)
    yield from _saturated(run)
    yield from _queue_growth(run)
    machines: dict[str, list[str]] = {}
    for name, part in run.deployment.parts.items():
        machines.setdefault(f"machine {part.machine}" if part.machine else name, []).append(name)
    for what, names in machines.items():
        limit = min(run.deployment.parts[name].memory_mb for name in names)
        memory = np.sum([run.memory_mb[name] for name in names], axis=0)
        if (over := np.flatnonzero(memory > limit)).size:
            yield _saturation_in(run, int(over[0]), f"{what} needs more than its {limit:g} MB")


def _saturation_in(run: RunRecord, window: int, what: str) -> Saturation:
    """Return a shortage that begins in a window."""
    begin, end = run.edges_s[window : window + 2]
    came = float(run.collector.windows[window].came.sum())
    return Saturation(float(begin), what, came / float(end - begin))


def _failures(run: RunRecord) -> Iterator[Saturation]:
    """Yield kinds of failure whose share in a window is significantly above ``OFTEN``."""
    lengths = np.diff(run.edges_s)
    attempts = np.array([counts.attempts.sum(axis=0) for counts in run.collector.windows])
    at_limits = run.gauges.limit_refusals.sum(axis=1) * lengths * 1000
    kinds = {
        "too many keys are made at a time": at_limits,
        "calls are refused because their keys are in use": attempts[:, 1] - at_limits,
        "callers run out of time": attempts[:, 2],
        "calls break off": attempts[:, 3],
    }
    surely = ERROR_RATE / (KINDS * len(attempts))
    for what, failed in kinds.items():
        for window, (count, every) in enumerate(zip(failed, attempts.sum(axis=1), strict=True)):
            if poisson_tail(round(float(count)), OFTEN * float(every)) < surely:
                yield _saturation_in(run, window, what)
                break


def poisson_tail(count: int, mean: float) -> float:
    """Return the probability that a Poisson variable is at least ``count``."""
    if count <= mean or mean <= 0:
        return float(count <= mean)
    term = math.exp(count * math.log(mean) - mean - math.lgamma(count + 1))
    total = 0.0
    while term > 1e-12 * total:
        total += term
        count += 1
        term *= mean / count
    return total


def _saturated(run: RunRecord) -> Iterator[Saturation]:
    """Yield resources whose utilisation is significantly above ``FULL`` in the long run, or whose
    demand exceeds their capacity during a burst or all the time."""
    full = dict(utilisations(run))
    found: dict[str, int] = {}

    def note(name: str, windows: range) -> None:
        first = next((k for k in windows if name not in full or full[name][k] > FULL), None)
        if first is not None:
            found[name] = min(first, found.get(name, first))

    settled = run.windows()
    for name, used in full.items():
        call_s = run.demand.seconds.get(name, 0.0)
        length_s = float(run.edges_s[settled.stop] - run.edges_s[settled.start])
        # Work arrives as a compound Poisson process with exponential service demands.
        chance = math.sqrt(2 * FULL * call_s / length_s) * NormalDist().inv_cdf(1 - ERROR_RATE)
        if used[settled.start : settled.stop].mean() > FULL + chance:
            note(name, settled)
    bottleneck = run.demand.bottleneck
    if bottleneck in run.demand.seconds:
        if overload(run):
            note(bottleneck, range(len(run.edges_s) - 1))
        for begin, end in _too_high_rates(run):
            inside = (run.edges_s[:-1] >= begin) & (run.edges_s[1:] <= end)
            windows = np.flatnonzero(inside)
            note(bottleneck, range(windows[0], windows[-1] + 1) if windows.size else range(0))
    for name, window in found.items():
        yield _saturation_in(run, window, f"the {name} is full")


def _too_high_rates(run: RunRecord) -> list[tuple[float, float]]:
    """Return the intervals in which the workload offers more than the demand allows."""
    arrivals = run.workload.arrivals
    if isinstance(arrivals, Users | Times):
        return []
    pieces = arrivals.pieces(0.0, run.length_s)
    return [(begin, end) for begin, end, per_s in pieces if per_s >= run.demand.most_per_s]


def _queue_growth(run: RunRecord) -> Iterator[Saturation]:
    """Yield incidents during which queues grow: in all windows then, more calls are in flight than
    in any before, which has a probability below ``ERROR_RATE`` among exchangeable windows (a rank
    test; Wilcoxon, 1945). Windows are merged so that they hardly depend on each other."""
    first = min((events.active_interval_s(each)[0] for each in run.workload.events), default=0.0)
    relaxation_time_s = run.relaxation_time_s()
    if not 0 < first < run.length_s or not relaxation_time_s < math.inf:
        return
    together = max(1, math.ceil(2 * relaxation_time_s / float(run.edges_s[1])))
    under_way = run.gauges.in_flight[:, 0]
    before = _batches(
        under_way[1 : int(np.searchsorted(run.edges_s, first, "right")) - 1], together
    )
    for event in run.workload.events:
        begin, end = events.active_interval_s(event)
        inside = np.flatnonzero((run.edges_s[:-1] >= begin) & (run.edges_s[1:] <= end))
        during = _batches(under_way[inside], together)
        if isinstance(event, events.BulkReshare) or not before.size or not during.size:
            continue
        chance = 1 / math.comb(before.size + during.size, during.size)
        if chance < ERROR_RATE and during.min() > before.max():
            what = f"calls wait ({during.max():.3g} under way, {before.mean():.3g} before)"
            yield _saturation_in(run, int(inside[0]), what)


def _batches(values: np.ndarray, together: int) -> np.ndarray:
    """Return the means of consecutive groups of values."""
    whole = len(values) // together * together
    return np.asarray(values[:whole].reshape(-1, together).mean(axis=1))


def recovered_s(run: RunRecord, over_s: float) -> float:
    """Return how long after the end of a disturbance the calls in flight are as few as before, and
    stay so; infinite: not by the end of the run.

    Args:
        over_s: when the cause was over.
    """
    if isinstance(run.workload.arrivals, Users):
        usual = run.gauges.in_flight[1, 0]
    else:
        usual = np.median(run.gauges.in_flight[: max(1, _undisturbed_windows(run))])
    bad = run.gauges.in_flight[:, 0] > max(WELL * usual, usual + 3)
    bad &= run.edges_s[1:] > over_s
    if not bad.any():
        return 0.0
    last = int(np.flatnonzero(bad)[-1])
    if last == len(bad) - 1:
        return math.inf
    return float(run.edges_s[last + 1] - over_s)


def _undisturbed_windows(run: RunRecord) -> int:
    """Return the number of windows before anything happens."""
    first = min((begin for begin, _ in disturbances_s(run)), default=run.length_s / 10)
    return int(np.searchsorted(run.edges_s, first, "right")) - 1


def disturbances_s(run: RunRecord) -> list[tuple[float, float]]:
    """Return beginnings and ends of incidents and bursts."""
    found = [events.active_interval_s(event) for event in run.workload.events]
    if isinstance(arrivals := run.workload.arrivals, Bursts):
        found += arrivals.active_intervals_s(run.length_s)
    return [(begin, min(end, run.length_s)) for begin, end in found if begin < run.length_s]
