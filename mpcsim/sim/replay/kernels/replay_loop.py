"""Compiled discrete-event simulation of samples, in the engine's order of events.

Events are a binary heap, ordered by time and insertion. TCP is the engine's kernel
(``mpcsim.sim.network.tcp.traffic``), so both agree bit by bit. All times are milliseconds.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from mpcsim.sim.network.tcp import traffic
from mpcsim.sim.network.tcp.compiled import compiled, entry
from mpcsim.sim.network.tcp.state import Record, Records

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Keys = NDArray[np.uint64]


@compiled
def _before(one: Record, other: Record) -> bool:
    if one.at == other.at:
        return bool(one.order < other.order)
    return bool(one.at < other.at)


@compiled
def _swap(one: Record, other: Record) -> None:
    one.at, other.at = other.at, one.at
    one.order, other.order = other.order, one.order
    one.hop, other.hop = other.hop, one.hop


@compiled
def _push(events: Record, waiting: int, at: float, order: int, hop: int) -> None:
    """Push an event on the binary heap of ``waiting`` events; the earliest is on top."""
    k = waiting
    events[k].at = at
    events[k].order = order
    events[k].hop = hop
    while k and _before(events[k], events[(k - 1) // 2]):
        _swap(events[k], events[(k - 1) // 2])
        k = (k - 1) // 2


@compiled
def _pop(events: Record, waiting: int) -> None:
    """Remove the earliest event; ``waiting`` remain."""
    _swap(events[0], events[waiting])
    k = 0
    while 2 * k + 1 < waiting:
        least = 2 * k + 1
        if least + 1 < waiting and _before(events[least + 1], events[least]):
            least += 1
        if not _before(events[least], events[k]):
            return
        _swap(events[k], events[least])
        k = least


@compiled
def _run_step(
    steps: Record, sends: Ints, messages: Record, events: Record, waiting: int, order: int, k: int
) -> tuple[int, int]:
    """Run step ``k`` and those that follow, as far as they can; return both counters."""
    while k >= 0:
        step = steps[k]
        if step.missing or step.done:
            break
        if step.previous >= 0 and not steps[step.previous].done:
            break
        before = steps[step.previous].end if step.previous >= 0 else 0.0
        step.start = max(before, step.latest)
        step.joined = 1 if step.previous >= 0 and step.start == before else 0
        step.burst = steps[step.previous].burst if step.joined else k
        step.end = step.start + step.cost
        step.done = 1
        for place in range(step.first_send, step.last_send):
            m = sends[place]
            messages[m].burst = step.burst
            messages[m].given = step.end
            routed = messages[m].first_hop < messages[m].last_hop
            _push(events, waiting, step.end, order, messages[m].first_hop if routed else -1 - m)
            waiting += 1
            order += 1
        k = step.following
    return waiting, order


@entry
def run(
    n: Records,
    steps: Record,
    sends: Ints,
    needed_by: Ints,
    messages: Record,
    hops: Record,
    flows: Record,
    events: Record,
    may_wait: bool,
    forward: Floats,
    backward: Floats,
    keys: Keys,
    ends: Floats,
    last_steps: Ints,
    explain: bool,
    starts: Floats,
    joined: Ints,
    arrivals: Floats,
    parts: Floats,
) -> None:
    """Simulate as many samples as ``ends`` has columns.

    Args:
        n: the network's records.
        forward: latency of each hop in each sample.
        backward: latency of its acknowledgements.
        keys: keys of its losses.
        ends: output, completion time of each party.
        last_steps: last step of each party.
        explain: whether to fill ``starts`` and ``joined`` (of steps), ``arrivals`` (of messages)
            and ``parts`` (of hops).

    A message does not arrive if TCP aborts its connection or its exchange exceeds the time-out: a
    party that needs it never finishes (infinity).
    """
    for sample in range(ends.shape[1]):
        traffic.reset(n)
        for h in range(len(hops)):
            n.transfers[h].connection = -2
        for k in range(len(flows)):
            flows[k].burst = -1
        for k in range(len(steps)):
            steps[k].missing = steps[k].needs
            steps[k].latest = 0.0
            steps[k].done = 0
        waiting = 0
        order = 0
        placed = 0
        for k in range(len(steps)):
            if steps[k].previous < 0:
                waiting, order = _run_step(steps, sends, messages, events, waiting, order, k)
        now = 0.0
        while True:
            until = math.inf
            if waiting:
                until = events[0].at
            found, at = traffic.advance(n, may_wait, now, until)
            arrived = -1
            if found >= 0:
                now = at
                h = n.connections[found].arrival_number
                m = hops[h].message
                if explain:
                    t = n.transfers[h]
                    parts[h, 0, sample] = t.queueing
                    parts[h, 1, sample] = t.handshake
                    parts[h, 2, sample] = t.window
                    parts[h, 3, sample] = t.transmission
                    parts[h, 4, sample] = t.forward
                    parts[h, 5, sample] = t.recovery
                if n.connections[found].arrival_failed:
                    if explain:
                        parts[h, 5, sample] = math.inf
                    continue
                # Queued behind the events that are due at the same time.
                last = h + 1 == messages[m].last_hop
                _push(events, waiting, now + hops[h].service, order, -1 - m if last else h + 1)
                waiting += 1
                order += 1
            elif waiting:
                now = until
                h = events[0].hop
                waiting -= 1
                _pop(events, waiting)
                if h < 0:
                    arrived = -1 - h
                else:
                    hop = hops[h]
                    flow = flows[hop.flow]
                    if flow.burst != messages[hop.message].burst:
                        flow.burst = messages[hop.message].burst
                        flow.forward = forward[h, sample]
                        flow.backward = backward[h, sample]
                    t = n.transfers[h]
                    t.forward = flow.forward
                    t.backward = flow.backward
                    t.key = keys[h, sample]
                    t.given = now
                    t.order = placed
                    placed += 1
                    traffic.place(n, h, now)
            else:
                break
            if arrived >= 0:
                message = messages[arrived]
                message.arrived = now
                request = message.request
                if request >= 0 and now - messages[request].given > message.limit:
                    continue  # after the time-out
                h = message.last_hop - 1
                if h >= message.first_hop and hops[h].releases:
                    traffic.release(n, hops[h].pair, now)
                for place in range(message.first_needed, message.last_needed):
                    k = needed_by[place]
                    steps[k].missing -= 1
                    steps[k].latest = max(steps[k].latest, now)
                    waiting, order = _run_step(steps, sends, messages, events, waiting, order, k)
        for party in range(len(last_steps)):
            step = steps[last_steps[party]]
            ends[party, sample] = step.end if step.done else math.inf
        if explain:
            for k in range(len(steps)):
                starts[k, sample] = steps[k].start
                joined[k, sample] = steps[k].joined
            for m in range(len(messages)):
                arrivals[m, sample] = messages[m].arrived
