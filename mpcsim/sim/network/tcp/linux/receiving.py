"""The receiver of Linux: which segments it acknowledges at once, which later."""

from __future__ import annotations

import math

from mpcsim.sim.network.tcp.compiled import compiled
from mpcsim.sim.network.tcp.linux.timing import REORDERING, late
from mpcsim.sim.network.tcp.receiver import send_ack
from mpcsim.sim.network.tcp.state import RING, SEGMENT_BYTES, Record

QUICK_ACKS = 16
LEAST_GROWING = 128
MOST_COMPRESSED = 44
LEAST_ATO_MS = 40.0
MOST_ATO_MS = 200.0


@compiled
def count_quick(c: Record, d: int) -> None:
    r = c.half[d]
    if r.quick > 0:
        r.quick -= 1
        if r.quick == 0:
            r.ato = LEAST_ATO_MS


@compiled
def arrive(c: Record, d: int, now: float, i: int) -> None:
    """Segment ``i`` of half ``d`` is there: quick acknowledgements first, then delayed ones. Of
    what is behind a hole the first three segments are acknowledged at once (``dupacks`` counts
    them), later ones together (``__tcp_ack_snd_check``)."""
    r = c.half[d]
    segment = r.segment[i & RING]
    if i < r.rcv_nxt or segment.got:
        r.quick = max(r.quick, QUICK_ACKS)
        r.ato = LEAST_ATO_MS
        acknowledge_now(c, d, now, i, 1)
        return
    r.rcv_count += 1
    segment.got = r.rcv_count
    before = r.rcv_nxt
    filled = False
    if i == r.rcv_nxt:
        r.rcv_nxt += 1
        r.rcv_bytes = segment.end
        while r.rcv_beyond and r.rcv_nxt < r.nxt:
            following = r.segment[r.rcv_nxt & RING]
            if not following.got:
                break
            r.rcv_nxt += 1
            r.rcv_beyond -= 1
            r.rcv_bytes = following.end
            filled = True
    else:
        r.rcv_beyond += 1
    _pace(c, d, now)
    if segment.size >= LEAST_GROWING:
        r.quick |= 1  # the receive window grows (``tcp_grow_window``)
    r.rcv_pending += segment.size
    if r.rcv_nxt > before:
        r.dupacks = 0
    quick = r.quick and not r.pingpong
    if filled or quick or (r.rcv_nxt > before and r.rcv_pending > SEGMENT_BYTES):
        acknowledge_now(c, d, now, i, 0)
    elif r.rcv_beyond:
        if r.dupacks < REORDERING or r.rcv_pending >= MOST_COMPRESSED * SEGMENT_BYTES:
            r.dupacks += 1
            acknowledge_now(c, d, now, i, 0)
        elif r.delack == math.inf:
            r.delack = now + _compression(c, d)
    elif r.delack == math.inf:
        r.delack = now + late(_delay(c, d))


@compiled
def _compression(c: Record, d: int) -> float:
    """How long acknowledgements wait to be put together: 1 ms or 5 % of a round trip, and a slack
    of 0.1 ms."""
    back = c.half[1 - d]
    return (min(back.srtt / 20, 1.0) if back.samples else 1.0) + 0.1


@compiled
def acknowledge_now(c: Record, d: int, now: float, i: int, duplicate: int) -> None:
    count_quick(c, d)
    send_ack(c, d, now, i, 0, duplicate)


@compiled
def _pace(c: Record, d: int, now: float) -> None:
    """Learn how often data comes (``tcp_event_data_recv``)."""
    r = c.half[d]
    if r.ato <= 0:
        r.quick = QUICK_ACKS
        r.ato = LEAST_ATO_MS
    else:
        since = now - r.rcv_last
        if since <= LEAST_ATO_MS / 2:
            r.ato = r.ato / 2 + LEAST_ATO_MS / 2
        elif since < r.ato:
            r.ato = min(r.ato / 2 + since, c.half[1 - d].rto)
        elif since > c.half[1 - d].rto:
            r.quick = max(r.quick, QUICK_ACKS)
    r.rcv_last = now


@compiled
def _delay(c: Record, d: int) -> float:
    """How long an acknowledgement may wait (``tcp_send_delayed_ack``)."""
    r = c.half[d]
    if r.ato <= LEAST_ATO_MS:
        return r.ato
    most = MOST_ATO_MS
    back = c.half[1 - d]
    if back.samples:
        most = min(most, max(back.srtt, LEAST_ATO_MS))
    return min(r.ato, most)


@compiled
def delayed(c: Record, d: int) -> None:
    """The timer of a delayed acknowledgement: no answer came to take it along."""
    r = c.half[d]
    if r.rcv_beyond:
        return  # it is that of acknowledgements that were put together
    if r.pingpong:
        r.pingpong = 0
        r.ato = LEAST_ATO_MS
    else:
        r.ato = min(2 * r.ato, c.half[1 - d].rto)
    count_quick(c, d)
