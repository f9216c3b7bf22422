"""Main loop of the discrete-event simulation: next-event time advance over four sources.

These are, in this order at equal times: the network's transfers, completions at resources, the
event queue, and arrivals. Python gives room and further arrivals when the loop returns for them.
"""

from __future__ import annotations

import math

from mpcsim.capacity.kernel import (
    admission,
    connection_pool,
    cpu_scheduler,
    event_queue,
    incidents,
    messages,
    process_failures,
    process_queues,
)
from mpcsim.capacity.kernel.calls import completion, orders
from mpcsim.capacity.kernel.records import (
    ANSWER_OVERDUE,
    CALL_FAILS,
    CALL_TIMEOUT,
    INCIDENT_CHANGES,
    JOB_DONE,
    KEY_LOCK,
    LIMIT_ENTERED,
    LOCK_TIMEOUT,
    LOCKS_ACQUIRED,
    MARGIN,
    MESSAGE_ARRIVES,
    NEED_ARRIVALS,
    NEED_CALLS,
    NEED_CONNECTIONS,
    NEED_EVENTS,
    NEED_JOBS,
    NEED_LATENCIES,
    NEED_ORDERS,
    NEED_ROWS,
    NEED_SLOW_CALLS,
    NEED_TRANSFERS,
    NONE,
    ORDER_DUE,
    PROCESS_DRAINED,
    PROCESS_RESTARTS,
    TIME_REACHED,
    TIMED_OUT,
    USER_STARTS,
    CallRecords,
    ServiceRecords,
)
from mpcsim.sim.network.tcp import traffic
from mpcsim.sim.network.tcp.compiled import compiled, entry
from mpcsim.sim.network.tcp.state import Records


@entry
def run(w: CallRecords, n: Records, s: ServiceRecords, stop: float) -> int:
    """Advance virtual time to ``stop``.

    Returns:
        ``TIME_REACHED``, or the array that must grow first: a code of ``NEED_CALLS`` and the like.
    """
    state = w.state[0]
    while True:
        needed = room_needed(w, n)
        if needed != TIME_REACHED:
            return needed
        next_arrival = w.arrivals[state.next].due if state.next < len(w.arrivals) else math.inf
        resource = cpu_scheduler.next_resource(s.resources)
        next_completion = s.resources[resource].next_at if resource != NONE else math.inf
        next_event = w.events[0].at if state.events else math.inf
        until = min(min(next_arrival, next_completion), min(next_event, stop))
        found, at = traffic.advance(n, False, state.now, min(until, state.arrivals_known_to))
        if found >= 0:
            state.now = at
            messages.finish_transfer(w, n, s, found, at)
            connection_pool.place_transfers(w, n, len(s.processes), at)
            continue
        if until > state.arrivals_known_to:
            state.now = state.arrivals_known_to
            return NEED_ARRIVALS
        if until == math.inf:
            return TIME_REACHED
        state.now = until
        if next_completion == until:
            j = process_queues.finish_stage(s, resource, until)
            if j != NONE:
                messages.finish_handling(w, n, s, j, until)
        elif next_event == until:
            event_queue.pop(w.events, state)
            e = w.events[state.events]
            _apply_event(w, n, s, e.kind, e.of, e.number, until)
        elif next_arrival == until:
            _start_arrival(w, n, s, until)
        else:
            return TIME_REACHED
        connection_pool.place_transfers(w, n, len(s.processes), until)


@compiled
def room_needed(w: CallRecords, n: Records) -> int:
    """Return which array must grow before the next event, or TIME_REACHED: none."""
    state = w.state[0]
    if state.rows + MARGIN > len(w.rows):
        return NEED_ROWS
    if state.slow_calls == len(w.slow_calls):
        return NEED_SLOW_CALLS
    if state.free_call == NONE:
        return NEED_CALLS
    if state.free_order == NONE:
        return NEED_ORDERS
    if state.events + MARGIN + len(w.calls) > len(w.events):  # all may fail at once
        return NEED_EVENTS
    if n.pool[0].spare < 0 and n.pool[0].used + MARGIN > len(n.connections):
        return NEED_CONNECTIONS
    if state.spare_jobs < MARGIN:
        return NEED_JOBS
    if state.spare_transfers < MARGIN:
        return NEED_TRANSFERS
    if state.most_used + MARGIN > w.latencies.shape[2]:
        return NEED_LATENCIES
    return TIME_REACHED


@compiled
def _apply_event(
    w: CallRecords, n: Records, s: ServiceRecords, kind: int, of: int, number: int, now: float
) -> None:
    """Apply an event from the event queue."""
    if kind == MESSAGE_ARRIVES:
        messages.deliver_message(w, n, s, of, number, now)
    elif kind == ORDER_DUE:
        _start_attempt(w, n, s, of, now)
    elif kind == ANSWER_OVERDUE:
        process_failures.fail_if_overdue(w, of, number, now)
    elif kind == CALL_FAILS:
        process_failures.fail_call(w, n, s, of, now)
    elif apply_common_event(w, n, s, kind, of, number, now) or s.jobs[of].number != number:
        return  # applied, or the job's record is in other use
    elif kind == JOB_DONE:
        messages.finish_handling(w, n, s, of, now)
    elif kind == LIMIT_ENTERED:
        messages.admit_job(w, s, of, now)
    elif kind == LOCKS_ACQUIRED:
        messages.complete_message(w, n, s, of, now)
    elif kind == LOCK_TIMEOUT and s.jobs[of].waits_for == KEY_LOCK:
        admission.leave_lock_queue(w, s, of)
        messages.refuse_message(w, n, s, of, now)


@compiled
def apply_common_event(
    w: CallRecords, n: Records, s: ServiceRecords, kind: int, of: int, number: int, now: float
) -> bool:
    """Apply an event that does not concern messages: the same when the real service carries them.

    Returns:
        Whether it was one.
    """
    if kind == CALL_TIMEOUT:
        if w.calls[of].number == number and w.calls[of].awaited:
            completion.end_call(w, of, TIMED_OUT, now)
            completion.free_call_if_over(w, s, of, now)
    elif kind == USER_STARTS:
        orders.start_closed_user(w, of, number, now)
    elif kind == INCIDENT_CHANGES:
        incidents.apply_incident(w, n, s, of, number, now)
    elif kind == PROCESS_DRAINED:
        incidents.stop_drained_process(w, s, of, number, now)
    elif kind == PROCESS_RESTARTS:
        incidents.restart_process(w, s, of, number, now)
    else:
        return False
    return True


# ---------------------------------------------------------------------- calls begin


@compiled
def _start_arrival(w: CallRecords, n: Records, s: ServiceRecords, now: float) -> None:
    """Begin the call of the next arrival."""
    _start_attempt(w, n, s, orders.new_order(w, now), now)


@compiled
def _start_attempt(w: CallRecords, n: Records, s: ServiceRecords, o: int, now: float) -> None:
    """Begin the next attempt of an order."""
    c = orders.new_call(w, o, now)
    call = w.calls[c]
    operation = w.operations[call.operation]
    overdue = now + operation.timeout_ms
    if overdue < math.inf:
        event_queue.push(w.events, w.state[0], overdue, ANSWER_OVERDUE, c, call.number)
    messages.run_step(w, n, s, c, operation.first_step, now)
