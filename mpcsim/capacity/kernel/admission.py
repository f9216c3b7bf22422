"""Admission: limits (semaphores with a FIFO queue) and exclusive locks of keys.

A limit admits ``at_once`` calls; ``capacity`` more wait in order, the others are refused
(``enter_limit``). A call leaves its limits when one of its messages says so, or when it is over.
A message may need locks of its call's key before the call continues (``acquire_locks``): of the
jobs that wait, the first whose locks are free gets them; after ``lock_timeout_ms``, or behind
``lock_queue`` others, a job is refused. Admitted jobs continue by an event at the same time.
"""

from __future__ import annotations

from mpcsim.capacity.kernel import event_queue
from mpcsim.capacity.kernel.records import (
    KEY_LOCK,
    LIMIT_ENTERED,
    LOCK_TIMEOUT,
    LOCKS_ACQUIRED,
    NONE,
    NOT_WAITING,
    WAKE_SCHEDULED,
    CallRecords,
    Record,
    ServiceRecords,
)
from mpcsim.sim.network.tcp.compiled import compiled


@compiled
def account_queue(queue: Record, now: float) -> None:
    """Add the time since the last change to the integrals of a queue."""
    queue.inside_ms += queue.inside * (now - queue.accounted_to)
    queue.queued_ms += queue.waiting * (now - queue.accounted_to)
    queue.accounted_to = now


# ---------------------------------------------------------------------- limits


@compiled
def append(queue: Record, members: Record, j: int) -> None:
    """Append a job, or a delivery, to a queue that is linked through ``following``."""
    members[j].following = NONE
    if queue.tail == NONE:
        queue.head = j
    else:
        members[queue.tail].following = j
    queue.tail = j


@compiled
def enter_limit(w: CallRecords, s: ServiceRecords, j: int, number: int, now: float) -> int:
    """Admit a job to a limit, queue it, or refuse it.

    Returns:
        1: it is inside; 0: it waits; NONE: the queue is full.
    """
    job = s.jobs[j]
    limit = w.limits[number]
    call = w.calls[job.call]
    if call.limits >> number & 1:
        return 1
    account_queue(limit, now)
    if limit.free > 0:
        limit.free -= 1
        limit.inside += 1
        call.limits |= 1 << number
        return 1
    if limit.waiting >= limit.capacity:
        limit.refused += 1
        return NONE
    job.waits_for = number
    append(limit, s.jobs, j)
    limit.waiting += 1
    return 0


@compiled
def leave_limit(w: CallRecords, s: ServiceRecords, c: int, number: int, now: float) -> None:
    """Take a call out of a limit, if it is inside, and admit the first in the queue."""
    call = w.calls[c]
    if not call.limits >> number & 1:
        return
    call.limits &= ~(1 << number)
    limit = w.limits[number]
    account_queue(limit, now)
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
    job.waits_for = WAKE_SCHEDULED
    event_queue.push(w.events, w.state[0], now, LIMIT_ENTERED, j, job.number)


@compiled
def leave_all_limits(w: CallRecords, s: ServiceRecords, c: int, now: float) -> None:
    """Take a call that is over out of all its limits."""
    number = 0
    while w.calls[c].limits:
        leave_limit(w, s, c, number, now)
        number += 1


@compiled
def _remove_job(queue: Record, jobs: Record, j: int) -> None:
    """Remove a job from a queue, wherever in it."""
    before = NONE
    k = queue.head
    while k != j:
        before = k
        k = jobs[k].following
    if before == NONE:
        queue.head = jobs[j].following
    else:
        jobs[before].following = jobs[j].following
    if queue.tail == j:
        queue.tail = before


@compiled
def leave_limit_queue(w: CallRecords, s: ServiceRecords, j: int, now: float) -> None:
    """Remove a job from the queue of the limit that it waits for."""
    job = s.jobs[j]
    limit = w.limits[job.waits_for]
    account_queue(limit, now)
    _remove_job(limit, s.jobs, j)
    limit.waiting -= 1
    job.waits_for = NOT_WAITING


# ---------------------------------------------------------------------- locks


@compiled
def acquire_locks(w: CallRecords, s: ServiceRecords, j: int, now: float) -> int:
    """Acquire the locks that a job's message needs; the result is as of ``enter_limit``."""
    job = s.jobs[j]
    call = w.calls[job.call]
    wanted = w.messages[job.message].acquires & ~call.held_locks
    key = w.keys[call.user]
    if not key.held & wanted:
        key.held |= wanted
        call.held_locks |= wanted
        return 1
    operation = w.operations[call.operation]
    waiting = 0
    k = key.head
    while k != NONE:
        if w.messages[s.jobs[k].message].acquires & wanted:
            waiting += 1
        k = s.jobs[k].following
    if waiting >= operation.lock_queue:
        return NONE
    job.waits_for = KEY_LOCK
    append(key, s.jobs, j)
    event_queue.push(
        w.events, w.state[0], now + operation.lock_timeout_ms, LOCK_TIMEOUT, j, job.number
    )
    return 0


@compiled
def release_locks(w: CallRecords, s: ServiceRecords, c: int, locks: int, now: float) -> None:
    """Release locks of a call, as far as it holds them, to the first jobs that can have them."""
    call = w.calls[c]
    locks &= call.held_locks
    if not locks:
        return
    call.held_locks &= ~locks
    key = w.keys[call.user]
    key.held &= ~locks
    k = key.head
    while k != NONE:
        job = s.jobs[k]
        following = job.following
        wanted = w.messages[job.message].acquires
        if not key.held & wanted:
            leave_lock_queue(w, s, k)
            key.held |= wanted
            w.calls[job.call].held_locks |= wanted
            job.waits_for = WAKE_SCHEDULED
            event_queue.push(w.events, w.state[0], now, LOCKS_ACQUIRED, k, job.number)
        k = following


@compiled
def leave_lock_queue(w: CallRecords, s: ServiceRecords, j: int) -> None:
    """Remove a job from the queue of its call's key."""
    job = s.jobs[j]
    key = w.keys[w.calls[job.call].user]
    _remove_job(key, s.jobs, j)
    job.waits_for = NOT_WAITING
