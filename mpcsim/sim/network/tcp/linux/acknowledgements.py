"""Processing of acknowledgements at a Linux sender (``tcp_input.c``)."""

from __future__ import annotations

from mpcsim.sim.network.tcp import congestion
from mpcsim.sim.network.tcp.compiled import compiled
from mpcsim.sim.network.tcp.linux.loss_recovery import (
    cwnd_reduction,
    enter_recovery,
    init_cwnd_reduction,
    may_undo,
    rack_advance,
    rack_detect_loss,
    try_keep_open,
    undo_cwnd_reduction,
)
from mpcsim.sim.network.tcp.linux.sending import is_cwnd_limited, write_xmit, xmit_retransmit_queue
from mpcsim.sim.network.tcp.linux.timing import estimate_rtt, rearm_rto, schedule_loss_probe
from mpcsim.sim.network.tcp.segments import pop_acked
from mpcsim.sim.network.tcp.state import LOSS, OPEN, RECOVERY, RING, Record


@compiled
def receive_ack(
    c: Record,
    h: int,
    now: float,
    ack: int,
    count: int,
    holes: int,
    echo: float,
    kind: int,
    again_there: int,
) -> None:
    """Process an acknowledgement (``tcp_ack``).

    Args:
        ack: cumulative acknowledgement: next segment expected.
        count: arrivals at the receiver that SACK blocks cover.
        holes: above 0 if there are SACK blocks.
        echo: time stamp echoed.
        kind: of the packet; DATA is 0.
        again_there: 1: it answers a duplicate segment (D-SACK).
    """
    s = c.half[h]
    if ack < s.snd_una:
        write_xmit(c, h, now)
        return
    if s.snd_una == s.snd_nxt:
        if again_there:
            s.tlp_end_seq = -1
        write_xmit(c, h, now)
        return
    before = s.snd_una
    high = s.recover
    lost_before = s.lost_out
    delivered = 0
    first_sack = -1.0
    newest = -1.0  # transmission time of the newest segment that gives a sample
    original = False
    if again_there and s.undo_marker >= 0 and s.undo_retrans > 0:
        s.undo_retrans -= 1
    if holes:
        for i in range(max(ack, s.snd_una), s.snd_nxt):
            segment = s.segment[i & RING]
            if segment.arrival == 0 or segment.arrival > count or segment.sacked:
                continue
            rack_advance(c, h, now, i)
            delivered += 1
            if not segment.ever_retrans:
                if first_sack < 0:
                    first_sack = segment.xmit_ts
                newest = segment.xmit_ts
                if i < high:
                    original = True
            segment.sacked = 1
            s.sacked_out += 1
            if segment.lost:
                segment.lost = 0
                s.lost_out -= 1
            if segment.retrans:
                segment.retrans = 0
                s.retrans_out -= 1
            s.highest_sack = max(s.highest_sack, i)
    sacked = delivered
    first = -1.0
    last = -1.0
    resent = False
    while s.snd_una < ack:
        segment = s.segment[s.snd_una & RING]
        if segment.ever_retrans:
            resent = True
        elif not segment.sacked:
            if first < 0:
                first = segment.xmit_ts
            last = segment.xmit_ts
            if s.snd_una < high:
                original = True
        if not segment.sacked:
            rack_advance(c, h, now, s.snd_una)
            delivered += 1
        pop_acked(c, h)
    advanced = ack > before
    if advanced:
        s.partial_ack = 0
    if newest < 0 and not resent:
        newest = last
    rtt = -1.0
    if first >= 0 and not resent:
        rtt = now - first
    elif first_sack >= 0:
        rtt = now - first_sack
    elif advanced:
        rtt = now - echo
    if rtt >= 0:
        estimate_rtt(c, h, rtt)
        least = now - newest if newest >= 0 else rtt
        s.min_rtt = min(s.min_rtt, least)
        congestion.update_delay_min(c, h, now, least)
    # The timer is restarted, too, when a segment is acknowledged selectively that was sent before
    # the missing one was retransmitted (``tcp_clean_rtx_queue``).
    anew = advanced
    if not advanced and first_sack >= 0 and s.snd_una < s.snd_nxt:
        anew = first_sack < s.segment[s.snd_una & RING].xmit_ts
    if s.tlp_end_seq >= 0:
        _process_tlp_ack(c, h, ack, advanced, sacked > 0, kind != 0, again_there)
    timer_set = False
    retransmit = False
    if sacked or s.ca_state != OPEN or not advanced or s.lost_out:
        timer_set, retransmit = _fastretrans_alert(
            c, h, now, echo, advanced, sacked > 0, original, again_there
        )
    if anew and not timer_set and not schedule_loss_probe(c, h, now, True):
        rearm_rto(c, h, now)
    if s.ca_state == RECOVERY:
        cwnd_reduction(c, h, delivered, max(s.lost_out - lost_before, 0), advanced)
    elif advanced and is_cwnd_limited(c, h):
        congestion.increase_window(c, h, now, delivered)
    if retransmit:
        xmit_retransmit_queue(c, h, now)
    write_xmit(c, h, now)


