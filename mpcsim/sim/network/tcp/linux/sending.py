"""Data that a Linux sender sends, new and again, as far as its window allows."""

from __future__ import annotations

import math

from mpcsim.sim.network.tcp.compiled import compiled
from mpcsim.sim.network.tcp.linux.receiving import count_quick
from mpcsim.sim.network.tcp.linux.timing import arm, arm_probe, late
from mpcsim.sim.network.tcp.segments import again, cut, in_flight, transmit
from mpcsim.sim.network.tcp.state import (
    OPEN,
    PROBE,
    RECOVERY,
    REORDER,
    RETRANSMIT,
    RING,
    SEGMENT_BYTES,
    Record,
)

MOST_AT_ONCE = 65_536


@compiled
def send(c: Record, h: int, now: float) -> None:
    """Send new data as far as the window allows (``tcp_write_xmit``)."""
    s = c.half[h]
    if s.available == s.sent:
        return
    if s.una == s.nxt:
        _restart(c, h, now)
    begun = s.nxt
    waits = False
    while s.available > s.sent and s.nxt - s.una < RING and in_flight(c, h) < s.cwnd:
        room = s.cwnd - in_flight(c, h)
        burst = _burst(c, h)
        waits = room < burst and _defers(c, h, now, room)
        if waits:
            break
        for _ in range(min(room, burst)):
            if s.available > s.sent and s.nxt - s.una < RING:
                _send_new(c, h, now)
    _validate(c, h, now, begun, waits or in_flight(c, h) >= s.cwnd)


@compiled
def _burst(c: Record, h: int) -> int:
    """Segments that go to the device as one (``tcp_tso_autosize``): what would leave in 1/1024 s at
    the window's pace and a bit more, at least two; more where round trips are short."""
    s = c.half[h]
    size = 0
    if s.srtt > 0:
        ratio = 2.0 if s.cwnd < s.ssthresh // 2 else 1.2
        size = int(ratio * SEGMENT_BYTES * max(s.cwnd, s.nxt - s.una) / (s.srtt * 1.024))
    halvings = int(s.min_rtt / 0.512) if s.min_rtt < 16.384 else 32
    size = min(size, MOST_AT_ONCE) + (MOST_AT_ONCE >> halvings)
    return max(min(size, MOST_AT_ONCE) // SEGMENT_BYTES, 2)


@compiled
def _defers(c: Record, h: int, now: float, room: int) -> bool:
    """Whether to wait for room for more segments at once (``tcp_tso_should_defer``): if something
    left within 1 ms, there is not much room, and the next acknowledgement is due within 1 ms."""
    s = c.half[h]
    if s.available - s.sent <= SEGMENT_BYTES or s.una == s.nxt or s.state >= RECOVERY:
        return False
    if now - s.last_sent > 1 or 3 * room >= s.cwnd:
        return False
    return s.segment[s.una & RING].sent + s.srtt - now <= min(s.srtt / 2, 1.0)


@compiled
def _send_new(c: Record, h: int, now: float) -> None:
    s = c.half[h]
    first = s.una == s.nxt
    i = cut(c, h, now, SEGMENT_BYTES)
    _note_sending(c, h, now)
    transmit(c, h, now, i)
    if s.state == RECOVERY:
        s.prr_out += 1
    if first or (s.timer < math.inf and s.timer_kind == PROBE):
        arm(c, h, now)


@compiled
def _note_sending(c: Record, h: int, now: float) -> None:
    """Data in answer to data: delay acknowledgements, they can travel with it."""
    r = c.half[1 - h]
    if r.ato > 0 and now - r.rcv_last < r.ato:
        r.pingpong = 1
    if r.rcv_nxt > r.rcv_acked:
        count_quick(c, 1 - h)
    r.rcv_acked = r.rcv_nxt


@compiled
def threshold(c: Record, h: int) -> int:
    """``ssthresh`` of a connection that stops sending for a while (``tcp_current_ssthresh``)."""
    s = c.half[h]
    if s.state == RECOVERY:
        return s.ssthresh
    return max(s.ssthresh, (s.cwnd >> 1) + (s.cwnd >> 2))


@compiled
def _restart(c: Record, h: int, now: float) -> None:
    """The window after a pause: it halves for every timeout of it (RFC 2861)."""
    s = c.half[h]
    idle = now - s.last_sent
    if s.last_sent == -math.inf:
        return
    if c.idle_restart and idle > s.rto:
        least = min(c.initial_window, s.cwnd)
        s.ssthresh = threshold(c, h)
        window = s.cwnd
        idle -= s.rto
        while idle > 0 and window > least:
            window >>= 1
            idle -= s.rto
        s.cwnd = max(window, least)
        s.used_ms = now
        s.used = 0
    if s.epoch_ms >= 0:  # CUBIC's clock stands still meanwhile
        s.epoch_ms = min(s.epoch_ms + now - s.last_sent, now)


@compiled
def _validate(c: Record, h: int, now: float, begun: int, limited: bool) -> None:
    """Note whether the window was used (``tcp_cwnd_validate``), and set the probe's timer."""
    s = c.half[h]
    if s.nxt == begun and not limited:
        return
    out = s.nxt - s.una
    if s.una >= s.usage_end or limited or (not s.limited and out > s.max_out):
        s.limited = 1 if limited else 0
        s.max_out = out
        s.usage_end = s.nxt
    if is_limited(c, h):
        s.used = 0
        s.used_ms = now
    else:
        s.used = max(s.used, out)
        if c.idle_restart and now - s.used_ms >= s.rto:
            if s.state == OPEN:
                most = max(s.used, c.initial_window)
                if most < s.cwnd:
                    s.ssthresh = threshold(c, h)
                    s.cwnd = (s.cwnd + most) >> 1
                s.used = 0
            s.used_ms = now
    if s.nxt > begun:
        arm_probe(c, h, now, False)


@compiled
def is_limited(c: Record, h: int) -> bool:
    """Whether the window holds sending back; only then it grows (``tcp_is_cwnd_limited``)."""
    s = c.half[h]
    if s.cwnd < s.ssthresh:
        return s.cwnd < 2 * s.max_out
    return s.limited != 0


@compiled
def retransmit(c: Record, h: int, now: float, i: int) -> None:
    s = c.half[h]
    again(c, h, i)
    if s.retrans_ms < 0:
        s.retrans_ms = now
    s.undo_retrans = max(s.undo_retrans, 0) + 1
    transmit(c, h, now, i)
    c.half[1 - h].rcv_acked = c.half[1 - h].rcv_nxt


@compiled
def retransmit_lost(c: Record, h: int, now: float) -> None:
    """Send what is taken for lost again, as far as the window allows."""
    s = c.half[h]
    if s.lost == 0:
        return
    rearm = False
    for i in range(s.una, s.nxt):
        segment = s.segment[i & RING]
        if not segment.lost or segment.retrans or segment.sacked:
            continue
        if in_flight(c, h) >= s.cwnd:
            break
        retransmit(c, h, now, i)
        if s.state == RECOVERY:
            s.prr_out += 1
        if i == s.una and not (s.timer < math.inf and s.timer_kind == REORDER):
            rearm = True
    if rearm:
        s.timer = now + late(s.rto)
        s.timer_kind = RETRANSMIT
