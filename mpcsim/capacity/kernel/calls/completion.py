"""End of calls: retries with exponential back-off, think times, and release of what calls held.

Attempt ``i`` that fails is followed, up to ``attempts``, by another after
``pause_ms * factor ** (i - 1) * (1 - jitter * u)``, ``u`` uniform (``end_call``).
"""

from __future__ import annotations

import math

from mpcsim.capacity.kernel import admission, draws, event_queue
from mpcsim.capacity.kernel.calls import orders, statistics
from mpcsim.capacity.kernel.records import (
    DONE,
    DRAINING,
    NONE,
    ORDER_DUE,
    PROCESS_DRAINED,
    ROLES,
    CallRecords,
    ServiceRecords,
)
from mpcsim.sim.network.tcp.compiled import compiled

PAUSE, THINK = 4000, 4001
"""Purposes of draws."""


@compiled
def free_call_if_over(w: CallRecords, s: ServiceRecords, c: int, now: float) -> None:
    """Free a call's record, locks and limits once no message of it is left and its caller has
    gone."""
    call = w.calls[c]
    if call.pending or call.awaited:
        return
    state = w.state[0]
    admission.release_locks(w, s, c, call.held_locks, now)
    admission.leave_all_limits(w, s, c, now)
    for role in range(ROLES):
        p = call.process[role]
        if p == NONE:
            continue
        process = s.processes[p]
        if process.incarnation == call.incarnation[role]:
            process.calls -= 1
            if process.calls == 0 and process.state == DRAINING:
                event_queue.push(w.events, state, now, PROCESS_DRAINED, p, process.incarnation)
    call.number = NONE
    call.following = state.free_call
    state.free_call = c


@compiled
def end_call(w: CallRecords, c: int, outcome: int, now: float) -> None:
    """End a call for its caller: write its row, then schedule a retry or the next order."""
    call = w.calls[c]
    if not call.awaited:
        return
    call.awaited = 0
    statistics.count_in_flight(w, -1, now)
    state = w.state[0]
    o = call.order
    order = w.orders[o]
    client = w.clients[0 if order.incident == NONE else 1]
    again = outcome != DONE and order.attempts < client.attempts
    statistics.write_row(w, c, outcome, again, now)
    if again:
        pause = client.pause_ms * client.factor ** (order.attempts - 1)
        u = draws.uniform(draws.hash64(call.key, PAUSE))
        event_queue.push(w.events, state, now + pause * (1.0 - client.jitter * u), ORDER_DUE, o, 0)
    elif order.closed_user != NONE:
        u = draws.uniform(draws.hash64(call.key, THINK))
        orders.next_closed_order(w, o, now - client.think_ms * math.log1p(-u))
    elif order.incident == NONE or not orders.next_recovery(w, o, now):
        order.following = state.free_order
        state.free_order = o
