"""Traffic on all connections of a network: assignment of messages, and the next arrival.

HTTP/1.1 has a pool of connections over each link. A message takes the connection of its pair's last
message, if that is idle in this direction; else an idle one; else it opens another; and if the pool
is exhausted, it waits until one is free. An exchange (a request and its answer, in a running
service) keeps its connection exclusively until it is over. HTTP/2 has one connection over each
link, with head-of-line blocking.

A link has the list of its connections; a tournament tree of times gives the connection with the
next event, so that hundreds of links cost little more a message. The engine calls these functions
from Python, the replay from compiled code; both give the same times. ``n`` are the records."""

from __future__ import annotations

import math

from mpcsim.sim.network.tcp import connection, kernel
from mpcsim.sim.network.tcp.compiled import compiled, entry
from mpcsim.sim.network.tcp.connection import copy as copy
from mpcsim.sim.network.tcp.state import MESSAGES, UNREPORTED, Record, Records, Times


@compiled
def set_next_event(times: Times, top: int, k: int, at: float) -> None:
    """Set the time of connection ``k``'s next event in the tournament tree."""
    place = len(times) // 2 + k
    times[place] = at
    while place != top:
        place >>= 1
        lesser = min(times[2 * place], times[2 * place + 1])
        if times[place] == lesser:
            return
        times[place] = lesser


@compiled
def first_event(times: Times, top: int) -> int:
    """Return the connection with the first event."""
    place = top
    while place < len(times) // 2:
        place *= 2
        if times[place] != times[place >> 1]:
            place += 1
    return place - len(times) // 2


@compiled
def _next_event_elsewhere(times: Times, top: int, k: int) -> float:
    """Return the time of the next event on any connection but ``k``."""
    place = len(times) // 2 + k
    soonest = math.inf
    while place != top:
        soonest = min(soonest, times[place ^ 1])
        place >>= 1
    return soonest


@compiled
def _checkout(n: Records, k: int) -> Record:
    """Return connection ``k`` with the present state of its wires, which connections share."""
    c, head = n.connections[k], n.heads[k]
    for h in range(2):
        shared = n.links[head.link].wire[h ^ head.flip]
        own = c.half[h].wire[0]
        own.free = shared.free
        own.bad = shared.bad
        own.seen = shared.seen
    return c


@compiled
def _checkin(n: Records, k: int) -> None:
    """Write back the wires' state after ``_checkout``, and the time of the next event."""
    c, head = n.connections[k], n.heads[k]
    for h in range(2):
        shared = n.links[head.link].wire[h ^ head.flip]
        own = c.half[h].wire[0]
        shared.free = own.free
        shared.bad = own.bad
        shared.seen = own.seen
    set_next_event(n.times, n.pool[0].top, k, UNREPORTED if c.has_unreported else c.next_event)


@compiled
def reset(n: Records) -> None:
    """Reset traffic: no connection, no packet."""
    state = n.pool[0]
    for k in range(state.used):
        n.heads[k].link = -1
        set_next_event(n.times, n.pool[0].top, k, math.inf)
    state.used = 0
    state.spare = -1
    state.failed = 0
    state.top = len(n.times) // 2
    for k in range(len(n.links)):
        n.links[k].first = -1
        for side in range(2):
            n.links[k].wire[side].free = -math.inf
            n.links[k].wire[side].bad = -1


@compiled
def _open(n: Records, t: Record) -> int:
    """Return a new connection for a transfer; -2: no record is left."""
    state = n.pool[0]
    k = state.spare
    if k >= 0:
        state.spare = n.heads[k].following
    elif state.used < len(n.connections):
        k = state.used
        state.used += 1
        if k == len(n.times) // 2 // state.top:
            state.top >>= 1
            n.times[state.top] = min(n.times[2 * state.top], n.times[2 * state.top + 1])
    else:
        return -2
    c, head, link = n.connections[k], n.heads[k], n.links[t.link]
    head.link = t.link
    head.session = t.session
    head.flip = t.side
    head.owner = -1
    head.pair = -1
    head.following = -1
    c.warm_rtt = link.warm_rtt
    c.warm_deviation = link.warm_deviation
    connection.reset(c, c.warm != 0)
    for h in range(2):
        template = link.wire[h ^ t.side]
        own = c.half[h].wire[0]
        own.bits_per_ms = template.bits_per_ms
        own.queue = template.queue
        own.loss = template.loss
        own.to_bad = template.to_bad
        own.to_good = template.to_good
        own.bad_loss = template.bad_loss
        own.change_rate = template.change_rate
        own.bad_share = template.bad_share
    return k


