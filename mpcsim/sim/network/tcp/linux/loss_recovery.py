"""Loss detection (RACK, RFC 8985) and rate reduction (PRR, RFC 6937) at a Linux sender."""

from __future__ import annotations

import math

from mpcsim.sim.network.tcp import congestion
from mpcsim.sim.network.tcp.compiled import compiled
from mpcsim.sim.network.tcp.linux.sending import current_ssthresh
from mpcsim.sim.network.tcp.linux.timing import LEAST_TIMER_MS, REORDERING, timer_wait
from mpcsim.sim.network.tcp.segments import in_flight, mark_lost
from mpcsim.sim.network.tcp.state import DISORDER, OPEN, RECOVERY, RING, TIME_REO_TIMEOUT, Record


@compiled
def rack_reo_wnd(c: Record, h: int) -> float:
    """Return RACK's reordering window: 0 once three later segments have arrived (RFC 8985, 6.2)."""
    s = c.half[h]
    if s.ca_state >= RECOVERY or s.sacked_out >= REORDERING:
        return 0.0
    return min(s.min_rtt / 4, s.srtt)


@compiled
def rack_detect_loss(c: Record, h: int, now: float) -> bool:
    """Mark segments lost that were sent long enough before a delivered one
    (``tcp_rack_detect_loss``).

    Returns:
        Whether a timer was set for segments that may still arrive.
    """
    s = c.half[h]
    if s.rack_xmit_ts == -math.inf:
        return False
    window = rack_reo_wnd(c, h)
    wait = 0.0
    for i in range(s.snd_una, s.snd_nxt):
        segment = s.segment[i & RING]
        if segment.sacked or (segment.lost and not segment.retrans):
            continue
        if segment.xmit_ts > s.rack_xmit_ts or (
            segment.xmit_ts == s.rack_xmit_ts and i >= s.rack_end_seq
        ):
            continue
        left = s.rack_rtt + window - (now - segment.xmit_ts)
        if left <= 1e-9:
            if segment.retrans:
                segment.retrans = 0
                s.retrans_out -= 1
            mark_lost(c, h, i)
        else:
            wait = max(wait, left)
    if wait > 0:
        s.timer_expires = now + timer_wait(wait + LEAST_TIMER_MS)
        s.timer_kind = TIME_REO_TIMEOUT
        return True
    return False


@compiled
def rack_advance(c: Record, h: int, now: float, i: int) -> None:
    """Update RACK's newest delivered segment by segment ``i`` (``tcp_rack_advance``)."""
    s = c.half[h]
    segment = s.segment[i & RING]
    rtt = now - segment.xmit_ts
    if segment.ever_retrans and rtt < s.min_rtt:
        return
    s.rack_rtt = rtt
    if segment.xmit_ts > s.rack_xmit_ts or (
        segment.xmit_ts == s.rack_xmit_ts and i > s.rack_end_seq
    ):
        s.rack_xmit_ts = segment.xmit_ts
        s.rack_end_seq = i


@compiled
def cwnd_reduction(c: Record, h: int, delivered: int, lost: int, advanced: bool) -> None:
    """Set the window by proportional rate reduction (``tcp_cwnd_reduction``)."""
    s = c.half[h]
    if delivered <= 0 or s.recover_fs <= 0:
        return
    s.prr_delivered += delivered
    room = s.ssthresh - in_flight(c, h)
    if room < 0:
        count = (s.ssthresh * s.prr_delivered + s.recover_fs - 1) // s.recover_fs - s.prr_out
    else:
        count = max(s.prr_delivered - s.prr_out, delivered)
        if advanced and lost == 0:
            count += 1
        count = min(room, count)
    count = max(count, 0 if s.prr_out else 1)
    s.cwnd = in_flight(c, h) + count


@compiled
def init_cwnd_reduction(c: Record, h: int) -> None:
    """Begin a reduction of the window (``tcp_init_cwnd_reduction``)."""
    s = c.half[h]
    s.recover = s.snd_nxt
    s.tlp_end_seq = -1
    s.snd_cwnd_cnt = 0
    s.recover_fs = s.cwnd
    s.prr_delivered = 0
    s.prr_out = 0
    s.ssthresh = congestion.ssthresh_after_loss(c, h)


@compiled
def init_undo(c: Record, h: int) -> None:
    """Remember the window, to restore it after a spurious reduction (``tcp_init_undo``)."""
    s = c.half[h]
    s.undo_marker = s.snd_una
    s.undo_retrans = s.retrans_out if s.retrans_out else -1
    s.prior_cwnd = s.cwnd
    s.prior_ssthresh = current_ssthresh(c, h) if s.ca_state < RECOVERY else s.prior_ssthresh


@compiled
def enter_recovery(c: Record, h: int) -> None:
    """Enter fast recovery (``tcp_enter_recovery``)."""
    s = c.half[h]
    init_undo(c, h)
    init_cwnd_reduction(c, h)
    s.ca_state = RECOVERY


@compiled
def may_undo(c: Record, h: int, echo: float) -> bool:
    """Return whether all retransmissions were spurious (D-SACK, or time stamp: Eifel, RFC 3522)."""
    s = c.half[h]
    if s.undo_marker < 0:
        return False
    return s.undo_retrans == 0 or (
        s.retrans_stamp >= 0 and math.floor(echo) < math.floor(s.retrans_stamp)
    )


@compiled
def undo_cwnd_reduction(c: Record, h: int, unmark: bool) -> None:
    """Restore the window (``tcp_undo_cwnd_reduction``); ``unmark``: clear loss marks, too."""
    s = c.half[h]
    if unmark:
        for i in range(s.snd_una, s.snd_nxt):
            segment = s.segment[i & RING]
            if segment.lost:
                segment.lost = 0
                s.lost_out -= 1
    s.cwnd = max(s.cwnd, s.prior_cwnd)
    s.ssthresh = max(s.ssthresh, s.prior_ssthresh)
    s.undo_marker = -1


@compiled
def try_keep_open(c: Record, h: int) -> None:
    """Enter OPEN, or DISORDER while segments are marked (``tcp_try_keep_open``)."""
    s = c.half[h]
    s.ca_state = DISORDER if s.sacked_out or s.lost_out or s.retrans_out else OPEN
    if s.ca_state == OPEN:
        s.retrans_stamp = -1.0
