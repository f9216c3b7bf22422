"""How calls end: what their callers do next, and what is kept of them."""

from __future__ import annotations

import math

from mpcsim.capacity.kernel import draws, heap, waiting
from mpcsim.capacity.kernel.records import (
    ADMITTED,
    AGAIN,
    ATTEMPT,
    BEGAN,
    CARRIED,
    COLUMNS,
    DONE,
    DUE,
    ENDED,
    FINAL,
    FIXED,
    GONE,
    HANDLED,
    KEPT_ATTEMPT,
    KEPT_BEGAN,
    KEPT_DUE,
    KEPT_ENDED,
    KEPT_FIXED,
    KEPT_NUMBER,
    KEPT_OPERATION,
    KEPT_USER,
    LEAVING,
    LIMIT,
    MOMENTS,
    NETWORK,
    NONE,
    NUMBER,
    OPERATION_OF,
    OUTCOME,
    OVER,
    POOL,
    ROLES,
    SENT,
    THERE,
    USER,
    WORK,
    Calls,
    Record,
    Service,
)
from mpcsim.sim.network.tcp.compiled import compiled

PAUSE, THINK, MIX = 4000, 4001, 4002
"""What draws are for."""


@compiled
def count(w: Calls, change: int, now: float) -> None:
    """So many calls more are waited for."""
    state = w.state[0]
    state.in_flight_ms += state.in_flight * (now - state.since)
    state.since = now
    state.in_flight += change


@compiled
def forget(w: Calls, s: Service, c: int, now: float) -> None:
    """If nothing of a call is left, its record is free."""
    call = w.calls[c]
    if call.open or call.waited_for:
        return
    state = w.state[0]
    waiting.give(w, s, c, call.turns, now)
    waiting.leave_all(w, s, c, now)
    for role in range(ROLES):
        p = call.process[role]
        if p == NONE:
            continue
        process = s.processes[p]
        if process.lives == call.lives[role]:
            process.calls -= 1
            if process.calls == 0 and process.state == LEAVING:
                heap.push(w.events, state, now, GONE, p, process.lives)
    call.number = NONE
    call.following = state.free_call
    state.free_call = c


@compiled
def end(w: Calls, c: int, outcome: int, now: float) -> None:
    """A caller knows what became of a call, or gives it up."""
    call = w.calls[c]
    if not call.waited_for:
        return
    call.waited_for = 0
    count(w, -1, now)
    state = w.state[0]
    o = call.order
    order = w.orders[o]
    client = w.client[0 if order.incident == NONE else 1]
    again = outcome != DONE and order.attempts < client.attempts
    row = w.rows[state.rows]
    state.rows += 1
    row[NUMBER] = order.number
    row[OPERATION_OF] = order.operation
    row[USER] = order.user
    row[DUE] = order.due
    row[BEGAN] = call.began
    row[ENDED] = now
    row[OUTCOME] = outcome
    row[ATTEMPT] = order.attempts
    row[FINAL] = 0.0 if again else 1.0
    for k in range(NETWORK, COLUMNS):
        row[k] = 0.0
    if outcome == DONE:
        _explain(w, c, row)
        if now - order.due > state.keep_above and state.kept < len(w.kept):
            _keep(w, c, now)
    if again:
        pause = client.pause * client.factor ** (order.attempts - 1)
        u = draws.uniform(draws.mixed(call.key, PAUSE))
        heap.push(w.events, state, now + pause * (1.0 - client.jitter * u), AGAIN, o, 0)
    elif order.member != NONE:
        u = draws.uniform(draws.mixed(call.key, THINK))
        renew(w, o, now - client.thinking * math.log1p(-u))
    elif order.incident == NONE or not following_user(w, o, now):
        order.following = state.free_order
        state.free_order = o


@compiled
def renew(w: Calls, o: int, due: float) -> None:
    """The next order of somebody who thinks and asks again."""
    order = w.orders[o]
    order.key = draws.mixed(
        draws.mixed(draws.mixed(w.client[0].seed, 2), order.member), order.rounds
    )
    order.rounds += 1
    u = draws.uniform(draws.mixed(order.key, MIX))
    order.operation = 0
    while u >= w.operations[order.operation].share:
        order.operation += 1
    _put(w, o, due)


@compiled
def following_user(w: Calls, o: int, now: float) -> bool:
    """An order for the next of all users, if there is one."""
    order = w.orders[o]
    incident = w.incidents[order.incident]
    if incident.next == incident.count:
        return False
    seed = draws.mixed(draws.mixed(w.client[0].seed, 3), order.incident)
    order.key = draws.mixed(seed, incident.next)
    order.operation = incident.of
    order.user = incident.next
    incident.next += 1
    _put(w, o, now)
    return True


@compiled
def _put(w: Calls, o: int, due: float) -> None:
    state = w.state[0]
    order = w.orders[o]
    order.number = state.orders_so_far
    state.orders_so_far += 1
    order.attempts = 0
    order.due = due
    heap.push(w.events, state, due, AGAIN, o, 0)


@compiled
def _explain(w: Calls, c: int, row: Record) -> None:
    """Where the time of a call went, along what it waited for last."""
    operation = w.operations[w.calls[c].operation]
    first = operation.first_message
    k = operation.first_step
    while w.steps[k].ends != DONE:
        k += 1
    while w.steps[k].needs:
        step = w.steps[k]
        last = w.lists[step.first_need]
        for place in range(step.first_need + 1, step.first_need + step.needs):
            m = w.lists[place]
            if w.at[c, m - first, OVER] > w.at[c, last - first, OVER]:
                last = m
        at = w.at[c, last - first]
        target = w.messages[last].target
        handling = at[HANDLED] - at[ADMITTED]
        worked = min(at[WORK], handling)
        row[FIXED + ROLES + target] += worked
        row[FIXED + target] += handling - worked
        row[POOL] += at[CARRIED] - at[SENT]
        row[NETWORK] += at[THERE] - at[CARRIED]
        row[LIMIT] += at[ADMITTED] - at[THERE] + (at[OVER] - at[HANDLED])
        k = w.messages[last].sent_by


@compiled
def _keep(w: Calls, c: int, now: float) -> None:
    """All about a slow call."""
    state = w.state[0]
    call = w.calls[c]
    order = w.orders[call.order]
    kept = w.kept[state.kept]
    kept[KEPT_NUMBER] = order.number
    kept[KEPT_OPERATION] = call.operation
    kept[KEPT_USER] = order.user
    kept[KEPT_DUE] = order.due
    kept[KEPT_BEGAN] = call.began
    kept[KEPT_ENDED] = now
    kept[KEPT_ATTEMPT] = order.attempts
    for role in range(ROLES):
        kept[KEPT_FIXED + role] = call.process[role]
    place = KEPT_FIXED + ROLES
    for m in range(w.operations[call.operation].messages):
        for moment in range(MOMENTS):
            kept[place] = w.at[c, m, moment]
            place += 1
    state.kept += 1
