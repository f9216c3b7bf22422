"""A sender's segments: segmentation, transmission, and marks of SACK and loss."""

from __future__ import annotations

import math

from mpcsim.sim.network.tcp.compiled import compiled
from mpcsim.sim.network.tcp.state import DATA, MESSAGES, RING, SEGMENT_BYTES, Record
from mpcsim.sim.network.tcp.wire import DROPPED, launch


@compiled
def in_flight(c: Record, h: int) -> int:
    """Return ``pipe`` of RFC 6675: units sent, neither acknowledged nor marked lost."""
    s = c.half[h]
    return s.packets_out - s.sacked_out - s.lost_out + s.retrans_out


@compiled
def segment_units(c: Record, size: int) -> int:
    """Return the units of a segment of ``size`` bytes."""
    return 1 if c.linux else size


@compiled
def next_segment(c: Record, h: int, now: float, most: int) -> int:
    """Make the next new segment, of up to ``most`` bytes; return its number."""
    s = c.half[h]
    size = min(s.bytes_available - s.bytes_sent, SEGMENT_BYTES, most)
    m = c.half[h].message[s.sending_message & MESSAGES]
    while s.bytes_sent >= m.begin + m.size:
        s.sending_message += 1
        m = c.half[h].message[s.sending_message & MESSAGES]
    i = s.snd_nxt
    if s.bytes_sent == m.begin:
        m.first_segment = i
        m.began = m.left = now
    segment = c.half[h].segment[i & RING]
    segment.message = s.sending_message
    segment.index = i - m.first_segment
    s.bytes_sent += size
    s.snd_nxt += 1
    while m.begin + m.size < s.bytes_sent:  # it has the beginning of the next message, too
        s.sending_message += 1
        m = s.message[s.sending_message & MESSAGES]
        m.first_segment = i
        m.began = m.left = now
    s.packets_out += segment_units(c, size)
    segment.size = size
    segment.end_seq = s.bytes_sent
    segment.transmissions = 0
    segment.sacked = 0
    segment.lost = 0
    segment.retrans = 0
    segment.ever_retrans = 0
    segment.arrival = 0
    return i


@compiled
def transmit(c: Record, h: int, now: float, i: int) -> None:
    """Send segment ``i`` over the wire, with an acknowledgement of the other direction."""
    s = c.half[h]
    back = c.half[1 - h]
    segment = c.half[h].segment[i & RING]
    m = c.half[h].message[segment.message & MESSAGES]
    segment.xmit_ts = now
    before = s.wire[0].free
    latency = m.forward
    k = segment.message + 1
    while k < s.messages_queued and s.message[k & MESSAGES].begin < segment.end_seq:
        latency = max(latency, s.message[k & MESSAGES].forward)
        k += 1
    slot = launch(
        c,
        h,
        now,
        segment.size + c.header,
        latency,
        m.key,
        segment.index,
        segment.transmissions,
        0,
    )
    byte_ms = 8 / s.wire[0].bits_per_ms
    k = segment.message
    while k < s.messages_queued and s.message[k & MESSAGES].begin < segment.end_seq:
        own = s.message[k & MESSAGES]
        k += 1
        if segment.transmissions:
            own.resent += 1
        elif slot != DROPPED:
            share = min(own.begin + own.size, segment.end_seq)
            share -= max(own.begin, segment.end_seq - segment.size)
            own.wire_ms += (share + c.header) * byte_ms
            # Time behind other packets, and of other messages' bytes in the segment.
            own.waited += max(before - max(now, own.left), 0.0)
            own.waited += (segment.size - share) * byte_ms
            own.left = s.wire[0].free
    segment.transmissions += 1
    s.lsndtime = now
    back.delack_expires = math.inf
    back.rcv_pending = 0
    if slot >= 0:
        packet = c.half[h].packet[slot]
        packet.kind = DATA
        packet.segment = i
        packet.ack = back.rcv_nxt
        packet.count = back.rcv_arrivals
        packet.holes = 0
        packet.echo = back.ts_recent
        packet.sent = now
        packet.next = i
        packet.duplicate = 0


@compiled
def mark_retransmitted(c: Record, h: int, i: int) -> None:
    """Mark segment ``i`` as retransmitted."""
    s = c.half[h]
    segment = c.half[h].segment[i & RING]
    segment.ever_retrans = 1
    if not segment.retrans:
        segment.retrans = 1
        s.retrans_out += segment_units(c, segment.size)


@compiled
def mark_sacked(c: Record, h: int, count: int) -> int:
    """Mark the segments of the receiver's first ``count`` arrivals; return the newly marked
    units."""
    s = c.half[h]
    found = 0
    for i in range(s.snd_una, s.snd_nxt):
        segment = c.half[h].segment[i & RING]
        if segment.arrival == 0 or segment.arrival > count or segment.sacked:
            continue
        units = segment_units(c, segment.size)
        segment.sacked = 1
        s.sacked_out += units
        found += units
        if segment.lost:
            segment.lost = 0
            s.lost_out -= units
        if segment.retrans and c.linux:
            segment.retrans = 0
            s.retrans_out -= units
        s.highest_sack = max(s.highest_sack, i)
    return found


@compiled
def pop_acked(c: Record, h: int) -> int:
    """Remove the first segment, now acknowledged; return its units, 0 if it was marked before."""
    s = c.half[h]
    segment = c.half[h].segment[s.snd_una & RING]
    units = segment_units(c, segment.size)
    s.snd_una += 1
    if s.highest_sack < s.snd_una:
        s.highest_sack = -1
    s.packets_out -= units
    if segment.retrans:
        s.retrans_out -= units
    if segment.lost:
        s.lost_out -= units
    if segment.sacked:
        s.sacked_out -= units
        return 0
    return int(units)


@compiled
def mark_lost(c: Record, h: int, i: int) -> int:
    """Mark segment ``i`` lost; return its units, 0 if it was marked before."""
    s = c.half[h]
    segment = c.half[h].segment[i & RING]
    if segment.lost or segment.sacked:
        return 0
    segment.lost = 1
    units = segment_units(c, segment.size)
    s.lost_out += units
    return units
