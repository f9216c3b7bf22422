"""Congestion control: Reno (RFC 5681) and CUBIC (RFC 9438), as ns-3 and Linux implement them.

Windows are in units of the profile (``state``). Left out: BBR, whose model of the path needs pacing
and long transfers (short messages hardly leave its start-up), HyStart, and ECN.
"""

from __future__ import annotations

import math

from mpcsim.sim.network.tcp.compiled import compiled
from mpcsim.sim.network.tcp.state import Record

CUBIC_C = 0.4
CUBIC_BETA = 0.7
TICK_MS = 4.0
"""Tick of Linux's clock (a jiffy at 250 Hz)."""
KEPT_MS = 28.0
"""Time for which Linux keeps a computed ``cnt`` while the window stays the same (HZ / 32)."""


@compiled
def increase_window(c: Record, h: int, now: float, acked: int) -> None:
    """Increase the window after ``acked`` segments: slow start below ``ssthresh`` (RFC 5681,
    3.1)."""
    s = c.half[h]
    unit = c.unit
    if s.cwnd < s.ssthresh:
        before = s.cwnd
        wanted = s.cwnd + acked * unit
        if c.cubic and not c.linux:
            s.cwnd = wanted
            return
        s.cwnd = min(wanted, s.ssthresh)
        acked -= (s.cwnd - before) // unit
        if acked <= 0:
            return
        if not c.linux:
            return
    elif not c.linux and c.cubic and acked <= 0:
        return
    if c.cubic:
        _bictcp_update(c, h, now, acked)
    else:
        _cong_avoid_ai(c, h, s.cwnd // unit, acked)


@compiled
def _cong_avoid_ai(c: Record, h: int, window: int, acked: int) -> None:
    """Congestion avoidance: one segment more per window acknowledged (``tcp_cong_avoid_ai``)."""
    s = c.half[h]
    unit = c.unit
    window = max(window, 1)
    if s.snd_cwnd_cnt >= window:
        s.snd_cwnd_cnt = 0
        s.cwnd += unit
    s.snd_cwnd_cnt += acked
    if s.snd_cwnd_cnt >= window:
        more = s.snd_cwnd_cnt // window
        s.snd_cwnd_cnt -= more * window
        s.cwnd += more * unit


@compiled
def _bictcp_update(c: Record, h: int, now: float, acked: int) -> None:
    """Increase the window by CUBIC (``bictcp_update``).

    Linux computes ``cnt`` at most once a tick, and keeps it for a while if the window is unchanged.
    """
    s = c.half[h]
    unit = c.unit
    window = s.cwnd // unit
    s.ack_cnt += acked
    known = c.linux and s.epoch_start >= 0
    if known and s.last_cwnd == window and now - s.last_time <= KEPT_MS:
        _cong_avoid_ai(c, h, s.cnt, acked)
        return
    if not known or now - s.last_time > TICK_MS / 2:
        s.last_cwnd = window
        s.last_time = now
        s.cnt = _cubic_cnt(c, h, now, window, acked)
    count = s.cnt
    if c.linux:
        # Reno-friendly region: the estimate W_est of Reno's window (RFC 9438, section 4.3).
        step = window * 15 >> 3
        while s.ack_cnt > step:
            s.ack_cnt -= step
            s.tcp_cwnd += 1
        if s.tcp_cwnd > window:
            count = min(count, window // int(s.tcp_cwnd - window))
        s.cnt = max(count, 2)
        _cong_avoid_ai(c, h, s.cnt, acked)
        return
    s.snd_cwnd_cnt += acked
    if s.snd_cwnd_cnt >= max(count, 2):
        s.cwnd += unit
        s.snd_cwnd_cnt -= max(count, 2)


@compiled
def _cubic_cnt(c: Record, h: int, now: float, window: int, acked: int) -> int:
    """Return the acknowledged segments per increase by one segment (RFC 9438, section 4.2)."""
    s = c.half[h]
    if s.epoch_start < 0:
        s.epoch_start = now
        s.ack_cnt = acked
        s.tcp_cwnd = window
        if s.w_max <= window:
            s.cubic_k = 0.0
            s.bic_origin_point = window
        else:
            s.cubic_k = ((s.w_max - window) / CUBIC_C) ** (1 / 3)
            s.bic_origin_point = s.w_max
    t = (now + min(s.delay_min, 1e9) - s.epoch_start) / 1000
    delta = math.floor(CUBIC_C * abs(t - s.cubic_k) ** 3)
    target = s.bic_origin_point - delta if t < s.cubic_k else s.bic_origin_point + delta
    count = window // int(target - window) if target > window else 100 * window
    if s.w_max == 0 and count > 20:
        count = 20
    return int(count)


@compiled
def ssthresh_after_loss(c: Record, h: int) -> int:
    """Return ``ssthresh`` after a loss (RFC 5681, equation 4; RFC 9438, sections 4.6 and 4.7)."""
    s = c.half[h]
    unit = c.unit
    if not c.cubic:
        return max(2 * unit, s.cwnd // 2)
    window = s.cwnd // unit
    if window < s.w_max:
        s.w_max = math.floor(window * (1 + CUBIC_BETA) / 2)
    else:
        s.w_max = window
    s.epoch_start = -1.0
    return max(int(window * CUBIC_BETA), 2) * unit


@compiled
def reset_cubic(c: Record, h: int) -> None:
    """Reset CUBIC after a timeout (``bictcp_reset``)."""
    s = c.half[h]
    s.w_max = 0.0
    s.bic_origin_point = 0.0
    s.cubic_k = 0.0
    s.delay_min = math.inf


@compiled
def update_delay_min(c: Record, h: int, now: float, rtt: float) -> None:
    """Update CUBIC's least round trip (``cubictcp_acked``)."""
    s = c.half[h]
    if s.epoch_start >= 0 and now - s.epoch_start < (1000 if c.linux else 10):
        return
    s.delay_min = min(s.delay_min, rtt)
