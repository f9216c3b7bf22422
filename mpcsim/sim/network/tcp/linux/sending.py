"""Sending at a Linux sender: new data and retransmissions, within the window (``tcp_output.c``)."""

from __future__ import annotations

import math

from mpcsim.sim.network.tcp.compiled import compiled
from mpcsim.sim.network.tcp.linux.receiving import dec_quickack_mode
from mpcsim.sim.network.tcp.linux.timing import rearm_rto, schedule_loss_probe, timer_wait
from mpcsim.sim.network.tcp.segments import in_flight, mark_retransmitted, next_segment, transmit
from mpcsim.sim.network.tcp.state import (
    OPEN,
    RECOVERY,
    RING,
    SEGMENT_BYTES,
    TIME_LOSS_PROBE,
    TIME_REO_TIMEOUT,
    TIME_RETRANS,
    Record,
)

MOST_AT_ONCE = 65_536


@compiled
def write_xmit(c: Record, h: int, now: float) -> None:
    """Send new data as far as the window allows (``tcp_write_xmit``)."""
    s = c.half[h]
    if s.bytes_available == s.bytes_sent:
        return
    if s.snd_una == s.snd_nxt:
        _cwnd_restart(c, h, now)
    begun = s.snd_nxt
    waits = False
    while (
        s.bytes_available > s.bytes_sent
        and s.snd_nxt - s.snd_una < RING
        and in_flight(c, h) < s.cwnd
    ):
        room = s.cwnd - in_flight(c, h)
        burst = _tso_autosize(c, h)
        waits = room < burst and _tso_should_defer(c, h, now, room)
        if waits:
            break
        for _ in range(min(room, burst)):
            if s.bytes_available > s.bytes_sent and s.snd_nxt - s.snd_una < RING:
                _send_new_segment(c, h, now)
    _cwnd_validate(c, h, now, begun, waits or in_flight(c, h) >= s.cwnd)


