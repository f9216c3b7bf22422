"""Round-trip estimation and timers of a Linux sender (RFC 6298)."""

from __future__ import annotations

import math

from mpcsim.sim.network.tcp.compiled import compiled
from mpcsim.sim.network.tcp.congestion import TICK_MS
from mpcsim.sim.network.tcp.state import OPEN, RING, TIME_LOSS_PROBE, TIME_RETRANS, Record

REORDERING = 3
MAX_RTO_MS = 120_000.0
LONG_STEP_MS = 32.0
LEAST_TIMER_MS = 2.0


@compiled
def whole_jiffies(wait: float) -> float:
    """Return a time rounded up to whole ticks of the clock (``usecs_to_jiffies``)."""
    return math.ceil(wait / TICK_MS) * TICK_MS


@compiled
def timer_wait(wait: float) -> float:
    """Return the mean time to a timer's expiry on the timer wheel (``calc_wheel_index``).

    Timers expire up to one step late, half a step on average. Steps are 4 ms, 32 ms from a quarter
    of a second on, 256 ms from 2 s on."""
    wait = whole_jiffies(wait)
    if wait < 63 * TICK_MS:
        return wait + TICK_MS / 2
    if wait < 504 * TICK_MS:
        return wait + LONG_STEP_MS / 2
    return wait + 4 * LONG_STEP_MS


@compiled
def estimate_rtt(c: Record, h: int, rtt: float) -> None:
    """Update SRTT, RTTVAR and RTO by a round trip (``tcp_rtt_estimator``).

    The floor is under the variance, which is its largest value in a round trip. ``mdev`` is four
    times the mean deviation."""
    s = c.half[h]
    rtt = max(rtt, 0.001)
    floor = c.min_rto
    if s.rtt_samples:
        error = rtt - s.srtt
        s.srtt += error / 8
        size = abs(error)
        change = size - s.mdev / 4
        if error < 0 and change > 0:
            change /= 8
        s.mdev += change
        if s.mdev > s.mdev_max:
            s.mdev_max = s.mdev
            s.rttvar = max(s.rttvar, s.mdev_max)
        if s.snd_una > s.rtt_seq:
            if s.mdev_max < s.rttvar:
                s.rttvar -= (s.rttvar - s.mdev_max) / 4
            s.rtt_seq = s.snd_nxt
            s.mdev_max = floor
    else:
        s.srtt = rtt
        s.mdev = 2 * rtt
        s.rttvar = max(s.mdev, floor)
        s.mdev_max = s.rttvar
        s.rtt_seq = s.snd_nxt
    s.rtt_samples += 1
    s.min_rtt = min(s.min_rtt, rtt)
    s.rto = min(whole_jiffies(s.srtt + s.rttvar), MAX_RTO_MS)


@compiled
def rearm_rto(c: Record, h: int, now: float) -> None:
    """Restart the retransmission timer (``tcp_rearm_rto``)."""
    s = c.half[h]
    if s.snd_una == s.snd_nxt:
        s.timer_expires = math.inf
        return
    wait = s.rto
    if s.timer_expires < math.inf and s.timer_kind != TIME_RETRANS:
        wait = max(s.segment[s.snd_una & RING].xmit_ts + s.rto - now, 0.001)
    s.timer_expires = now + timer_wait(wait)
    s.timer_kind = TIME_RETRANS


@compiled
def schedule_loss_probe(c: Record, h: int, now: float, advancing: bool) -> bool:
    """Set the timer of a tail loss probe, if one may be sent (``tcp_schedule_loss_probe``).

    The probe timeout is that of RFC 8985, section 7.2.

    Args:
        advancing: whether an acknowledgement has just advanced ``snd_una``.

    Returns:
        Whether the timer was set.
    """
    s = c.half[h]
    if s.snd_una == s.snd_nxt or s.ca_state != OPEN:
        return False
    wait = 1000.0
    if s.rtt_samples:
        wait = 2 * s.srtt + (c.min_rto if s.snd_nxt - s.snd_una == 1 else LEAST_TIMER_MS)
    limit = s.rto if advancing else s.segment[s.snd_una & RING].xmit_ts + s.rto - now
    if limit > 0:
        wait = min(wait, limit)
    s.timer_expires = now + timer_wait(wait)
    s.timer_kind = TIME_LOSS_PROBE
    return True
