"""The timer of a Linux sender: tail loss probes and retransmission timeouts."""

from __future__ import annotations

import math

from mpcsim.sim.network.tcp import congestion
from mpcsim.sim.network.tcp.compiled import compiled
from mpcsim.sim.network.tcp.linux.losses import (
    detect,
    enter_recovery,
    reduce,
    remember_window,
    reorder_window,
)
from mpcsim.sim.network.tcp.linux.sending import retransmit, retransmit_lost
from mpcsim.sim.network.tcp.linux.timing import MAX_RTO_MS, late
from mpcsim.sim.network.tcp.segments import cut, in_flight, mark_lost, transmit
from mpcsim.sim.network.tcp.state import (
    LOSS,
    PROBE,
    RECOVERY,
    REORDER,
    RETRANSMIT,
    RING,
    SEGMENT_BYTES,
    Record,
)

GIVE_UP_MS = 924_600.0


@compiled
def expire(c: Record, h: int, now: float) -> None:
    """The sender's timer."""
    s = c.half[h]
    kind = s.timer_kind
    s.timer = math.inf
    if s.una == s.nxt:
        return
    if kind == PROBE:
        _probe(c, h, now)
    elif kind == REORDER:
        before = in_flight(c, h)
        detect(c, h, now)
        if in_flight(c, h) != before:
            if s.state != RECOVERY:
                enter_recovery(c, h)
                reduce(c, h, 1, 0, False)
            retransmit_lost(c, h, now)
        s.timer_kind = RETRANSMIT
        s.timer = now + late(max(s.segment[s.una & RING].sent + s.rto - now, 0.001))
    else:
        _timeout(c, h, now)


@compiled
def _probe(c: Record, h: int, now: float) -> None:
    """Send something so that the receiver speaks: new data, or the last segment again; then the
    timer begins anew (``tcp_send_loss_probe``)."""
    s = c.half[h]
    if s.probe_end < 0:
        if s.available > s.sent and s.nxt - s.una < RING:
            s.probe_again = 0
            i = cut(c, h, now, SEGMENT_BYTES)
            transmit(c, h, now, i)
        else:
            s.probe_again = 1
            i = s.nxt - 1
            retransmit(c, h, now, i)
        s.probe_end = s.nxt
        wait = s.rto
    else:
        wait = max(s.segment[s.una & RING].sent + s.rto - now, 0.001)
    s.timer_kind = RETRANSMIT
    s.timer = now + late(wait)


@compiled
def _timeout(c: Record, h: int, now: float) -> None:
    """Nothing came for too long (``tcp_enter_loss``); after ``tcp_retries2`` timeouts of the least
    length, doubled up to the longest, the connection is given up (``retransmits_timed_out``)."""
    s = c.half[h]
    if s.partial and s.retrans_ms >= 0 and now - s.retrans_ms >= GIVE_UP_MS:
        c.given_up = 1
        return
    new = s.state < RECOVERY
    for i in range(s.una, s.nxt):
        segment = s.segment[i & RING]
        if segment.sacked:
            continue
        recent = s.rack_rtt + reorder_window(c, h) - (now - segment.sent) > 0
        if i != s.una and s.rack_sent > -math.inf and recent:
            continue
        if segment.retrans:
            segment.retrans = 0
            s.retrans -= 1
        mark_lost(c, h, i)
    if new or s.una >= s.recover or (s.state == LOSS and s.partial == 0):
        remember_window(c, h)
        s.ssthresh = congestion.shrunk(c, h)
        s.prior = s.cwnd
    if c.cubic:
        congestion.forget(c, h)
        s.epoch_ms = -1.0
    s.frto = 1 if new or s.partial else 0
    s.cwnd = in_flight(c, h) + 1
    s.cwnd_count = 0
    s.state = LOSS
    s.recover = s.nxt
    s.probe_end = -1
    s.partial = 1
    retransmit(c, h, now, s.una)
    s.rto = min(2 * s.rto, MAX_RTO_MS)
    s.timer = now + late(s.rto)
    s.timer_kind = RETRANSMIT