@compiled
def _tso_autosize(c: Record, h: int) -> int:
    """Return the segments of one burst to the device (``tcp_tso_autosize``).

    They are those that leave in 1/1024 s at the window's pace and a bit more, at least two; more
    where round trips are short."""
    s = c.half[h]
    size = 0
    if s.srtt > 0:
        ratio = 2.0 if s.cwnd < s.ssthresh // 2 else 1.2
        size = int(ratio * SEGMENT_BYTES * max(s.cwnd, s.snd_nxt - s.snd_una) / (s.srtt * 1.024))
    halvings = int(s.min_rtt / 0.512) if s.min_rtt < 16.384 else 32
    size = min(size, MOST_AT_ONCE) + (MOST_AT_ONCE >> halvings)
    return max(min(size, MOST_AT_ONCE) // SEGMENT_BYTES, 2)


@compiled
def _tso_should_defer(c: Record, h: int, now: float, room: int) -> bool:
    """Return whether to wait until a larger burst fits the window (``tcp_tso_should_defer``).

    A burst is deferred if data left within 1 ms, there is little room, and the next acknowledgement
    is due within 1 ms."""
    s = c.half[h]
    if (
        s.bytes_available - s.bytes_sent <= SEGMENT_BYTES
        or s.snd_una == s.snd_nxt
        or s.ca_state >= RECOVERY
    ):
        return False
    if now - s.lsndtime > 1 or 3 * room >= s.cwnd:
        return False
    return s.segment[s.snd_una & RING].xmit_ts + s.srtt - now <= min(s.srtt / 2, 1.0)


@compiled
def _send_new_segment(c: Record, h: int, now: float) -> None:
    """Send the next new segment, and start the timer if it is the only one in flight."""
    s = c.half[h]
    first = s.snd_una == s.snd_nxt
    i = next_segment(c, h, now, SEGMENT_BYTES)
    _event_data_sent(c, h, now)
    transmit(c, h, now, i)
    if s.ca_state == RECOVERY:
        s.prr_out += 1
    if first or (s.timer_expires < math.inf and s.timer_kind == TIME_LOSS_PROBE):
        rearm_rto(c, h, now)


@compiled
def _event_data_sent(c: Record, h: int, now: float) -> None:
    """Note that data was sent (``tcp_event_data_sent``): in answer to data, delay ACKs
    (pingpong)."""
    r = c.half[1 - h]
    if r.ato > 0 and now - r.lrcvtime < r.ato:
        r.pingpong = 1
    if r.rcv_nxt > r.last_ack_sent:
        dec_quickack_mode(c, 1 - h)
    r.last_ack_sent = r.rcv_nxt


@compiled
def current_ssthresh(c: Record, h: int) -> int:
    """Return ``ssthresh`` before a reduction while idle (``tcp_current_ssthresh``)."""
    s = c.half[h]
    if s.ca_state == RECOVERY:
        return s.ssthresh
    return max(s.ssthresh, (s.cwnd >> 1) + (s.cwnd >> 2))


@compiled
def _cwnd_restart(c: Record, h: int, now: float) -> None:
    """Halve the window for every timeout of an idle time (``tcp_cwnd_restart``; RFC 2861)."""
    s = c.half[h]
    idle = now - s.lsndtime
    if s.lsndtime == -math.inf:
        return
    if c.idle_restart and idle > s.rto:
        least = min(c.initial_window, s.cwnd)
        s.ssthresh = current_ssthresh(c, h)
        window = s.cwnd
        idle -= s.rto
        while idle > 0 and window > least:
            window >>= 1
            idle -= s.rto
        s.cwnd = max(window, least)
        s.snd_cwnd_stamp = now
        s.snd_cwnd_used = 0
    if s.epoch_start >= 0:  # CUBIC's epoch is shifted by the idle time (``cubictcp_cwnd_event``)
        s.epoch_start = min(s.epoch_start + now - s.lsndtime, now)


@compiled
def _cwnd_validate(c: Record, h: int, now: float, begun: int, limited: bool) -> None:
    """Record whether the window was used (``tcp_cwnd_validate``), and set the probe's timer."""
    s = c.half[h]
    if s.snd_nxt == begun and not limited:
        return
    out = s.snd_nxt - s.snd_una
    if s.snd_una >= s.cwnd_usage_seq or limited or (not s.cwnd_limited and out > s.max_packets_out):
        s.cwnd_limited = 1 if limited else 0
        s.max_packets_out = out
        s.cwnd_usage_seq = s.snd_nxt
    if is_cwnd_limited(c, h):
        s.snd_cwnd_used = 0
        s.snd_cwnd_stamp = now
    else:
        s.snd_cwnd_used = max(s.snd_cwnd_used, out)
        if c.idle_restart and now - s.snd_cwnd_stamp >= s.rto:
            if s.ca_state == OPEN:
                most = max(s.snd_cwnd_used, c.initial_window)
                if most < s.cwnd:
                    s.ssthresh = current_ssthresh(c, h)
                    s.cwnd = (s.cwnd + most) >> 1
                s.snd_cwnd_used = 0
            s.snd_cwnd_stamp = now
    if s.snd_nxt > begun:
        schedule_loss_probe(c, h, now, False)


@compiled
def is_cwnd_limited(c: Record, h: int) -> bool:
    """Return whether the window limits sending; only then it grows (``tcp_is_cwnd_limited``)."""
    s = c.half[h]
    if s.cwnd < s.ssthresh:
        return s.cwnd < 2 * s.max_packets_out
    return s.cwnd_limited != 0


@compiled
def retransmit_skb(c: Record, h: int, now: float, i: int) -> None:
    """Retransmit segment ``i`` (``tcp_retransmit_skb``)."""
    s = c.half[h]
    mark_retransmitted(c, h, i)
    if s.retrans_stamp < 0:
        s.retrans_stamp = now
    s.undo_retrans = max(s.undo_retrans, 0) + 1
    transmit(c, h, now, i)
    c.half[1 - h].last_ack_sent = c.half[1 - h].rcv_nxt


@compiled
def xmit_retransmit_queue(c: Record, h: int, now: float) -> None:
    """Retransmit lost segments as far as the window allows (``tcp_xmit_retransmit_queue``)."""
    s = c.half[h]
    if s.lost_out == 0:
        return
    rearm = False
    for i in range(s.snd_una, s.snd_nxt):
        segment = s.segment[i & RING]
        if not segment.lost or segment.retrans or segment.sacked:
            continue
        if in_flight(c, h) >= s.cwnd:
            break
        retransmit_skb(c, h, now, i)
        if s.ca_state == RECOVERY:
            s.prr_out += 1
        if i == s.snd_una and not (s.timer_expires < math.inf and s.timer_kind == TIME_REO_TIMEOUT):
            rearm = True
    if rearm:
        s.timer_expires = now + timer_wait(s.rto)
        s.timer_kind = TIME_RETRANS
