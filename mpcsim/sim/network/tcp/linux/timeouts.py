"""Write timer of a Linux sender: tail loss probes, reordering and retransmission timeouts."""

from __future__ import annotations

import math

from mpcsim.sim.network.tcp import congestion
from mpcsim.sim.network.tcp.compiled import compiled
from mpcsim.sim.network.tcp.linux.loss_recovery import (
    cwnd_reduction,
    enter_recovery,
    init_undo,
    rack_detect_loss,
    rack_reo_wnd,
)
from mpcsim.sim.network.tcp.linux.sending import retransmit_skb, xmit_retransmit_queue
from mpcsim.sim.network.tcp.linux.timing import MAX_RTO_MS, timer_wait
from mpcsim.sim.network.tcp.segments import in_flight, mark_lost, next_segment, transmit
from mpcsim.sim.network.tcp.state import (
    LOSS,
    RECOVERY,
    RING,
    SEGMENT_BYTES,
    TIME_LOSS_PROBE,
    TIME_REO_TIMEOUT,
    TIME_RETRANS,
    Record,
)

GIVE_UP_MS = 924_600.0
"""Time of retransmissions after which the connection is aborted (``tcp_retries2`` = 15)."""


@compiled
def on_write_timer(c: Record, h: int, now: float) -> None:
    """Process the expired write timer (``tcp_write_timer_handler``)."""
    s = c.half[h]
    kind = s.timer_kind
    s.timer_expires = math.inf
    if s.snd_una == s.snd_nxt:
        return
    if kind == TIME_LOSS_PROBE:
        _send_loss_probe(c, h, now)
    elif kind == TIME_REO_TIMEOUT:
        before = in_flight(c, h)
        rack_detect_loss(c, h, now)
        if in_flight(c, h) != before:
            if s.ca_state != RECOVERY:
                enter_recovery(c, h)
                cwnd_reduction(c, h, 1, 0, False)
            xmit_retransmit_queue(c, h, now)
        s.timer_kind = TIME_RETRANS
        s.timer_expires = now + timer_wait(
            max(s.segment[s.snd_una & RING].xmit_ts + s.rto - now, 0.001)
        )
    else:
        _enter_loss(c, h, now)


@compiled
def _send_loss_probe(c: Record, h: int, now: float) -> None:
    """Send a tail loss probe: new data, or the last segment again (``tcp_send_loss_probe``)."""
    s = c.half[h]
    if s.tlp_end_seq < 0:
        if s.bytes_available > s.bytes_sent and s.snd_nxt - s.snd_una < RING:
            s.tlp_is_retrans = 0
            i = next_segment(c, h, now, SEGMENT_BYTES)
            transmit(c, h, now, i)
        else:
            s.tlp_is_retrans = 1
            i = s.snd_nxt - 1
            retransmit_skb(c, h, now, i)
        s.tlp_end_seq = s.snd_nxt
        wait = s.rto
    else:
        wait = max(s.segment[s.snd_una & RING].xmit_ts + s.rto - now, 0.001)
    s.timer_kind = TIME_RETRANS
    s.timer_expires = now + timer_wait(wait)


@compiled
def _enter_loss(c: Record, h: int, now: float) -> None:
    """Enter LOSS after a retransmission timeout (``tcp_enter_loss``), or abort.

    The connection is aborted after ``tcp_retries2`` timeouts of the least length, doubled up to the
    longest (``retransmits_timed_out``).
    """
    s = c.half[h]
    if s.partial_ack and s.retrans_stamp >= 0 and now - s.retrans_stamp >= GIVE_UP_MS:
        c.timed_out = 1
        return
    new = s.ca_state < RECOVERY
    for i in range(s.snd_una, s.snd_nxt):
        segment = s.segment[i & RING]
        if segment.sacked:
            continue
        recent = s.rack_rtt + rack_reo_wnd(c, h) - (now - segment.xmit_ts) > 0
        if i != s.snd_una and s.rack_xmit_ts > -math.inf and recent:
            continue
        if segment.retrans:
            segment.retrans = 0
            s.retrans_out -= 1
        mark_lost(c, h, i)
    if new or s.snd_una >= s.recover or (s.ca_state == LOSS and s.partial_ack == 0):
        init_undo(c, h)
        s.ssthresh = congestion.ssthresh_after_loss(c, h)
        s.recover_fs = s.cwnd
    if c.cubic:
        congestion.reset_cubic(c, h)
        s.epoch_start = -1.0
    s.frto = 1 if new or s.partial_ack else 0
    s.cwnd = in_flight(c, h) + 1
    s.snd_cwnd_cnt = 0
    s.ca_state = LOSS
    s.recover = s.snd_nxt
    s.tlp_end_seq = -1
    s.partial_ack = 1
    retransmit_skb(c, h, now, s.snd_una)
    s.rto = min(2 * s.rto, MAX_RTO_MS)
    s.timer_expires = now + timer_wait(s.rto)
    s.timer_kind = TIME_RETRANS
