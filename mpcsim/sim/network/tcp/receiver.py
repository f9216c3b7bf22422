"""Receiving end of a half: acknowledgements, ns-3's receiver, and reports of arrivals."""

from __future__ import annotations

import math

from mpcsim.sim.network.tcp import ns3
from mpcsim.sim.network.tcp.compiled import compiled
from mpcsim.sim.network.tcp.state import ACK, MESSAGES, RING, Record
from mpcsim.sim.network.tcp.wire import launch

SACK_BYTES = 8


@compiled
def send_ack(c: Record, d: int, now: float, i: int, late: int, duplicate: int) -> None:
    """Send an acknowledgement of half ``d``, caused by segment ``i``."""
    r = c.half[d]
    back = c.half[1 - d]
    r.delack_expires = math.inf
    r.rcv_pending = 0
    r.last_ack_sent = r.rcv_nxt
    if not c.linux:
        back.rto = ns3.retransmission_timeout(c, 1 - d)
    segment = c.half[d].segment[i & RING]
    m = c.half[d].message[segment.message & MESSAGES]
    size = c.header
    if r.ofo_segments:
        size += SACK_BYTES
    slot = launch(
        c, 1 - d, now, size, m.backward, m.key, segment.index, segment.transmissions, 1 + late
    )
    if slot >= 0:
        packet = c.half[1 - d].packet[slot]
        packet.kind = ACK
        packet.ack = r.rcv_nxt
        packet.count = r.rcv_arrivals
        packet.holes = r.ofo_segments
        packet.echo = r.ts_recent
        packet.sent = now
        packet.next = back.snd_nxt
        packet.duplicate = duplicate


@compiled
def receive_data(c: Record, d: int, now: float, i: int) -> None:
    """Process data segment ``i`` of half ``d`` as ns-3 does (``ReceivedData``)."""
    r = c.half[d]
    segment = c.half[d].segment[i & RING]
    if i < r.rcv_nxt or segment.arrival:
        send_ack(c, d, now, i, 0, 0)
        return
    r.rcv_arrivals += 1
    segment.arrival = r.rcv_arrivals
    filled = False
    if i == r.rcv_nxt:
        r.rcv_nxt += 1
        r.rcv_bytes = segment.end_seq
        while r.ofo_segments and r.rcv_nxt < r.snd_nxt:
            following = c.half[d].segment[r.rcv_nxt & RING]
            if not following.arrival:
                break
            r.rcv_nxt += 1
            r.ofo_segments -= 1
            r.rcv_bytes = following.end_seq
            filled = True
    else:
        r.ofo_segments += 1
    if r.ofo_segments or filled:
        send_ack(c, d, now, i, 0, 0)
        return
    r.rcv_pending += 1
    if r.rcv_pending >= 2:
        send_ack(c, d, now, i, 0, 0)
    elif r.delack_expires == math.inf:
        r.delack_expires = now + c.delack_timeout


@compiled
def next_arrival(c: Record, d: int) -> bool:
    """Report the next arrival of half ``d`` in ``arrival_...``; return whether there is one."""
    r = c.half[d]
    while r.messages_delivered < r.messages_queued:
        m = r.message[r.messages_delivered & MESSAGES]
        here = min(r.rcv_bytes - m.begin, m.size)
        if here < m.size and (here <= m.reported or not m.stream):
            return False
        m.reported = here
        c.arrival_failed = 0
        c.arrival_half = d
        c.arrival_number = m.number
        c.arrival_bytes = here
        c.arrival_size = m.size
        c.arrival_slot = r.messages_delivered & MESSAGES
        if here == m.size:
            r.messages_delivered += 1
        return True
    return False
