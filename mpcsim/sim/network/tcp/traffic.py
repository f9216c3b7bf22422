"""Traffic on all connections of a network: assignment of messages, and the next arrival.

HTTP/1.1 has a pool of connections over each link. A message takes the connection of its pair's last
message, if that is idle in this direction; else an idle one; else it opens another; and if the pool
is exhausted, it waits until one is free. An exchange (a request and its answer, in a running
service) keeps its connection exclusively until it is over. HTTP/2 has one connection over each
link, with head-of-line blocking.

A link has the list of its connections; a tournament tree of times gives the connection with the
next event, so that hundreds of links cost little more a message. The engine calls these functions
from Python, the replay from compiled code; both give the same times."""

from __future__ import annotations

import math

from mpcsim.sim.network.tcp import connection, kernel
from mpcsim.sim.network.tcp.compiled import compiled, entry
from mpcsim.sim.network.tcp.connection import copy as copy
from mpcsim.sim.network.tcp.state import MESSAGES, UNREPORTED, Record, Times


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
def _checkout(connections: Record, heads: Record, links: Record, k: int) -> Record:
    """Return connection ``k`` with the present state of its wires, which connections share."""
    c, head = connections[k], heads[k]
    for h in range(2):
        shared = links[head.link].wire[h ^ head.flip]
        own = c.half[h].wire[0]
        own.free = shared.free
        own.bad = shared.bad
        own.seen = shared.seen
    return c


@compiled
def _checkin(
    connections: Record, heads: Record, times: Times, pool: Record, links: Record, k: int
) -> None:
    """Write back the wires' state after ``_checkout``, and the time of the next event."""
    c, head = connections[k], heads[k]
    for h in range(2):
        shared = links[head.link].wire[h ^ head.flip]
        own = c.half[h].wire[0]
        shared.free = own.free
        shared.bad = own.bad
        shared.seen = own.seen
    set_next_event(times, pool[0].top, k, UNREPORTED if c.has_unreported else c.next_event)


@compiled
def reset(heads: Record, times: Times, pool: Record, links: Record) -> None:
    """Reset traffic: no connection, no packet."""
    state = pool[0]
    for k in range(state.used):
        heads[k].link = -1
        set_next_event(times, pool[0].top, k, math.inf)
    state.used = 0
    state.spare = -1
    state.failed = 0
    state.top = len(times) // 2
    for k in range(len(links)):
        links[k].first = -1
        for side in range(2):
            links[k].wire[side].free = -math.inf
            links[k].wire[side].bad = -1


@compiled
def _open(
    connections: Record,
    heads: Record,
    times: Times,
    pool: Record,
    links: Record,
    transfers: Record,
    t: Record,
) -> int:
    """Return a new connection for a transfer; -2: no record is left."""
    state = pool[0]
    k = state.spare
    if k >= 0:
        state.spare = heads[k].following
    elif state.used < len(connections):
        k = state.used
        state.used += 1
        if k == len(times) // 2 // state.top:
            state.top >>= 1
            times[state.top] = min(times[2 * state.top], times[2 * state.top + 1])
    else:
        return -2
    c, head, link = connections[k], heads[k], links[t.link]
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
def choose(
    connections: Record,
    heads: Record,
    times: Times,
    pool: Record,
    links: Record,
    transfers: Record,
    t: Record,
) -> int:
    """Return the connection for a transfer; -1: all are busy, -2: no record is left."""
    link = links[t.link]
    free = -1
    count = 0
    last = -1
    k = link.first
    while k >= 0:
        head = heads[k]
        last = k
        k = head.following
        if head.session != t.session:
            continue
        count += 1
        c, h = connections[last], t.side ^ head.flip
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
    k = _open(connections, heads, times, pool, links, transfers, t)
    if k >= 0 and last >= 0:
        heads[last].following = k
    elif k >= 0:
        link.first = k
    return k


