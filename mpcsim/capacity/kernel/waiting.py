"""What jobs wait for beside their processes: to be one of so many inside a limit, or to have a turn
of their call's key.

Who has waited long enough learns it by an event at the same time.
"""

from __future__ import annotations

from mpcsim.capacity.kernel import heap
from mpcsim.capacity.kernel.records import (
    CALLED,
    ENTERS,
    GIVES_UP,
    NONE,
    NOTHING,
    PROCEEDS,
    TURN,
    Calls,
    Record,
    Service,
)
from mpcsim.sim.network.tcp.compiled import compiled


@compiled
def account(line: Record, now: float) -> None:
    """Note what a line was like up to now."""
    line.taken += line.inside * (now - line.since)
    line.queued += line.waiting * (now - line.since)
    line.since = now


# ---------------------------------------------------------------------- limits


@compiled
def enter(w: Calls, s: Service, j: int, number: int, now: float) -> int:
    """A job comes to a limit.

    Returns:
        1: it is inside; 0: it waits; NONE: there is no room for that.
    """
    job = s.jobs[j]
    limit = w.limits[number]
    call = w.calls[job.call]
    if call.limits >> number & 1:
        return 1
    account(limit, now)
    if limit.free > 0:
        limit.free -= 1
        limit.inside += 1
        call.limits |= 1 << number
        return 1
    if limit.waiting >= limit.room:
        limit.refused += 1
        return NONE
    job.parked = number
    job.following = NONE
    if limit.tail == NONE:
        limit.head = j
    else:
        s.jobs[limit.tail].following = j
    limit.tail = j
    limit.waiting += 1
    return 0


@compiled
def leave(w: Calls, s: Service, c: int, number: int, now: float) -> None:
    """A call leaves a limit, if it is inside; whoever waits gets in."""
    call = w.calls[c]
    if not call.limits >> number & 1:
        return
    call.limits &= ~(1 << number)
    limit = w.limits[number]
    account(limit, now)
    if limit.head == NONE:
        limit.free += 1
        limit.inside -= 1
        return
    j = limit.head
    job = s.jobs[j]
    limit.head = job.following
    if limit.head == NONE:
        limit.tail = NONE
    limit.waiting -= 1
    w.calls[job.call].limits |= 1 << number
    job.parked = CALLED
    heap.push(w.events, w.state[0], now, ENTERS, j, job.number)


@compiled
def leave_all(w: Calls, s: Service, c: int, now: float) -> None:
    """Nothing of a call is left."""
    number = 0
    while w.calls[c].limits:
        leave(w, s, c, number, now)
        number += 1


@compiled
def _take_out(line: Record, jobs: Record, j: int) -> None:
    """A job leaves a chain in which it waits, from wherever it is."""
    before = NONE
    k = line.head
    while k != j:
        before = k
        k = jobs[k].following
    if before == NONE:
        line.head = jobs[j].following
    else:
        jobs[before].following = jobs[j].following
    if line.tail == j:
        line.tail = before


@compiled
def stop_entering(w: Calls, s: Service, j: int, now: float) -> None:
    """A job that waits for a limit does so no longer."""
    job = s.jobs[j]
    limit = w.limits[job.parked]
    account(limit, now)
    _take_out(limit, s.jobs, j)
    limit.waiting -= 1
    job.parked = NOTHING


# ---------------------------------------------------------------------- turns


@compiled
def take(w: Calls, s: Service, j: int, now: float) -> int:
    """A job wants turns of its call's key; ``enter``'s answers."""
    job = s.jobs[j]
    call = w.calls[job.call]
    takes = w.messages[job.message].takes & ~call.turns
    key = w.keys[call.user]
    if not key.taken & takes:
        key.taken |= takes
        call.turns |= takes
        return 1
    operation = w.operations[call.operation]
    queue = 0
    k = key.head
    while k != NONE:
        if w.messages[s.jobs[k].message].takes & takes:
            queue += 1
        k = s.jobs[k].following
    if queue >= operation.queue:
        return NONE
    job.parked = TURN
    job.following = NONE
    if key.tail == NONE:
        key.head = j
    else:
        s.jobs[key.tail].following = j
    key.tail = j
    heap.push(w.events, w.state[0], now + operation.patience, GIVES_UP, j, job.number)
    return 0


@compiled
def give(w: Calls, s: Service, c: int, turns: int, now: float) -> None:
    """A call gives turns of its key up, as far as it has them; whoever waits for them has them."""
    call = w.calls[c]
    turns &= call.turns
    if not turns:
        return
    call.turns &= ~turns
    key = w.keys[call.user]
    key.taken &= ~turns
    k = key.head
    while k != NONE:
        job = s.jobs[k]
        following = job.following
        takes = w.messages[job.message].takes
        if not key.taken & takes:
            stop_taking(w, s, k)
            key.taken |= takes
            w.calls[job.call].turns |= takes
            job.parked = CALLED
            heap.push(w.events, w.state[0], now, PROCEEDS, k, job.number)
        k = following


@compiled
def stop_taking(w: Calls, s: Service, j: int) -> None:
    """A job that waits for a turn does so no longer."""
    job = s.jobs[j]
    key = w.keys[w.calls[job.call].user]
    _take_out(key, s.jobs, j)
    job.parked = NOTHING
