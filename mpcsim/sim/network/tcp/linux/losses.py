"""Loss detection (RACK) and what follows for the window (PRR) at a Linux sender."""

from __future__ import annotations

import math

from mpcsim.sim.network.tcp import congestion
from mpcsim.sim.network.tcp.compiled import compiled
from mpcsim.sim.network.tcp.linux.sending import threshold
from mpcsim.sim.network.tcp.linux.timing import LEAST_TIMER_MS, REORDERING, late
from mpcsim.sim.network.tcp.segments import in_flight, mark_lost
from mpcsim.sim.network.tcp.state import DISORDER, OPEN, RECOVERY, REORDER, RING, Record


@compiled
def reorder_window(c: Record, h: int) -> float:
    """How long a segment may be late: nothing once three behind it are there (RFC 8985, 6.2)."""
    s = c.half[h]
    if s.state >= RECOVERY or s.sacked >= REORDERING:
        return 0.0
    return min(s.min_rtt / 4, s.srtt)


@compiled
def detect(c: Record, h: int, now: float) -> bool:
    """RACK: what was sent before something that has come, long enough ago, is lost.

    Returns:
        Whether a timer was set for what may still come.
    """
    s = c.half[h]
    if s.rack_sent == -math.inf:
        return False
    window = reorder_window(c, h)
    wait = 0.0
    for i in range(s.una, s.nxt):
        segment = s.segment[i & RING]
        if segment.sacked or (segment.lost and not segment.retrans):
            continue
        if segment.sent > s.rack_sent or (segment.sent == s.rack_sent and i >= s.rack_end):
            continue
        left = s.rack_rtt + window - (now - segment.sent)
        if left <= 1e-9:
            if segment.retrans:
                segment.retrans = 0
                s.retrans -= 1
            mark_lost(c, h, i)
        else:
            wait = max(wait, left)
    if wait > 0:
        s.timer = now + late(wait + LEAST_TIMER_MS)
        s.timer_kind = REORDER
        return True
    return False


@compiled
def note_arrival(c: Record, h: int, now: float, i: int) -> None:
    """Segment ``i`` has come: RACK learns from it."""
    s = c.half[h]
    segment = s.segment[i & RING]
    rtt = now - segment.sent
    if segment.again and rtt < s.min_rtt:
        return
    s.rack_rtt = rtt
    if segment.sent > s.rack_sent or (segment.sent == s.rack_sent and i > s.rack_end):
        s.rack_sent = segment.sent
        s.rack_end = i


@compiled
def reduce(c: Record, h: int, delivered: int, lost: int, advanced: bool) -> None:
    """Proportional rate reduction (``tcp_cwnd_reduction``)."""
    s = c.half[h]
    if delivered <= 0 or s.prior <= 0:
        return
    s.prr_delivered += delivered
    room = s.ssthresh - in_flight(c, h)
    if room < 0:
        count = (s.ssthresh * s.prr_delivered + s.prior - 1) // s.prior - s.prr_out
    else:
        count = max(s.prr_delivered - s.prr_out, delivered)
        if advanced and lost == 0:
            count += 1
        count = min(room, count)
    count = max(count, 0 if s.prr_out else 1)
    s.cwnd = in_flight(c, h) + count


@compiled
def begin_reduction(c: Record, h: int) -> None:
    s = c.half[h]
    s.recover = s.nxt
    s.probe_end = -1
    s.cwnd_count = 0
    s.prior = s.cwnd
    s.prr_delivered = 0
    s.prr_out = 0
    s.ssthresh = congestion.shrunk(c, h)


@compiled
def remember_window(c: Record, h: int) -> None:
    """What to go back to if nothing was lost after all."""
    s = c.half[h]
    s.undo = s.una
    s.undo_retrans = s.retrans if s.retrans else -1
    s.undo_cwnd = s.cwnd
    s.undo_ssthresh = threshold(c, h) if s.state < RECOVERY else s.undo_ssthresh


@compiled
def enter_recovery(c: Record, h: int) -> None:
    s = c.half[h]
    remember_window(c, h)
    begin_reduction(c, h)
    s.state = RECOVERY


@compiled
def may_undo(c: Record, h: int, echo: float) -> bool:
    """Whether all that was sent again had come, or this acknowledges an original."""
    s = c.half[h]
    if s.undo < 0:
        return False
    return s.undo_retrans == 0 or (
        s.retrans_ms >= 0 and math.floor(echo) < math.floor(s.retrans_ms)
    )


@compiled
def undo(c: Record, h: int, unmark: bool) -> None:
    s = c.half[h]
    if unmark:
        for i in range(s.una, s.nxt):
            segment = s.segment[i & RING]
            if segment.lost:
                segment.lost = 0
                s.lost -= 1
    s.cwnd = max(s.cwnd, s.undo_cwnd)
    s.ssthresh = max(s.ssthresh, s.undo_ssthresh)
    s.undo = -1


@compiled
def open_or_disorder(c: Record, h: int) -> None:
    s = c.half[h]
    s.state = DISORDER if s.sacked or s.lost or s.retrans else OPEN
    if s.state == OPEN:
        s.retrans_ms = -1.0