@entry
def place(
    connections: Record,
    heads: Record,
    times: Times,
    pool: Record,
    links: Record,
    transfers: Record,
    number: int,
    now: float,
) -> int:
    """Put a transfer on a connection, if one is free; return what ``choose`` returns."""
    t = transfers[number]
    k = choose(connections, heads, times, pool, links, transfers, t)
    t.connection = max(k, -1)
    if k < 0:
        return k
    head = heads[k]
    head.pair = t.pair
    if t.exclusive and not links[t.link].http2:
        head.owner = t.pair
    kernel.send_message(
        _checkout(connections, heads, links, k),
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
    _checkin(connections, heads, times, pool, links, k)
    return k


@entry
def extend(
    connections: Record,
    heads: Record,
    times: Times,
    pool: Record,
    links: Record,
    transfers: Record,
    number: int,
    now: float,
    size: int,
) -> None:
    """Make ``size`` more bytes of a transfer available for sending."""
    t = transfers[number]
    t.available += size
    if t.connection < 0:
        return
    kernel.extend_message(
        _checkout(connections, heads, links, t.connection),
        t.side ^ heads[t.connection].flip,
        now,
        size,
    )
    _checkin(connections, heads, times, pool, links, t.connection)


@compiled
def place_waiting(
    connections: Record,
    heads: Record,
    times: Times,
    pool: Record,
    links: Record,
    transfers: Record,
    number: int,
    now: float,
) -> None:
    """Put the transfers that wait for a connection over a link on free ones, in their order."""
    while True:
        first = -1
        for k in range(len(transfers)):
            t = transfers[k]
            waits = t.connection == -1 and t.link == number
            if waits and (first < 0 or t.order < transfers[first].order):
                first = k
        if first < 0 or place(connections, heads, times, pool, links, transfers, first, now) < 0:
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
def advance(
    connections: Record,
    heads: Record,
    times: Times,
    pool: Record,
    links: Record,
    transfers: Record,
    waiting: bool,
    now: float,
    until: float,
) -> tuple[int, float]:
    """Advance time to ``until``, or to the next arrival if that is sooner.

    Args:
        waiting: whether a transfer may wait for a connection.

    Returns:
        The connection of the arrival, or of a failed transfer (``arrival_failed``), or -1; and
        its time.
    """
    while True:
        if pool[0].failed:
            return _report_failure(
                connections, heads, times, pool, links, transfers, waiting, now
            ), now
        top = pool[0].top
        at = times[top]
        if at > until or at == math.inf:
            return -1, math.inf
        k = first_event(times, top)
        c = _checkout(connections, heads, links, k)
        early = waiting and c.early_data != 0
        if at == UNREPORTED:
            at = now
            there = kernel.report_arrival(c, now)
        else:
            there, at = kernel.run_until(
                c, until, -math.inf if early else _next_event_elsewhere(times, top, k)
            )
        if c.timed_out and not there:
            _give_up(c, pool, transfers, k)
            now = at
        _checkin(connections, heads, times, pool, links, k)
        if early and not there:  # a flight that arrives frees its connection
            place_waiting(connections, heads, times, pool, links, transfers, heads[k].link, at)
        if there:
            _finish_transfer(connections, heads, times, pool, links, transfers, waiting, k, at)
            return k, at


@compiled
def _give_up(c: Record, pool: Record, transfers: Record, k: int) -> None:
    """Fail all transfers on connection ``k``, which an end has aborted; the next message reopens
    it."""
    for number in range(len(transfers)):
        if transfers[number].connection == k:
            transfers[number].connection = -3 - k
            pool[0].failed += 1
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
def _report_failure(
    connections: Record,
    heads: Record,
    times: Times,
    pool: Record,
    links: Record,
    transfers: Record,
    waiting: bool,
    now: float,
) -> int:
    """Report the first failed transfer as the next arrival; return its connection."""
    first = -1
    for number in range(len(transfers)):
        t = transfers[number]
        if t.connection < -2 and (first < 0 or t.order < transfers[first].order):
            first = number
    t = transfers[first]
    k = -3 - t.connection
    t.connection = -2
    pool[0].failed -= 1
    t.arrived = now
    t.forward = t.queueing = t.handshake = t.window = t.transmission = 0.0
    t.recovery = now - t.given
    c = connections[k]
    c.arrival_failed = 1
    c.arrival_number = first
    c.arrival_bytes = c.arrival_size = 0
    if waiting and (links[t.link].http2 or not t.exclusive):
        place_waiting(connections, heads, times, pool, links, transfers, heads[k].link, now)
    return int(k)


@compiled
def _finish_transfer(
    connections: Record,
    heads: Record,
    times: Times,
    pool: Record,
    links: Record,
    transfers: Record,
    waiting: bool,
    k: int,
    now: float,
) -> None:
    c = connections[k]
    if c.arrival_bytes < c.arrival_size:
        return
    t = transfers[c.arrival_number]
    attribute_time(c, t, now)
    t.connection = -2
    if waiting and (links[t.link].http2 or not t.exclusive):
        place_waiting(connections, heads, times, pool, links, transfers, heads[k].link, now)


@entry
def release(
    connections: Record,
    heads: Record,
    times: Times,
    pool: Record,
    links: Record,
    transfers: Record,
    pair: int,
    now: float,
) -> None:
    """Release the connections of an exchange that is over."""
    for k in range(pool[0].used):
        head = heads[k]
        if head.link >= 0 and head.owner == pair:
            head.owner = -1
            place_waiting(connections, heads, times, pool, links, transfers, head.link, now)


@entry
def close_session(
    connections: Record,
    heads: Record,
    times: Times,
    pool: Record,
    links: Record,
    transfers: Record,
    session: int,
) -> None:
    """Close the connections of a session that is over."""
    state = pool[0]
    for n in range(len(links)):
        before = -1
        k = links[n].first
        while k >= 0:
            head = heads[k]
            following = head.following
            if head.session != session:
                before = k
            else:
                if before < 0:
                    links[n].first = following
                else:
                    heads[before].following = following
                head.link = -1
                head.following = state.spare
                state.spare = k
                set_next_event(times, pool[0].top, k, math.inf)
            k = following
