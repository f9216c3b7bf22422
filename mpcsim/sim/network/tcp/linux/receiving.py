"""Linux's receiver: quick, delayed and compressed acknowledgements."""

from __future__ import annotations

import math

from mpcsim.sim.network.tcp.compiled import compiled
from mpcsim.sim.network.tcp.linux.timing import REORDERING, timer_wait
from mpcsim.sim.network.tcp.receiver import send_ack
from mpcsim.sim.network.tcp.state import RING, SEGMENT_BYTES, Record

QUICK_ACKS = 16
LEAST_GROWING = 128
MOST_COMPRESSED = 44
LEAST_ATO_MS = 40.0
MOST_ATO_MS = 200.0


@compiled
def dec_quickack_mode(c: Record, d: int) -> None:
    """Count an acknowledgement off the quick ones (``tcp_dec_quickack_mode``)."""
    r = c.half[d]
    if r.quick_acks > 0:
        r.quick_acks -= 1
        if r.quick_acks == 0:
            r.ato = LEAST_ATO_MS


@compiled
def receive_data(c: Record, d: int, now: float, i: int) -> None:
    """Process data segment ``i`` of half ``d`` (``tcp_data_queue``, ``__tcp_ack_snd_check``).

    Acknowledgements are quick at first, then delayed. Behind a hole the first three segments are
    acknowledged at once (``dupacks`` counts them), later ones together (compressed).
    """
    r = c.half[d]
    segment = r.segment[i & RING]
    if i < r.rcv_nxt or segment.arrival:
        r.quick_acks = max(r.quick_acks, QUICK_ACKS)
        r.ato = LEAST_ATO_MS
        send_ack_now(c, d, now, i, 1)
        return
    r.rcv_arrivals += 1
    segment.arrival = r.rcv_arrivals
    before = r.rcv_nxt
    filled = False
    if i == r.rcv_nxt:
        r.rcv_nxt += 1
        r.rcv_bytes = segment.end_seq
        while r.ofo_segments and r.rcv_nxt < r.snd_nxt:
            following = r.segment[r.rcv_nxt & RING]
            if not following.arrival:
                break
            r.rcv_nxt += 1
            r.ofo_segments -= 1
            r.rcv_bytes = following.end_seq
            filled = True
    else:
        r.ofo_segments += 1
    _event_data_recv(c, d, now)
    if segment.size >= LEAST_GROWING:
        r.quick_acks |= 1  # the receive window grows (``tcp_grow_window``)
    r.rcv_pending += segment.size
    if r.rcv_nxt > before:
        r.dupacks = 0
    quick = r.quick_acks and not r.pingpong
    if filled or quick or (r.rcv_nxt > before and r.rcv_pending > SEGMENT_BYTES):
        send_ack_now(c, d, now, i, 0)
    elif r.ofo_segments:
        if r.dupacks < REORDERING or r.rcv_pending >= MOST_COMPRESSED * SEGMENT_BYTES:
            r.dupacks += 1
            send_ack_now(c, d, now, i, 0)
        elif r.delack_expires == math.inf:
            r.delack_expires = now + _compressed_ack_wait(c, d)
    elif r.delack_expires == math.inf:
        r.delack_expires = now + timer_wait(_delayed_ack_wait(c, d))


@compiled
def _compressed_ack_wait(c: Record, d: int) -> float:
    """Return the wait of compressed ACKs: 1 ms or 5 % of a round trip, and a slack of 0.1 ms."""
    back = c.half[1 - d]
    return (min(back.srtt / 20, 1.0) if back.rtt_samples else 1.0) + 0.1


@compiled
def send_ack_now(c: Record, d: int, now: float, i: int, duplicate: int) -> None:
    """Send an acknowledgement at once (``tcp_send_ack``)."""
    dec_quickack_mode(c, d)
    send_ack(c, d, now, i, 0, duplicate)


@compiled
def _event_data_recv(c: Record, d: int, now: float) -> None:
    """Update the delayed ACK timeout by the interval of data (``tcp_event_data_recv``)."""
    r = c.half[d]
    if r.ato <= 0:
        r.quick_acks = QUICK_ACKS
        r.ato = LEAST_ATO_MS
    else:
        since = now - r.lrcvtime
        if since <= LEAST_ATO_MS / 2:
            r.ato = r.ato / 2 + LEAST_ATO_MS / 2
        elif since < r.ato:
            r.ato = min(r.ato / 2 + since, c.half[1 - d].rto)
        elif since > c.half[1 - d].rto:
            r.quick_acks = max(r.quick_acks, QUICK_ACKS)
    r.lrcvtime = now


@compiled
def _delayed_ack_wait(c: Record, d: int) -> float:
    """Return the delay of an acknowledgement (``tcp_send_delayed_ack``)."""
    r = c.half[d]
    if r.ato <= LEAST_ATO_MS:
        return r.ato
    most = MOST_ATO_MS
    back = c.half[1 - d]
    if back.rtt_samples:
        most = min(most, max(back.srtt, LEAST_ATO_MS))
    return min(r.ato, most)


@compiled
def on_delack_timer(c: Record, d: int) -> None:
    """Process an expired delayed ACK timer (``tcp_delack_timer_handler``)."""
    r = c.half[d]
    if r.ofo_segments:
        return  # it is the timer of compressed acknowledgements
    if r.pingpong:
        r.pingpong = 0
        r.ato = LEAST_ATO_MS
    else:
        r.ato = min(2 * r.ato, c.half[1 - d].rto)
    dec_quickack_mode(c, d)
