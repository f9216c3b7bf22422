"""Messages over the links of a network: which connection carries one, and what arrives next.

HTTP/1.1 has a pool of connections over each link. A message takes the one that carried its pair's
last message, if nothing goes that way on it; else one on which nothing goes; else it opens another;
and if the pool is used up, it waits until one is free. An exchange (a request and its answer, as a
running service has them) keeps its connection to itself until it is over. HTTP/2 has one connection
over each link: whatever a message waits for, those behind it wait for, too.

The engine asks one question at a time; the replay asks them from compiled code. So both agree.
"""

from __future__ import annotations

import math

from mpcsim.sim.network.tcp import connection, kernel
from mpcsim.sim.network.tcp.compiled import compiled, entry
from mpcsim.sim.network.tcp.state import MESSAGES, UNUSED, Record


@compiled
def _borrow(c: Record, link: Record) -> None:
    """Give a connection the state of the wires, which it shares with others."""
    for h in range(2):
        shared = link.wire[h ^ c.flip]
        own = c.half[h].wire[0]
        own.free = shared.free
        own.bad = shared.bad


@compiled
def _return(c: Record, link: Record) -> None:
    for h in range(2):
        shared = link.wire[h ^ c.flip]
        own = c.half[h].wire[0]
        shared.free = own.free
        shared.bad = own.bad


@compiled
def open_anew(c: Record, link: Record, number: int, side: int, session: int) -> None:
    """Take an unused record for a connection over a link, opened from its side ``side``."""
    c.link = number
    c.session = session
    c.flip = side
    c.warm_rtt = link.warm_rtt
    c.warm_deviation = link.warm_deviation
    connection.begin(c)
    for h in range(2):
        template = link.wire[h ^ side]
        own = c.half[h].wire[0]
        own.bits_per_ms = template.bits_per_ms
        own.queue = template.queue
        own.loss = template.loss
        own.to_bad = template.to_bad
        own.to_good = template.to_good
        own.bad_loss = template.bad_loss


@compiled
def choose(connections: Record, links: Record, t: Record) -> int:
    """The connection for a transfer; -1: all are taken, -2: no record is left."""
    link = links[t.link]
    free = -1
    unused = -1
    count = 0
    for k in range(len(connections)):
        c = connections[k]
        if c.link < 0:
            if unused < 0:
                unused = k
            if c.link == UNUSED:
                break
            continue
        if c.link != t.link or c.session != t.session:
            continue
        count += 1
        if link.http2:
            s = c.half[t.side ^ c.flip]
            return k if s.given - s.delivered < MESSAGES else -1
        if c.owner >= 0:
            if c.owner == t.pair:
                return k
            continue
        h = t.side ^ c.flip
        quiet = c.half[h].given == c.half[h].delivered
        if not t.exclusive and c.pair == t.pair and quiet:
            return k
        if free < 0 and quiet and c.half[1 - h].given == c.half[1 - h].delivered:
            free = k
    if free >= 0:
        return free
    if count >= link.pool:
        return -1
    if unused < 0:
        return -2
    open_anew(connections[unused], link, t.link, t.side, t.session)
    return unused


@entry
def place(connections: Record, links: Record, transfers: Record, number: int, now: float) -> int:
    """Put a transfer on a connection, if one is free; ``choose``'s answer."""
    t = transfers[number]
    k = choose(connections, links, t)
    t.connection = max(k, -1)
    if k < 0:
        return k
    c = connections[k]
    c.pair = t.pair
    if t.exclusive and not links[t.link].http2:
        c.owner = t.pair
    _borrow(c, links[t.link])
    kernel.give(
        c,
        t.side ^ c.flip,
        now,
        number,
        t.size,
        t.available,
        t.key,
        t.forward,
        t.backward,
        t.stream,
    )
    _return(c, links[t.link])
    return k


@entry
def extend(
    connections: Record, links: Record, transfers: Record, number: int, now: float, size: int
) -> None:
    """``size`` more bytes of a transfer are there to be sent."""
    t = transfers[number]
    t.available += size
    if t.connection < 0:
        return
    c = connections[t.connection]
    _borrow(c, links[t.link])
    kernel.more(c, t.side ^ c.flip, now, size)
    _return(c, links[t.link])


@compiled
def place_waiting(
    connections: Record, links: Record, transfers: Record, number: int, now: float
) -> None:
    """Let the transfers that wait for a connection over a link have it, in their order."""
    while True:
        first = -1
        for k in range(len(transfers)):
            t = transfers[k]
            waits = t.connection == -1 and t.link == number
            if waits and (first < 0 or t.order < transfers[first].order):
                first = k
        if first < 0 or place(connections, links, transfers, first, now) < 0:
            return


@compiled
def account(c: Record, t: Record, now: float) -> None:
    """Where the time of a transfer that has arrived went."""
    m = c.half[c.told_half].message[c.told_slot]
    t.arrived = now
    late = now - m.left - t.forward
    t.recovery = late if m.resent else 0.0
    t.queueing = 0.0 if m.resent else late
    if m.began < t.given:  # parts of it went before it was whole
        rest = now - t.given - t.forward - late
        t.handshake = 0.0
        t.transmission = min(m.wire_ms, rest)
        t.window = rest - t.transmission
        return
    opened = max(t.given, c.ready_ms)
    t.handshake = opened - t.given if opened <= m.began else 0.0
    t.queueing += m.began - t.given - t.handshake + m.waited
    t.transmission = m.wire_ms
    t.window = m.left - m.began - m.waited - m.wire_ms
    if abs(t.window) < 1e-9:
        t.window = 0.0


@entry
def advance(
    connections: Record, links: Record, transfers: Record, waiting: bool, now: float, until: float
) -> tuple[int, float]:
    """Let time pass up to ``until``, or to the next arrival if that is sooner.

    Args:
        waiting: whether a transfer may wait for a connection.

    Returns:
        The connection on which something arrived (-1: none did), and when.
    """
    for k in range(len(connections)):
        c = connections[k]
        if c.link == UNUSED:
            break
        if c.link >= 0 and c.untold:
            _borrow(c, links[c.link])
            there = kernel.arrivals(c, now)
            _return(c, links[c.link])
            if there:
                _settle(connections, links, transfers, waiting, k, now)
                return k, now
    while True:
        soonest = math.inf
        chosen = -1
        for k in range(len(connections)):
            c = connections[k]
            if c.link == UNUSED:
                break
            if c.link >= 0 and c.next < soonest:
                soonest = c.next
                chosen = k
        if chosen < 0 or soonest > until:
            return -1, math.inf
        c = connections[chosen]
        _borrow(c, links[c.link])
        there = kernel.step(c)
        _return(c, links[c.link])
        if there:
            _settle(connections, links, transfers, waiting, chosen, soonest)
            return chosen, soonest


@compiled
def _settle(
    connections: Record, links: Record, transfers: Record, waiting: bool, k: int, now: float
) -> None:
    c = connections[k]
    if c.told_bytes < c.told_size:
        return
    t = transfers[c.told_number]
    account(c, t, now)
    t.connection = -2
    if waiting and not t.exclusive:
        place_waiting(connections, links, transfers, c.link, now)


@entry
def release(connections: Record, links: Record, transfers: Record, pair: int, now: float) -> None:
    """An exchange is over: its connections may carry others."""
    for k in range(len(connections)):
        c = connections[k]
        if c.link == UNUSED:
            break
        if c.link >= 0 and c.owner == pair:
            c.owner = -1
            place_waiting(connections, links, transfers, c.link, now)
