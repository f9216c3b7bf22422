"""Statistics: a row for each attempt, the latency by its causes, and the slowest calls in detail.

Time-weighted integrals (utilisations, queue lengths) are kept where the queues are; this is the
number of calls in flight, and what is written when an attempt ends.
"""

from __future__ import annotations

from mpcsim.capacity.kernel.records import (
    ADMITTED,
    ARRIVED,
    ATTEMPT,
    BEGAN,
    COLUMNS,
    COMPLETED,
    CONNECTED,
    DONE,
    DUE,
    ENDED,
    FINAL,
    FIRST_ROLE,
    HANDLED,
    KEPT_ATTEMPT,
    KEPT_BEGAN,
    KEPT_DUE,
    KEPT_ENDED,
    KEPT_FIRST_ROLE,
    KEPT_NUMBER,
    KEPT_OPERATION,
    KEPT_USER,
    LIMIT,
    MOMENTS,
    NETWORK,
    NUMBER,
    OPERATION_OF,
    OUTCOME,
    POOL,
    ROLES,
    SENT,
    SERVICE_MS,
    USER,
    CallRecords,
    Record,
)
from mpcsim.sim.network.tcp.compiled import compiled


@compiled
def count_in_flight(w: CallRecords, change: int, now: float) -> None:
    """Change the number of calls that callers wait for, and add to its integral."""
    state = w.state[0]
    state.in_flight_ms += state.in_flight * (now - state.accounted_to)
    state.accounted_to = now
    state.in_flight += change


@compiled
def _attribute_latency(w: CallRecords, c: int, row: Record) -> None:
    """Add the milliseconds of a call to the columns of a row, along its critical path from the
    end."""
    operation = w.operations[w.calls[c].operation]
    first = operation.first_message
    k = operation.first_step
    while w.steps[k].ends != DONE:
        k += 1
    while w.steps[k].needs:
        step = w.steps[k]
        last = w.lists[step.first_need]
        for position in range(step.first_need + 1, step.first_need + step.needs):
            m = w.lists[position]
            if w.moments[c, m - first, COMPLETED] > w.moments[c, last - first, COMPLETED]:
                last = m
        at = w.moments[c, last - first]
        target = w.messages[last].target
        handling = at[HANDLED] - at[ADMITTED]
        worked = min(at[SERVICE_MS], handling)
        row[FIRST_ROLE + ROLES + target] += worked
        row[FIRST_ROLE + target] += handling - worked
        row[POOL] += at[CONNECTED] - at[SENT]
        row[NETWORK] += at[ARRIVED] - at[CONNECTED]
        row[LIMIT] += at[ADMITTED] - at[ARRIVED] + (at[COMPLETED] - at[HANDLED])
        k = w.messages[last].sent_by


@compiled
def _keep_slow_call(w: CallRecords, c: int, now: float) -> None:
    """Keep all moments of a slow call."""
    state = w.state[0]
    call = w.calls[c]
    order = w.orders[call.order]
    kept = w.slow_calls[state.slow_calls]
    kept[KEPT_NUMBER] = order.number
    kept[KEPT_OPERATION] = call.operation
    kept[KEPT_USER] = order.user
    kept[KEPT_DUE] = order.due
    kept[KEPT_BEGAN] = call.began
    kept[KEPT_ENDED] = now
    kept[KEPT_ATTEMPT] = order.attempts
    for role in range(ROLES):
        kept[KEPT_FIRST_ROLE + role] = call.process[role]
    position = KEPT_FIRST_ROLE + ROLES
    for m in range(w.operations[call.operation].messages):
        for moment in range(MOMENTS):
            kept[position] = w.moments[c, m, moment]
            position += 1
    state.slow_calls += 1


@compiled
def write_row(w: CallRecords, c: int, outcome: int, again: bool, now: float) -> None:
    """Write the row of an attempt that has ended; ``again``: another attempt follows."""
    state = w.state[0]
    call = w.calls[c]
    order = w.orders[call.order]
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
        _attribute_latency(w, c, row)
        if now - order.due > state.keep_above_ms and state.slow_calls < len(w.slow_calls):
            _keep_slow_call(w, c, now)
