"""The sender and the receiver of Linux: RACK-TLP (RFC 8985), PRR (RFC 6937), F-RTO (RFC 5682).

What is said of Linux was read in ``net/ipv4/tcp_input.c``, ``tcp_output.c``, ``tcp_recovery.c`` and
``tcp_timer.c`` of 6.x and checked against its times (``tests/vectors/linux``: 6.18). Windows are
counted in segments. Its clock has 250 ticks a second; that its timers ring at ticks makes them late
by half a step, always the same. Left out: HyStart, reordering, and the receive window, which never
limits a sender and grows with every segment.
"""

from __future__ import annotations

import math

from mpcsim.sim.network.tcp import congestion
from mpcsim.sim.network.tcp.compiled import compiled
from mpcsim.sim.network.tcp.congestion import TICK_MS
from mpcsim.sim.network.tcp.receiver import send_ack
from mpcsim.sim.network.tcp.segments import again, cut, discard, in_flight, mark_lost, transmit
from mpcsim.sim.network.tcp.state import (
    DISORDER,
    LOSS,
    OPEN,
    PROBE,
    RECOVERY,
    REORDER,
    RETRANSMIT,
    RING,
    SEGMENT_BYTES,
    Record,
)

REORDERING = 3
MAX_RTO_MS = 120_000.0
GIVE_UP_MS = 924_600.0
LONG_STEP_MS = 32.0
LEAST_TIMER_MS = 2.0
QUICK_ACKS = 16
LEAST_GROWING = 128
MOST_COMPRESSED = 44
LEAST_ATO_MS = 40.0
MOST_ATO_MS = 200.0
MOST_AT_ONCE = 65_536


# ---------------------------------------------------------------------- round trips and timers


@compiled
def ticks(wait: float) -> float:
    """A wait in whole ticks of its clock (``usecs_to_jiffies``)."""
    return math.ceil(wait / TICK_MS) * TICK_MS


@compiled
def late(wait: float) -> float:
    """A wait as its timers have it (``calc_wheel_index``): they ring up to one step late, and steps
    are 4 ms, 32 ms from a quarter of a second on, 256 ms from 2 s on. Half a step on average."""
    wait = ticks(wait)
    if wait < 63 * TICK_MS:
        return wait + TICK_MS / 2
    if wait < 504 * TICK_MS:
        return wait + LONG_STEP_MS / 2
    return wait + 4 * LONG_STEP_MS


@compiled
def sample(c: Record, h: int, rtt: float) -> None:
    """A round trip (``tcp_rtt_estimator``): the floor is under the variance, whose largest value
    of a round trip counts. ``mdev`` is four times the mean deviation."""
    s = c.half[h]
    rtt = max(rtt, 0.001)
    floor = c.min_rto
    if s.samples:
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
        if s.una > s.rtt_seq:
            if s.mdev_max < s.rttvar:
                s.rttvar -= (s.rttvar - s.mdev_max) / 4
            s.rtt_seq = s.nxt
            s.mdev_max = floor
    else:
        s.srtt = rtt
        s.mdev = 2 * rtt
        s.rttvar = max(s.mdev, floor)
        s.mdev_max = s.rttvar
        s.rtt_seq = s.nxt
    s.samples += 1
    s.min_rtt = min(s.min_rtt, rtt)
    s.rto = min(ticks(s.srtt + s.rttvar), MAX_RTO_MS)


@compiled
def arm(c: Record, h: int, now: float) -> None:
    """The retransmission timer, set anew (``tcp_rearm_rto``)."""
    s = c.half[h]
    if s.una == s.nxt:
        s.timer = math.inf
        return
    wait = s.rto
    if s.timer < math.inf and s.timer_kind != RETRANSMIT:
        wait = max(s.segment[s.una & RING].sent + s.rto - now, 0.001)
    s.timer = now + late(wait)
    s.timer_kind = RETRANSMIT


@compiled
def arm_probe(c: Record, h: int, now: float, advancing: bool) -> bool:
    """Set the timer of a tail loss probe, if one may be sent (RFC 8985, section 7.2)."""
    s = c.half[h]
    if s.una == s.nxt or s.state != OPEN:
        return False
    wait = 1000.0
    if s.samples:
        wait = 2 * s.srtt + (c.min_rto if s.nxt - s.una == 1 else LEAST_TIMER_MS)
    limit = s.rto if advancing else s.segment[s.una & RING].sent + s.rto - now
    if limit > 0:
        wait = min(wait, limit)
    s.timer = now + late(wait)
    s.timer_kind = PROBE
    return True


# ---------------------------------------------------------------------- sending


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
        _count_quick(c, 1 - h)
    r.rcv_acked = r.rcv_nxt


@compiled
def _count_quick(c: Record, d: int) -> None:
    r = c.half[d]
    if r.quick > 0:
        r.quick -= 1
        if r.quick == 0:
            r.ato = LEAST_ATO_MS