@compiled
def choose(n: Records, t: Record) -> int:
    """Return the connection for a transfer; -1: all are busy, -2: no record is left."""
    link = n.links[t.link]
    free = -1
    count = 0
    last = -1
    k = link.first
    while k >= 0:
        head = n.heads[k]
        last = k
        k = head.following
        if head.session != t.session:
            continue
        count += 1
        c, h = n.connections[last], t.side ^ head.flip
        if link.http2:
            return (
                last if c.half[h].messages_queued - c.half[h].messages_delivered < MESSAGES else -1
            )
        if head.owner >= 0:
            if head.owner == t.pair:
                return last
            continue
        quiet = c.half[h].messages_queued == c.half[h].messages_delivered
        if not t.exclusive and head.pair == t.pair and quiet:
            return last
        if free < 0 and quiet and c.half[1 - h].messages_queued == c.half[1 - h].messages_delivered:
            free = last
    if free >= 0:
        return free
    if count >= link.pool:
        return -1
    k = _open(n, t)
    if k >= 0 and last >= 0:
        n.heads[last].following = k
    elif k >= 0:
        link.first = k
    return k


@entry
def place(n: Records, number: int, now: float) -> int:
    """Assign a transfer to a connection, if one is free; return what ``choose`` returns."""
    t = n.transfers[number]
    k = choose(n, t)
    t.connection = max(k, -1)
    if k < 0:
        return k
    head = n.heads[k]
    head.pair = t.pair
    if t.exclusive and not n.links[t.link].http2:
        head.owner = t.pair
    kernel.send_message(
        _checkout(n, k),
        t.side ^ head.flip,
        now,
        number,
        t.size,
        t.available,
        t.key,
        t.forward,
        t.backward,
        t.stream,
    )
    _checkin(n, k)
    return k


@entry
def extend(n: Records, number: int, now: float, size: int) -> None:
    """Make ``size`` more bytes of a transfer available for sending."""
    t = n.transfers[number]
    t.available += size
    if t.connection < 0:
        return
    kernel.extend_message(
        _checkout(n, t.connection), t.side ^ n.heads[t.connection].flip, now, size
    )
    _checkin(n, t.connection)


@compiled
def place_waiting(n: Records, number: int, now: float) -> None:
    """Assign the transfers that wait for a connection over a link to free ones, in their order."""
    while True:
        first = -1
        for k in range(len(n.transfers)):
            t = n.transfers[k]
            waits = t.connection == -1 and t.link == number
            if waits and (first < 0 or t.order < n.transfers[first].order):
                first = k
        if first < 0 or place(n, first, now) < 0:
            return


@compiled
def zero_if_rounding(ms: float) -> float:
    """Return a time, or 0 if it is only a rounding error."""
    return 0.0 if abs(ms) < 1e-9 else ms


@compiled
def attribute_time(c: Record, t: Record, now: float) -> None:
    """Split the time of an arrived transfer into its parts."""
    m = c.half[c.arrival_half].message[c.arrival_slot]
    t.arrived = now
    late = zero_if_rounding(now - m.left - t.forward)
    t.recovery = late if m.resent else 0.0
    t.queueing = 0.0 if m.resent else late
    if m.began < t.given:  # parts of it were sent before it was whole
        rest = now - t.given - t.forward - late
        t.handshake = 0.0
        t.transmission = min(m.wire_ms, rest)
        t.window = rest - t.transmission
        return
    opened = max(t.given, c.established_ms)
    t.handshake = opened - t.given if opened <= m.began else 0.0
    t.queueing += zero_if_rounding(m.began - t.given - t.handshake) + m.waited
    t.transmission = m.wire_ms
    t.window = zero_if_rounding(m.left - m.began - m.waited - m.wire_ms)


