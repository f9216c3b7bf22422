"""A sender's segments: cutting them, sending them, what acknowledgements say of them."""

from __future__ import annotations

import math

from mpcsim.sim.network.tcp.compiled import compiled
from mpcsim.sim.network.tcp.state import DATA, MESSAGES, RING, SEGMENT_BYTES, Record
from mpcsim.sim.network.tcp.wire import DROPPED, launch


@compiled
def in_flight(c: Record, h: int) -> int:
    """``pipe`` of RFC 6675: units sent that are neither known to be there nor known to be lost."""
    s = c.half[h]
    return s.out - s.sacked - s.lost + s.retrans


@compiled
def weight(c: Record, size: int) -> int:
    """Units of a segment."""
    return 1 if c.linux else size


@compiled
def cut(c: Record, h: int, now: float, most: int) -> int:
    """Make the next new segment, of up to ``most`` bytes; its number."""
    s = c.half[h]
    size = min(s.available - s.sent, SEGMENT_BYTES, most)
    m = c.half[h].message[s.sending & MESSAGES]
    while s.sent >= m.begin + m.size:
        s.sending += 1
        m = c.half[h].message[s.sending & MESSAGES]
    i = s.nxt
    if s.sent == m.begin:
        m.first_segment = i
        m.began = m.left = now
    segment = c.half[h].segment[i & RING]
    segment.message = s.sending
    segment.place = i - m.first_segment
    s.sent += size
    s.nxt += 1
    while m.begin + m.size < s.sent:  # the beginning of the next message comes along
        s.sending += 1
        m = s.message[s.sending & MESSAGES]
        m.first_segment = i
        m.began = m.left = now
    s.out += weight(c, size)
    segment.size = size
    segment.end = s.sent
    segment.tries = 0
    segment.sacked = 0
    segment.lost = 0
    segment.retrans = 0
    segment.again = 0
    segment.got = 0
    return i


@compiled
def transmit(c: Record, h: int, now: float, i: int) -> None:
    """Put segment ``i`` on the wire, with an acknowledgement of what came the other way."""
    s = c.half[h]
    back = c.half[1 - h]
    segment = c.half[h].segment[i & RING]
    m = c.half[h].message[segment.message & MESSAGES]
    segment.sent = now
    before = s.wire[0].free
    latency = m.forward
    k = segment.message + 1
    while k < s.given and s.message[k & MESSAGES].begin < segment.end:
        latency = max(latency, s.message[k & MESSAGES].forward)
        k += 1
    slot = launch(
        c,
        h,
        now,
        segment.size + c.header,
        latency,
        m.key,
        segment.place,
        segment.tries,
        0,
    )
    byte_ms = 8 / s.wire[0].bits_per_ms
    k = segment.message
    while k < s.given and s.message[k & MESSAGES].begin < segment.end:
        own = s.message[k & MESSAGES]
        k += 1
        if segment.tries:
            own.resent += 1
        elif slot != DROPPED:
            share = min(own.begin + own.size, segment.end)
            share -= max(own.begin, segment.end - segment.size)
            own.wire_ms += (share + c.header) * byte_ms
            # Behind others' packets, and along with others' bytes.
            own.waited += max(before - max(now, own.left), 0.0)
            own.waited += (segment.size - share) * byte_ms
            own.left = s.wire[0].free
    segment.tries += 1
    s.last_sent = now
    back.delack = math.inf
    back.rcv_pending = 0
    if slot >= 0:
        packet = c.half[h].packet[slot]
        packet.kind = DATA
        packet.segment = i
        packet.ack = back.rcv_nxt
        packet.count = back.rcv_count
        packet.holes = 0
        packet.echo = back.rcv_echo
        packet.sent = now
        packet.next = i
        packet.duplicate = 0


@compiled
def again(c: Record, h: int, i: int) -> None:
    """Count segment ``i`` as sent again."""
    s = c.half[h]
    segment = c.half[h].segment[i & RING]
    segment.again = 1
    if not segment.retrans:
        segment.retrans = 1
        s.retrans += weight(c, segment.size)


@compiled
def sack(c: Record, h: int, count: int) -> int:
    """Note the segments that had come when ``count`` had; the units of those not known before."""
    s = c.half[h]
    found = 0
    for i in range(s.una, s.nxt):
        segment = c.half[h].segment[i & RING]
        if segment.got == 0 or segment.got > count or segment.sacked:
            continue
        units = weight(c, segment.size)
        segment.sacked = 1
        s.sacked += units
        found += units
        if segment.lost:
            segment.lost = 0
            s.lost -= units
        if segment.retrans and c.linux:
            segment.retrans = 0
            s.retrans -= units
        s.high_sack = max(s.high_sack, i)
    return found


@compiled
def discard(c: Record, h: int) -> int:
    """Drop the first segment, which is acknowledged; its units, unless it was known to be there."""
    s = c.half[h]
    segment = c.half[h].segment[s.una & RING]
    units = weight(c, segment.size)
    s.una += 1
    if s.high_sack < s.una:
        s.high_sack = -1
    s.out -= units
    if segment.retrans:
        s.retrans -= units
    if segment.lost:
        s.lost -= units
    if segment.sacked:
        s.sacked -= units
        return 0
    return int(units)


@compiled
def mark_lost(c: Record, h: int, i: int) -> int:
    """Take segment ``i`` for lost; the units that were not taken for lost before."""
    s = c.half[h]
    segment = c.half[h].segment[i & RING]
    if segment.lost or segment.sacked:
        return 0
    segment.lost = 1
    units = weight(c, segment.size)
    s.lost += units
    return units