@compiled
def _threshold(c: Record, h: int) -> int:
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
        s.ssthresh = _threshold(c, h)
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
                    s.ssthresh = _threshold(c, h)
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
def _retransmit(c: Record, h: int, now: float, i: int) -> None:
    s = c.half[h]
    again(c, h, i)
    if s.retrans_ms < 0:
        s.retrans_ms = now
    s.undo_retrans = max(s.undo_retrans, 0) + 1
    transmit(c, h, now, i)
    c.half[1 - h].rcv_acked = c.half[1 - h].rcv_nxt


@compiled
def _retransmit_lost(c: Record, h: int, now: float) -> None:
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
        _retransmit(c, h, now, i)
        if s.state == RECOVERY:
            s.prr_out += 1
        if i == s.una and not (s.timer < math.inf and s.timer_kind == REORDER):
            rearm = True
    if rearm:
        s.timer = now + late(s.rto)
        s.timer_kind = RETRANSMIT


# ---------------------------------------------------------------------- loss detection


@compiled
def _reorder_window(c: Record, h: int) -> float:
    """How long a segment may be late: nothing once three behind it are there (RFC 8985, 6.2)."""
    s = c.half[h]
    if s.state >= RECOVERY or s.sacked >= REORDERING:
        return 0.0
    return min(s.min_rtt / 4, s.srtt)


@compiled
def _detect(c: Record, h: int, now: float) -> bool:
    """RACK: what was sent before something that has come, long enough ago, is lost.

    Returns:
        Whether a timer was set for what may still come.
    """
    s = c.half[h]
    if s.rack_sent == -math.inf:
        return False
    window = _reorder_window(c, h)
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
def _came(c: Record, h: int, now: float, i: int) -> None:
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
def _reduce(c: Record, h: int, delivered: int, lost: int, advanced: bool) -> None:
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
def _begin_reduction(c: Record, h: int) -> None:
    s = c.half[h]
    s.recover = s.nxt
    s.probe_end = -1
    s.cwnd_count = 0
    s.prior = s.cwnd
    s.prr_delivered = 0
    s.prr_out = 0
    s.ssthresh = congestion.shrunk(c, h)


@compiled
def _remember(c: Record, h: int) -> None:
    """What to go back to if nothing was lost after all."""
    s = c.half[h]
    s.undo = s.una
    s.undo_retrans = s.retrans if s.retrans else -1
    s.undo_cwnd = s.cwnd
    s.undo_ssthresh = _threshold(c, h) if s.state < RECOVERY else s.undo_ssthresh


@compiled
def _enter_recovery(c: Record, h: int) -> None:
    s = c.half[h]
    _remember(c, h)
    _begin_reduction(c, h)
    s.state = RECOVERY


@compiled
def _may_undo(c: Record, h: int, echo: float) -> bool:
    """Whether all that was sent again had come, or this acknowledges an original."""
    s = c.half[h]
    if s.undo < 0:
        return False
    return s.undo_retrans == 0 or (
        s.retrans_ms >= 0 and math.floor(echo) < math.floor(s.retrans_ms)
    )


@compiled
def _undo(c: Record, h: int, unmark: bool) -> None:
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
def _open_or_disorder(c: Record, h: int) -> None:
    s = c.half[h]
    s.state = DISORDER if s.sacked or s.lost or s.retrans else OPEN
    if s.state == OPEN:
        s.retrans_ms = -1.0


# ---------------------------------------------------------------------- acknowledgements


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
            _came(c, h, now, i)
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
            _came(c, h, now, s.una)
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
        _reduce(c, h, delivered, max(s.lost - lost_before, 0), advanced)
    elif advanced and is_limited(c, h):
        congestion.grow(c, h, now, delivered)
    if retransmit:
        _retransmit_lost(c, h, now)
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
            _begin_reduction(c, h)
            s.cwnd = s.ssthresh
            _open_or_disorder(c, h)
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
        if _may_undo(c, h, echo):
            _undo(c, h, False)
        elif s.undo >= 0:
            s.cwnd = s.ssthresh
        s.state = OPEN
        s.retrans_ms = -1.0
    if s.state == RECOVERY:
        return _detect(c, h, now), True
    if s.state == LOSS:
        again_lost = _process_loss(c, h, now, echo, advanced, sacked, original)
        retrans = s.retrans
        timer_set = _detect(c, h, now)
        if s.state != OPEN and s.retrans >= retrans:
            return timer_set, again_lost
    if again_there and s.undo >= 0 and s.undo_retrans == 0:
        _undo(c, h, False)
    timer_set = _detect(c, h, now)
    if s.lost == 0:
        _open_or_disorder(c, h)
        return timer_set, False
    _enter_recovery(c, h)
    return timer_set, True


@compiled
def _process_loss(
    c: Record, h: int, now: float, echo: float, advanced: bool, sacked: bool, original: bool
) -> bool:
    """After a timeout: whether to send again what is lost (``tcp_process_loss``)."""
    s = c.half[h]
    recovered = s.una >= s.recover
    if advanced and _may_undo(c, h, echo):
        _undo(c, h, True)
        s.state = OPEN
        s.retrans_ms = -1.0
        return False
    if s.frto:
        if original and s.undo >= 0:
            _undo(c, h, True)
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
        if _may_undo(c, h, echo):
            _undo(c, h, False)
        s.undo = -1
        s.state = OPEN
        s.retrans_ms = -1.0
        return False
    return True


