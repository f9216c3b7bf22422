"""Who computes on a machine, or uses its disk.

Each core has a queue, as in Linux's scheduler. Whoever wakes up goes to the core where it was last,
or to another that is free; but sometimes to the core of who woke it, though others are free. If
somebody computes there whose process has had more of the cores lately, it sometimes goes before
that; else it waits. Who has had a core for long while others wait for it goes behind them, or one
of these to a core that is free; and a core that becomes free sometimes takes over one who has
waited for another, unless it has waited for less than ``hot_ms``: it is left where its caches are,
though a core is idle (Linux's ``sched_migration_cost_ns``). How often is measured
(``costs.Scheduling``).

All in a process that hold the interpreter lock are one, and take turns among themselves. A disk
serves everybody at once.
"""

from __future__ import annotations

import math

from mpcsim.capacity.kernel.records import NONE, Record
from mpcsim.sim.network.tcp.compiled import compiled

SLICE = 4.0
"""How long somebody keeps a core that others wait for: until the kernel looks (250 times a
second)."""
LATELY = 50.0
"""In which a process's share of the cores is forgotten: its time constant."""


@compiled
def settle(place: Record, processes: Record, runners: Record, now: float) -> None:
    """Account for what its runners have done up to now."""
    passed = now - place.since
    place.since = now
    if passed <= 0.0:
        return
    place.used += passed * place.busy
    k = place.first
    while k != NONE:
        runner = runners[k]
        if runner.computes:
            runner.left -= passed / processes[runner.process].locked if runner.locks else passed
        k = runner.following


@compiled
def _plan(place: Record, processes: Record, runners: Record) -> None:
    """Note what happens next, if nobody comes or leaves: somebody is through (``over``), or has had
    a core for long."""
    place.next = math.inf
    place.over = NONE
    k = place.first
    while k != NONE:
        runner = runners[k]
        if runner.computes:
            times = processes[runner.process].locked if runner.locks else 1
            through = place.since + max(0.0, runner.left) * times
            if through < place.next:
                place.next = through
                place.over = k
        k = runner.following
    if place.waiting == 0:
        return
    k = place.first
    while k != NONE:
        runner = runners[k]
        if runner.computes and runner.began + SLICE < place.next and _next(place, runners, k) != k:
            place.next = max(place.since, runner.began + SLICE)
            place.over = NONE
        k = runner.following


# ---------------------------------------------------------------------- the chain of a place


@compiled
def _last(place: Record, runners: Record, k: int) -> None:
    """Put a runner behind all others."""
    runners[k].before = place.last
    runners[k].following = NONE
    if place.last == NONE:
        place.first = k
    else:
        runners[place.last].following = k
    place.last = k


@compiled
def _first(place: Record, runners: Record, k: int) -> None:
    """Put a runner before all others."""
    runners[k].before = NONE
    runners[k].following = place.first
    if place.first == NONE:
        place.last = k
    else:
        runners[place.first].before = k
    place.first = k


@compiled
def _out(place: Record, runners: Record, k: int) -> None:
    runner = runners[k]
    if runner.before == NONE:
        place.first = runner.following
    else:
        runners[runner.before].following = runner.following
    if runner.following == NONE:
        place.last = runner.before
    else:
        runners[runner.following].before = runner.before


# ---------------------------------------------------------------------- cores


@compiled
def _one(runners: Record, k: int, other: int) -> bool:
    """Whether two are one: themselves, or by the interpreter lock."""
    if k == other:
        return True
    one, two = runners[k], runners[other]
    return bool(one.locks) and bool(two.locks) and bool(one.process == two.process)


@compiled
def account(process: Record, work: float, now: float) -> None:
    """A process gets something to do."""
    process.lately = work + process.lately * math.exp((process.lately_at - now) / LATELY)
    process.lately_at = now


@compiled
def _less(processes: Record, p: int, other: int, now: float) -> bool:
    """Whether a process has had less of the cores lately than another."""
    one, two = processes[p], processes[other]
    had = one.lately * math.exp((one.lately_at - now) / LATELY)
    return bool(had < two.lately * math.exp((two.lately_at - now) / LATELY))


@compiled
def _set(place: Record, runners: Record, k: int, core: int, computes: int, now: float) -> None:
    """Whoever is one with a runner gets a core, or waits for it."""
    other = place.first
    while other != NONE:
        if _one(runners, k, other):
            runners[other].core = core
            runners[other].computes = computes
            runners[other].began = now
        other = runners[other].following
    place.busy += 1 if computes else -1
    place.waiting += -1 if computes else 1


@compiled
def _behind(place: Record, runners: Record, k: int) -> None:
    """Put all that are one with a runner behind all others."""
    last = place.last
    other = place.first
    while other != NONE:
        following = runners[other].following
        if _one(runners, k, other):
            _out(place, runners, other)
            _last(place, runners, other)
        if other == last:
            return
        other = following


@compiled
def _on(place: Record, runners: Record, core: int) -> int:
    """Who computes on a core; NONE: it is free."""
    k = place.first
    while k != NONE:
        if runners[k].computes and runners[k].core == core:
            return int(k)
        k = runners[k].following
    return NONE


