"""Everything that an acknowledgement changes at a Linux sender."""

from __future__ import annotations

from mpcsim.sim.network.tcp import congestion
from mpcsim.sim.network.tcp.compiled import compiled
from mpcsim.sim.network.tcp.linux.losses import (
    begin_reduction,
    detect,
    enter_recovery,
    may_undo,
    note_arrival,
    open_or_disorder,
    reduce,
    undo,
)
from mpcsim.sim.network.tcp.linux.sending import is_limited, retransmit_lost, send
from mpcsim.sim.network.tcp.linux.timing import arm, arm_probe, sample
from mpcsim.sim.network.tcp.segments import discard
from mpcsim.sim.network.tcp.state import LOSS, OPEN, RECOVERY, RING, Record


@compiled
def acknowledge(
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
    """Everything that an acknowledgement changes (``tcp_ack``)."""
    s = c.half[h]
    if ack < s.una:
        send(c, h, now)
        return
    if s.una == s.nxt:
        if again_there:
            s.probe_end = -1
        send(c, h, now)
        return
    before = s.una
    high = s.recover
    lost_before = s.lost
    delivered = 0
    first_sack = -1.0
    newest = -1.0  # when the last of those was sent that give a round trip
    original = False
    if again_there and s.undo >= 0 and s.undo_retrans > 0:
        s.undo_retrans -= 1
    if holes:
        for i in range(max(ack, s.una), s.nxt):
            segment = s.segment[i & RING]
            if segment.got == 0 or segment.got > count or segment.sacked:
                continue
            note_arrival(c, h, now, i)
            delivered += 1
            if not segment.again:
                if first_sack < 0:
                    first_sack = segment.sent
                newest = segment.sent
                if i < high:
                    original = True
            segment.sacked = 1
            s.sacked += 1
            if segment.lost:
                segment.lost = 0
                s.lost -= 1
            if segment.retrans:
                segment.retrans = 0
                s.retrans -= 1
            s.high_sack = max(s.high_sack, i)
    sacked = delivered
    first = -1.0
    last = -1.0
    resent = False
    while s.una < ack:
        segment = s.segment[s.una & RING]
        if segment.again:
            resent = True
        elif not segment.sacked:
            if first < 0:
                first = segment.sent
            last = segment.sent
            if s.una < high:
                original = True
        if not segment.sacked:
            note_arrival(c, h, now, s.una)
            delivered += 1
        discard(c, h)
    advanced = ack > before
    if advanced:
        s.partial = 0
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
        sample(c, h, rtt)
        least = now - newest if newest >= 0 else rtt
        s.min_rtt = min(s.min_rtt, least)
        congestion.delay_seen(c, h, now, least)
    # The timer begins anew, too, when something has come that was sent before what is missing was
    # sent again (``tcp_clean_rtx_queue``).
    anew = advanced
    if not advanced and first_sack >= 0 and s.una < s.nxt:
        anew = first_sack < s.segment[s.una & RING].sent
    if s.probe_end >= 0:
        _probe_answered(c, h, ack, advanced, sacked > 0, kind != 0, again_there)
    timer_set = False
    retransmit = False
    if sacked or s.state != OPEN or not advanced or s.lost:
        timer_set, retransmit = _alert(c, h, now, echo, advanced, sacked > 0, original, again_there)
    if anew and not timer_set and not arm_probe(c, h, now, True):
        arm(c, h, now)
    if s.state == RECOVERY:
        reduce(c, h, delivered, max(s.lost - lost_before, 0), advanced)
    elif advanced and is_limited(c, h):
        congestion.grow(c, h, now, delivered)
    if retransmit:
        retransmit_lost(c, h, now)
    send(c, h, now)


@compiled
def _probe_answered(
    c: Record, h: int, ack: int, advanced: bool, sacked: bool, pure: bool, again_there: int
) -> None:
    """What became of a tail loss probe (RFC 8985, section 7.4)."""
    s = c.half[h]
    if ack < s.probe_end:
        return
    if not s.probe_again or again_there:
        s.probe_end = -1
    elif ack > s.probe_end or advanced:
        # In Linux a probe's loss shows when something sent after it is acknowledged, or when the
        # acknowledgement moves on without telling of a duplicate.
        if ack > s.probe_end:
            begin_reduction(c, h)
            s.cwnd = s.ssthresh
            open_or_disorder(c, h)
    elif pure and not sacked:
        s.probe_end = -1


@compiled
def _alert(
    c: Record,
    h: int,
    now: float,
    echo: float,
    advanced: bool,
    sacked: bool,
    original: bool,
    again_there: int,
) -> tuple[bool, bool]:
    """An acknowledgement that is not just the next one (``tcp_fastretrans_alert``).

    Returns:
        Whether a timer was set; whether to send again what is lost.
    """
    s = c.half[h]
    if s.state == OPEN:
        s.retrans_ms = -1.0
    elif s.una >= s.recover and s.state == RECOVERY:
        if may_undo(c, h, echo):
            undo(c, h, False)
        elif s.undo >= 0:
            s.cwnd = s.ssthresh
        s.state = OPEN
        s.retrans_ms = -1.0
    if s.state == RECOVERY:
        return detect(c, h, now), True
    if s.state == LOSS:
        again_lost = _process_loss(c, h, now, echo, advanced, sacked, original)
        retrans = s.retrans
        timer_set = detect(c, h, now)
        if s.state != OPEN and s.retrans >= retrans:
            return timer_set, again_lost
    if again_there and s.undo >= 0 and s.undo_retrans == 0:
        undo(c, h, False)
    timer_set = detect(c, h, now)
    if s.lost == 0:
        open_or_disorder(c, h)
        return timer_set, False
    enter_recovery(c, h)
    return timer_set, True


@compiled
def _process_loss(
    c: Record, h: int, now: float, echo: float, advanced: bool, sacked: bool, original: bool
) -> bool:
    """After a timeout: whether to send again what is lost (``tcp_process_loss``)."""
    s = c.half[h]
    recovered = s.una >= s.recover
    if advanced and may_undo(c, h, echo):
        undo(c, h, True)
        s.state = OPEN
        s.retrans_ms = -1.0
        return False
    if s.frto:
        if original and s.undo >= 0:
            undo(c, h, True)
            s.state = OPEN
            s.retrans_ms = -1.0
            return False
        if s.nxt > s.recover:
            if sacked:
                s.frto = 0
        elif advanced and not recovered:
            s.recover = s.nxt
            if s.available > s.sent:
                return False  # new data first: its acknowledgement tells whether it was too early
            s.frto = 0
    if recovered:
        if may_undo(c, h, echo):
            undo(c, h, False)
        s.undo = -1
        s.state = OPEN
        s.retrans_ms = -1.0
        return False
    return True
