"""Who computes on a machine, or uses its disk, and how fast.

Whoever is at a place gets the same share of it, and one core at most (Linux's scheduler, to first
order). All in a process that hold the interpreter lock ask for one share together.
"""

from __future__ import annotations

import math

from mpcsim.capacity.kernel.records import NONE, Record
from mpcsim.sim.network.tcp.compiled import compiled


@compiled
def _share(place: Record) -> float:
    """Of full speed, for each slot."""
    return min(1.0, place.capacity / place.slots) if place.slots else 0.0


@compiled
def settle(place: Record, processes: Record, runners: Record, now: float) -> None:
    """Account for what its runners have done up to now."""
    passed = now - place.since
    place.since = now
    if passed <= 0.0:
        return
    share = _share(place) * passed
    place.used += share * place.slots
    k = place.first
    while k != NONE:
        runner = runners[k]
        runner.left -= share / processes[runner.process].locked if runner.locks else share
        k = runner.following


@compiled
def _plan(place: Record, processes: Record, runners: Record) -> None:
    """Note when the first of its runners is through, if nobody comes or leaves."""
    share = _share(place)
    soonest = math.inf
    k = place.first
    while k != NONE:
        runner = runners[k]
        rate = share / processes[runner.process].locked if runner.locks else share
        soonest = min(soonest, max(0.0, runner.left) / rate)
        k = runner.following
    place.next = place.since + soonest


@compiled
def enter(places: Record, processes: Record, runners: Record, k: int, at: int, now: float) -> None:
    """Runner ``k`` begins at a place; what is ``left`` for it to do is known."""
    runner, place = runners[k], places[at]
    settle(place, processes, runners, now)
    runner.place = at
    runner.before = NONE
    runner.following = place.first
    if place.first != NONE:
        runners[place.first].before = k
    place.first = k
    if runner.locks:
        processes[runner.process].locked += 1
    if not runner.locks or processes[runner.process].locked == 1:
        place.slots += 1
    _plan(place, processes, runners)


@compiled
def leave(places: Record, processes: Record, runners: Record, k: int, now: float) -> None:
    """Runner ``k`` is through, or is held up."""
    runner = runners[k]
    place = places[runner.place]
    settle(place, processes, runners, now)
    runner.place = NONE
    if runner.before == NONE:
        place.first = runner.following
    else:
        runners[runner.before].following = runner.following
    if runner.following != NONE:
        runners[runner.following].before = runner.before
    if runner.locks:
        processes[runner.process].locked -= 1
    if not runner.locks or processes[runner.process].locked == 0:
        place.slots -= 1
    _plan(place, processes, runners)


@compiled
def soonest(places: Record) -> int:
    """The place where somebody is through first; NONE: nobody is anywhere."""
    found = NONE
    at = math.inf
    for k in range(len(places)):
        if places[k].next < at:
            at = places[k].next
            found = k
    return found


@compiled
def through(place: Record, processes: Record, runners: Record, now: float) -> int:
    """The runner that is through there."""
    settle(place, processes, runners, now)
    found = place.first
    k = found
    while k != NONE:
        if runners[k].left < runners[found].left:
            found = k
        k = runners[k].following
    return int(found)
