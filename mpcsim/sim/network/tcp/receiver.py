"""The receiving end of a half: what has come, when to acknowledge it, whom to tell."""

from __future__ import annotations

import math

from mpcsim.sim.network.tcp import ns3
from mpcsim.sim.network.tcp.compiled import compiled
from mpcsim.sim.network.tcp.state import ACK, MESSAGES, RING, Record
from mpcsim.sim.network.tcp.wire import launch

SACK_BYTES = 8


@compiled
def send_ack(c: Record, d: int, now: float, i: int, late: int, duplicate: int) -> None:
    """Acknowledge what came of half ``d``; segment ``i`` is the reason."""
    r = c.half[d]
    back = c.half[1 - d]
    r.delack = math.inf
    r.rcv_pending = 0
    r.rcv_acked = r.rcv_nxt
    if not c.linux:
        back.rto = ns3.timeout(c, 1 - d)
    segment = c.half[d].segment[i & RING]
    m = c.half[d].message[segment.message & MESSAGES]
    size = c.header
    if r.rcv_beyond:
        size += SACK_BYTES
    slot = launch(c, 1 - d, now, size, m.backward, m.key, segment.place, segment.tries, 1 + late)
    if slot >= 0:
        packet = c.half[1 - d].packet[slot]
        packet.kind = ACK
        packet.ack = r.rcv_nxt
        packet.count = r.rcv_count
        packet.holes = r.rcv_beyond
        packet.echo = r.rcv_echo
        packet.sent = now
        packet.next = back.nxt
        packet.duplicate = duplicate


@compiled
def arrive(c: Record, d: int, now: float, i: int) -> None:
    """Segment ``i`` of half ``d`` is there."""
    r = c.half[d]
    segment = c.half[d].segment[i & RING]
    if i < r.rcv_nxt or segment.got:
        send_ack(c, d, now, i, 0, 0)
        return
    r.rcv_count += 1
    segment.got = r.rcv_count
    filled = False
    if i == r.rcv_nxt:
        r.rcv_nxt += 1
        r.rcv_bytes = segment.end
        while r.rcv_beyond and r.rcv_nxt < r.nxt:
            following = c.half[d].segment[r.rcv_nxt & RING]
            if not following.got:
                break
            r.rcv_nxt += 1
            r.rcv_beyond -= 1
            r.rcv_bytes = following.end
            filled = True
    else:
        r.rcv_beyond += 1
    if r.rcv_beyond or filled:
        send_ack(c, d, now, i, 0, 0)
        return
    r.rcv_pending += 1
    if r.rcv_pending >= 2:
        send_ack(c, d, now, i, 0, 0)
    elif r.delack == math.inf:
        r.delack = now + c.delack


@compiled
def told(c: Record, d: int) -> bool:
    """Whether a message of half ``d``, or more of one, has arrived and nobody was told."""
    r = c.half[d]
    while r.delivered < r.given:
        m = r.message[r.delivered & MESSAGES]
        here = min(r.rcv_bytes - m.begin, m.size)
        if here < m.size and (here <= m.told or not m.stream):
            return False
        m.told = here
        c.told_failed = 0
        c.told_half = d
        c.told_number = m.number
        c.told_bytes = here
        c.told_size = m.size
        c.told_slot = r.delivered & MESSAGES
        if here == m.size:
            r.delivered += 1
        return True
    return False