# ---------------------------------------------------------------------- timers


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
        _detect(c, h, now)
        if in_flight(c, h) != before:
            if s.state != RECOVERY:
                _enter_recovery(c, h)
                _reduce(c, h, 1, 0, False)
            _retransmit_lost(c, h, now)
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
            _retransmit(c, h, now, i)
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
        recent = s.rack_rtt + _reorder_window(c, h) - (now - segment.sent) > 0
        if i != s.una and s.rack_sent > -math.inf and recent:
            continue
        if segment.retrans:
            segment.retrans = 0
            s.retrans -= 1
        mark_lost(c, h, i)
    if new or s.una >= s.recover or (s.state == LOSS and s.partial == 0):
        _remember(c, h)
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
    _retransmit(c, h, now, s.una)
    s.rto = min(2 * s.rto, MAX_RTO_MS)
    s.timer = now + late(s.rto)
    s.timer_kind = RETRANSMIT


# ---------------------------------------------------------------------- the receiver


@compiled
def arrive(c: Record, d: int, now: float, i: int) -> None:
    """Segment ``i`` of half ``d`` is there: quick acknowledgements first, then delayed ones. Of
    what is behind a hole the first three segments are acknowledged at once (``dupacks`` counts
    them), later ones together (``__tcp_ack_snd_check``)."""
    r = c.half[d]
    segment = r.segment[i & RING]
    if i < r.rcv_nxt or segment.got:
        r.quick = max(r.quick, QUICK_ACKS)
        r.ato = LEAST_ATO_MS
        acknowledge_now(c, d, now, i, 1)
        return
    r.rcv_count += 1
    segment.got = r.rcv_count
    before = r.rcv_nxt
    filled = False
    if i == r.rcv_nxt:
        r.rcv_nxt += 1
        r.rcv_bytes = segment.end
        while r.rcv_beyond and r.rcv_nxt < r.nxt:
            following = r.segment[r.rcv_nxt & RING]
            if not following.got:
                break
            r.rcv_nxt += 1
            r.rcv_beyond -= 1
            r.rcv_bytes = following.end
            filled = True
    else:
        r.rcv_beyond += 1
    _pace(c, d, now)
    if segment.size >= LEAST_GROWING:
        r.quick |= 1  # the receive window grows (``tcp_grow_window``)
    r.rcv_pending += segment.size
    if r.rcv_nxt > before:
        r.dupacks = 0
    quick = r.quick and not r.pingpong
    if filled or quick or (r.rcv_nxt > before and r.rcv_pending > SEGMENT_BYTES):
        acknowledge_now(c, d, now, i, 0)
    elif r.rcv_beyond:
        if r.dupacks < REORDERING or r.rcv_pending >= MOST_COMPRESSED * SEGMENT_BYTES:
            r.dupacks += 1
            acknowledge_now(c, d, now, i, 0)
        elif r.delack == math.inf:
            r.delack = now + _compression(c, d)
    elif r.delack == math.inf:
        r.delack = now + late(_delay(c, d))


@compiled
def _compression(c: Record, d: int) -> float:
    """How long acknowledgements wait to be put together: 1 ms or 5 % of a round trip, and a slack
    of 0.1 ms."""
    back = c.half[1 - d]
    return (min(back.srtt / 20, 1.0) if back.samples else 1.0) + 0.1


@compiled
def acknowledge_now(c: Record, d: int, now: float, i: int, duplicate: int) -> None:
    _count_quick(c, d)
    send_ack(c, d, now, i, 0, duplicate)


@compiled
def _pace(c: Record, d: int, now: float) -> None:
    """Learn how often data comes (``tcp_event_data_recv``)."""
    r = c.half[d]
    if r.ato <= 0:
        r.quick = QUICK_ACKS
        r.ato = LEAST_ATO_MS
    else:
        since = now - r.rcv_last
        if since <= LEAST_ATO_MS / 2:
            r.ato = r.ato / 2 + LEAST_ATO_MS / 2
        elif since < r.ato:
            r.ato = min(r.ato / 2 + since, c.half[1 - d].rto)
        elif since > c.half[1 - d].rto:
            r.quick = max(r.quick, QUICK_ACKS)
    r.rcv_last = now


@compiled
def _delay(c: Record, d: int) -> float:
    """How long an acknowledgement may wait (``tcp_send_delayed_ack``)."""
    r = c.half[d]
    if r.ato <= LEAST_ATO_MS:
        return r.ato
    most = MOST_ATO_MS
    back = c.half[1 - d]
    if back.samples:
        most = min(most, max(back.srtt, LEAST_ATO_MS))
    return min(r.ato, most)


@compiled
def delayed(c: Record, d: int) -> None:
    """The timer of a delayed acknowledgement: no answer came to take it along."""
    r = c.half[d]
    if r.rcv_beyond:
        return  # it is that of acknowledgements that were put together
    if r.pingpong:
        r.pingpong = 0
        r.ato = LEAST_ATO_MS
    else:
        r.ato = min(2 * r.ato, c.half[1 - d].rto)
    _count_quick(c, d)