@entry
def advance(n: Records, waiting: bool, now: float, until: float) -> tuple[int, float]:
    """Advance time to ``until``, or to the next arrival if that is sooner.

    Args:
        waiting: whether a transfer may wait for a connection.

    Returns:
        The connection of the arrival, or of a failed transfer (``arrival_failed``), or -1; and
        its time.
    """
    while True:
        if n.pool[0].failed:
            return _report_failure(n, waiting, now), now
        top = n.pool[0].top
        at = n.times[top]
        if at > until or at == math.inf:
            return -1, math.inf
        k = first_event(n.times, top)
        c = _checkout(n, k)
        early = waiting and c.early_data != 0
        if at == UNREPORTED:
            at = now
            there = kernel.report_arrival(c, now)
        else:
            there, at = kernel.run_until(
                c, until, -math.inf if early else _next_event_elsewhere(n.times, top, k)
            )
        if c.timed_out and not there:
            _give_up(n, c, k)
            now = at
        _checkin(n, k)
        if early and not there:  # a flight that arrives frees its connection
            place_waiting(n, n.heads[k].link, at)
        if there:
            _finish_transfer(n, waiting, k, at)
            return k, at


@compiled
def _give_up(n: Records, c: Record, k: int) -> None:
    """Fail all transfers on connection ``k``, which an end has aborted; the next message reopens
    it."""
    for number in range(len(n.transfers)):
        if n.transfers[number].connection == k:
            n.transfers[number].connection = -3 - k
            n.pool[0].failed += 1
    there, back = c.half[0], c.half[1]
    wire, wire_back = there.wire[0], back.wire[0]
    free, bad, seen, tail = wire.free, wire.bad, wire.seen, there.tail
    free_back, bad_back, seen_back, tail_back = (
        wire_back.free,
        wire_back.bad,
        wire_back.seen,
        back.tail,
    )
    connection.reset(c, False)
    wire.free, wire.bad, wire.seen = free, bad, seen
    wire_back.free, wire_back.bad, wire_back.seen = free_back, bad_back, seen_back
    there.head = there.tail = tail  # the places of packets under way stay theirs (``copy``)
    back.head = back.tail = tail_back


@compiled
def _report_failure(n: Records, waiting: bool, now: float) -> int:
    """Report the first failed transfer as the next arrival; return its connection."""
    first = -1
    for number in range(len(n.transfers)):
        t = n.transfers[number]
        if t.connection < -2 and (first < 0 or t.order < n.transfers[first].order):
            first = number
    t = n.transfers[first]
    k = -3 - t.connection
    t.connection = -2
    n.pool[0].failed -= 1
    t.arrived = now
    t.forward = t.queueing = t.handshake = t.window = t.transmission = 0.0
    t.recovery = now - t.given
    c = n.connections[k]
    c.arrival_failed = 1
    c.arrival_number = first
    c.arrival_bytes = c.arrival_size = 0
    if waiting and (n.links[t.link].http2 or not t.exclusive):
        place_waiting(n, n.heads[k].link, now)
    return int(k)


@compiled
def _finish_transfer(n: Records, waiting: bool, k: int, now: float) -> None:
    c = n.connections[k]
    if c.arrival_bytes < c.arrival_size:
        return
    t = n.transfers[c.arrival_number]
    attribute_time(c, t, now)
    t.connection = -2
    if waiting and (n.links[t.link].http2 or not t.exclusive):
        place_waiting(n, n.heads[k].link, now)


@entry
def release(n: Records, pair: int, now: float) -> None:
    """Release the connections of an exchange that is over."""
    for k in range(n.pool[0].used):
        head = n.heads[k]
        if head.link >= 0 and head.owner == pair:
            head.owner = -1
            place_waiting(n, head.link, now)


@entry
def close_session(n: Records, session: int) -> None:
    """Close the connections of a session that is over."""
    state = n.pool[0]
    for number in range(len(n.links)):
        before = -1
        k = n.links[number].first
        while k >= 0:
            head = n.heads[k]
            following = head.following
            if head.session != session:
                before = k
            else:
                if before < 0:
                    n.links[number].first = following
                else:
                    n.heads[before].following = following
                head.link = -1
                head.following = state.spare
                state.spare = k
                set_next_event(n.times, n.pool[0].top, k, math.inf)
            k = following