@compiled
def _process_tlp_ack(
    c: Record, h: int, ack: int, advanced: bool, sacked: bool, pure: bool, again_there: int
) -> None:
    """Detect whether a tail loss probe repaired a loss (``tcp_process_tlp_ack``; RFC 8985, 7.4)."""
    s = c.half[h]
    if ack < s.tlp_end_seq:
        return
    if not s.tlp_is_retrans or again_there:
        s.tlp_end_seq = -1
    elif ack > s.tlp_end_seq or advanced:
        # In Linux a loss shows when data sent after the probe is acknowledged, or when the
        # cumulative acknowledgement advances without a D-SACK.
        if ack > s.tlp_end_seq:
            init_cwnd_reduction(c, h)
            s.cwnd = s.ssthresh
            try_keep_open(c, h)
    elif pure and not sacked:
        s.tlp_end_seq = -1


@compiled
def _fastretrans_alert(
    c: Record,
    h: int,
    now: float,
    echo: float,
    advanced: bool,
    sacked: bool,
    original: bool,
    again_there: int,
) -> tuple[bool, bool]:
    """Process an acknowledgement that is dubious, or outside of OPEN (``tcp_fastretrans_alert``).

    Returns:
        Whether a timer was set; whether to retransmit lost segments.
    """
    s = c.half[h]
    if s.ca_state == OPEN:
        s.retrans_stamp = -1.0
    elif s.snd_una >= s.recover and s.ca_state == RECOVERY:
        if may_undo(c, h, echo):
            undo_cwnd_reduction(c, h, False)
        elif s.undo_marker >= 0:
            s.cwnd = s.ssthresh
        s.ca_state = OPEN
        s.retrans_stamp = -1.0
    if s.ca_state == RECOVERY:
        return rack_detect_loss(c, h, now), True
    if s.ca_state == LOSS:
        again_lost = _process_loss(c, h, now, echo, advanced, sacked, original)
        retrans = s.retrans_out
        timer_set = rack_detect_loss(c, h, now)
        if s.ca_state != OPEN and s.retrans_out >= retrans:
            return timer_set, again_lost
    if again_there and s.undo_marker >= 0 and s.undo_retrans == 0:
        undo_cwnd_reduction(c, h, False)
    timer_set = rack_detect_loss(c, h, now)
    if s.lost_out == 0:
        try_keep_open(c, h)
        return timer_set, False
    enter_recovery(c, h)
    return timer_set, True


@compiled
def _process_loss(
    c: Record, h: int, now: float, echo: float, advanced: bool, sacked: bool, original: bool
) -> bool:
    """Process an acknowledgement in LOSS, with F-RTO (``tcp_process_loss``; RFC 5682).

    Returns:
        Whether to retransmit lost segments.
    """
    s = c.half[h]
    recovered = s.snd_una >= s.recover
    if advanced and may_undo(c, h, echo):
        undo_cwnd_reduction(c, h, True)
        s.ca_state = OPEN
        s.retrans_stamp = -1.0
        return False
    if s.frto:
        if original and s.undo_marker >= 0:
            undo_cwnd_reduction(c, h, True)
            s.ca_state = OPEN
            s.retrans_stamp = -1.0
            return False
        if s.snd_nxt > s.recover:
            if sacked:
                s.frto = 0
        elif advanced and not recovered:
            s.recover = s.snd_nxt
            if s.bytes_available > s.bytes_sent:
                return False  # new data first: its acknowledgement shows a spurious timeout
            s.frto = 0
    if recovered:
        if may_undo(c, h, echo):
            undo_cwnd_reduction(c, h, False)
        s.undo_marker = -1
        s.ca_state = OPEN
        s.retrans_stamp = -1.0
        return False
    return True