@compiled
def _next(place: Record, runners: Record, k: int) -> int:
    """The first who waits for the same core as a runner; itself: nobody."""
    other = place.first
    while other != NONE:
        if not runners[other].computes and runners[other].core == runners[k].core:
            return int(other)
        other = runners[other].following
    return k


@compiled
def _free(place: Record, runners: Record) -> int:
    """A core that nobody computes on; NONE: there is none."""
    if place.busy >= place.cores:
        return NONE
    core = 0
    while _on(place, runners, core) != NONE:
        core += 1
    return core


@compiled
def _chosen(place: Record, runners: Record, k: int, waker: int, drawn: float) -> int:
    """The core to which somebody goes who has woken up.

    Args:
        waker: the core of who woke it; NONE: nobody of this machine.
    """
    before = runners[k].core if runners[k].core != NONE else k % place.cores
    if waker == NONE:
        waker = before
    if drawn < place.together:
        return int(waker)
    if _on(place, runners, before) == NONE:
        return int(before)
    free = _free(place, runners)
    return int(waker if free == NONE else free)


@compiled
def enter(
    place: Record,
    processes: Record,
    runners: Record,
    k: int,
    waker: int,
    drawn: float,
    again: float,
    now: float,
) -> None:
    """Runner ``k`` begins at a place that is not its own yet; what is ``left`` for it to do is
    known.

    Args:
        waker: as for ``_chosen``.
        drawn: to which core it goes; ``again``: whether it goes before who has it. From 0 to 1.
    """
    runner = runners[k]
    settle(place, processes, runners, now)
    if runner.locks:
        processes[runner.process].locked += 1
    if place.cores == 0:
        runner.computes = 1
        place.busy += 1
        _last(place, runners, k)
    elif runner.locks and processes[runner.process].locked > 1:
        other = place.first
        while not _one(runners, k, other):
            other = runners[other].following
        runner.core = runners[other].core
        runner.computes = runners[other].computes
        runner.began = runners[other].began
        _last(place, runners, k)
    else:
        core = _chosen(place, runners, k, waker, drawn)
        there = _on(place, runners, core)
        runner.core = core
        runner.computes = 0
        runner.began = now
        place.waiting += 1
        if there == NONE:
            _last(place, runners, k)
            _set(place, runners, k, core, 1, now)
        elif again < place.ahead and _less(processes, runner.process, runners[there].process, now):
            _set(place, runners, there, core, 0, now)
            _out(place, runners, there)
            _first(place, runners, there)
            _first(place, runners, k)
            _set(place, runners, k, core, 1, now)
        else:
            _last(place, runners, k)
    _plan(place, processes, runners)


@compiled
def go_on(place: Record, processes: Record, runners: Record, now: float) -> None:
    """Somebody there has more to do: what is ``left`` for it is known."""
    settle(place, processes, runners, now)
    _plan(place, processes, runners)


@compiled
def leave(
    place: Record, processes: Record, runners: Record, k: int, drawn: float, now: float
) -> None:
    """Runner ``k`` is through, or is held up.

    Args:
        drawn: whether its core takes over who waits for another. From 0 to 1.
    """
    runner = runners[k]
    settle(place, processes, runners, now)
    _out(place, runners, k)
    if runner.locks:
        processes[runner.process].locked -= 1
    if runner.locks and processes[runner.process].locked:
        _plan(place, processes, runners)
        return
    if not runner.computes:
        place.waiting -= 1
    else:
        place.busy -= 1
        if place.waiting:
            _hand_over(place, runners, k, drawn, now)
    _plan(place, processes, runners)


@compiled
def _hand_over(place: Record, runners: Record, k: int, drawn: float, now: float) -> None:
    """A core is free that runner ``k`` had."""
    core = runners[k].core
    other = _next(place, runners, k)
    if other == k and drawn < place.takes:
        other = _pulled(place, runners, k, now)
    if other != k:
        _set(place, runners, other, core, 1, now)


@compiled
def _pulled(place: Record, runners: Record, k: int, now: float) -> int:
    """The first who waits for another core, and has waited for a while; runner ``k``: nobody."""
    other = place.first
    while other != NONE:
        if not runners[other].computes and now - runners[other].began >= place.hot_ms:
            return int(other)
        other = runners[other].following
    return k


@compiled
def soonest(places: Record) -> int:
    """The place where something happens first; NONE: nobody is anywhere."""
    found = NONE
    at = math.inf
    for k in range(len(places)):
        if places[k].next < at:
            at = places[k].next
            found = k
    return found


@compiled
def through(place: Record, processes: Record, runners: Record, now: float) -> int:
    """The runner that is through there; NONE: one has had its core for long, and others have been
    seen to."""
    settle(place, processes, runners, now)
    if place.over != NONE:
        return int(place.over)
    k = place.first
    tired = NONE
    while k != NONE:
        runner = runners[k]
        waited_for = runner.computes and _next(place, runners, k) != k
        if waited_for and (tired == NONE or runner.began < runners[tired].began):
            tired = k
        k = runner.following
    other = _next(place, runners, tired)
    core, free = runners[tired].core, _free(place, runners)
    _set(place, runners, tired, core, 0, now)
    if free != NONE:
        _set(place, runners, other, free, 1, now)
        _set(place, runners, tired, core, 1, now)
    else:
        _behind(place, runners, tired)
        _set(place, runners, other, core, 1, now)
    _plan(place, processes, runners)
    return NONE
