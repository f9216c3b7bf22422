"""Event queue: a binary heap of scheduled events, by time and then by the order of scheduling."""

from __future__ import annotations

from mpcsim.capacity.kernel.records import Record
from mpcsim.sim.network.tcp.compiled import compiled


@compiled
def _is_sooner(one: Record, other: Record) -> bool:
    """Return whether an event comes before another."""
    if one.at == other.at:
        return bool(one.order < other.order)
    return bool(one.at < other.at)


@compiled
def _swap(one: Record, other: Record) -> None:
    """Exchange two records in place."""
    one.at, other.at = other.at, one.at
    one.order, other.order = other.order, one.order
    one.kind, other.kind = other.kind, one.kind
    one.of, other.of = other.of, one.of
    one.number, other.number = other.number, one.number


@compiled
def push(events: Record, state: Record, at: float, kind: int, of: int, number: int) -> None:
    """Schedule an event; the array has room for it."""
    k = state.events
    event = events[k]
    event.at = at
    event.order = state.events_so_far
    event.kind = kind
    event.of = of
    event.number = number
    state.events += 1
    state.events_so_far += 1
    while k and _is_sooner(events[k], events[(k - 1) // 2]):
        _swap(events[k], events[(k - 1) // 2])
        k = (k - 1) // 2


@compiled
def pop(events: Record, state: Record) -> None:
    """Remove the earliest event; it is then the first record beyond the heap."""
    state.events -= 1
    waiting = state.events
    _swap(events[0], events[waiting])
    k = 0
    while 2 * k + 1 < waiting:
        least = 2 * k + 1
        if least + 1 < waiting and _is_sooner(events[least + 1], events[least]):
            least += 1
        if not _is_sooner(events[least], events[k]):
            return
        _swap(events[k], events[least])
        k = least
