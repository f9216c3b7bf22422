"""Arrivals: orders of callers, and the attempts (calls) that serve them.

Open workload: each arrival is an order (``new_order``). Closed workload: each user has one order
at a time, and the next one after an exponential think time (``start_closed_user``,
``next_closed_order``). A bulk resharing works through all users, so many at a time
(``next_recovery``).
"""

from __future__ import annotations

import math

from mpcsim.capacity.kernel import draws, event_queue
from mpcsim.capacity.kernel.calls import statistics
from mpcsim.capacity.kernel.records import (
    CALL_TIMEOUT,
    MOMENTS,
    NONE,
    ORDER_DUE,
    ROLES,
    CallRecords,
)
from mpcsim.sim.network.tcp.compiled import compiled

MIX = 4002
"""Purpose of a draw: the operation of an order."""


@compiled
def new_order(w: CallRecords, now: float) -> int:
    """Return the order of the next arrival."""
    state = w.state[0]
    o = state.free_order
    order = w.orders[o]
    state.free_order = order.following
    order.number = state.orders_so_far
    state.orders_so_far += 1
    order.key = draws.hash64(draws.hash64(w.clients[0].seed, 1), state.arrivals_so_far)
    state.arrivals_so_far += 1
    order.operation = w.arrivals[state.next].operation
    order.user = w.arrivals[state.next].user
    order.closed_user = NONE
    order.incident = NONE
    order.due = now
    order.attempts = 0
    state.next += 1
    return int(o)


@compiled
def new_call(w: CallRecords, o: int, now: float) -> int:
    """Return a new attempt of an order, with nothing sent yet; its time-out is scheduled."""
    state = w.state[0]
    order = w.orders[o]
    client = w.clients[0 if order.incident == NONE else 1]
    c = state.free_call
    call = w.calls[c]
    state.free_call = call.following
    call.following = NONE
    call.order = o
    call.operation = order.operation
    call.user = order.user
    call.key = draws.hash64(order.key, order.attempts)
    call.number = state.calls_so_far
    state.calls_so_far += 1
    order.attempts += 1
    call.began = now
    call.pending = 0
    call.awaited = 1
    call.failed = 0
    call.held_locks = 0
    call.limits = 0
    for role in range(ROLES):
        call.process[role] = NONE
    statistics.count_in_flight(w, 1, now)
    operation = w.operations[call.operation]
    for k in range(operation.steps):
        w.unmet_needs[c, k] = w.steps[operation.first_step + k].needs
    for k in range(operation.messages):
        for moment in range(MOMENTS):
            w.moments[c, k, moment] = -1.0
    for k in range(operation.exchanges):
        w.connection[c, k] = NONE
    if client.timeout_ms < math.inf:
        event_queue.push(w.events, state, now + client.timeout_ms, CALL_TIMEOUT, c, call.number)
    return int(c)


@compiled
def start_closed_user(w: CallRecords, number: int, user: int, now: float) -> None:
    """Begin the first order of a user of a closed workload."""
    state = w.state[0]
    o = state.free_order
    order = w.orders[o]
    state.free_order = order.following
    order.user = user
    order.closed_user = number
    order.rounds = 0
    order.incident = NONE
    next_closed_order(w, o, now)


@compiled
def next_closed_order(w: CallRecords, o: int, due: float) -> None:
    """Schedule the next order of a user of a closed workload; the mix is drawn."""
    order = w.orders[o]
    order.key = draws.hash64(
        draws.hash64(draws.hash64(w.clients[0].seed, 2), order.closed_user), order.rounds
    )
    order.rounds += 1
    u = draws.uniform(draws.hash64(order.key, MIX))
    order.operation = 0
    while u >= w.operations[order.operation].share:
        order.operation += 1
    _schedule_order(w, o, due)


@compiled
def next_recovery(w: CallRecords, o: int, now: float) -> bool:
    """Schedule the recovery of the next user's key; return False if all have had theirs."""
    order = w.orders[o]
    incident = w.incidents[order.incident]
    if incident.next == incident.count:
        return False
    seed = draws.hash64(draws.hash64(w.clients[0].seed, 3), order.incident)
    order.key = draws.hash64(seed, incident.next)
    order.operation = incident.of
    order.user = incident.next
    incident.next += 1
    _schedule_order(w, o, now)
    return True


@compiled
def _schedule_order(w: CallRecords, o: int, due: float) -> None:
    """Number an order, and schedule its first attempt."""
    state = w.state[0]
    order = w.orders[o]
    order.number = state.orders_so_far
    state.orders_so_far += 1
    order.attempts = 0
    order.due = due
    event_queue.push(w.events, state, due, ORDER_DUE, o, 0)
