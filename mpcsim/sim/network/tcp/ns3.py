"""ns-3 3.37's sender: RFC 6675 recovery with its own rules, PRR (RFC 6937), RFC 6298.

Functions follow those of ``src/internet/model/tcp-socket-base.cc``, ``tcp-tx-buffer.cc`` and
``tcp-prr-recovery.cc`` of release 3.37, named in their summaries; times were validated against it
(``tests/vectors/ns3``). Its deviations from the RFCs are kept: they are what is compared.
"""

from __future__ import annotations

import math

from mpcsim.sim.network.tcp import congestion
from mpcsim.sim.network.tcp.compiled import compiled
from mpcsim.sim.network.tcp.segments import (
    in_flight,
    mark_lost,
    mark_retransmitted,
    mark_sacked,
    next_segment,
    pop_acked,
    transmit,
)
from mpcsim.sim.network.tcp.state import (
    DISORDER,
    LOSS,
    OPEN,
    RECOVERY,
    RING,
    SEGMENT_BYTES,
    Record,
)

DUPLICATE_ACKS = 3
MAX_RTO_MS = 60_000.0
DATA_RETRIES = 6
"""Timeouts in a row before the connection is aborted (``DataRetries``)."""


@compiled
def retransmission_timeout(c: Record, h: int) -> float:
    """Return RTO by RFC 6298 with a clock of 1 ms; the floor is under the whole."""
    s = c.half[h]
    if s.rtt_samples == 0:
        return 1000.0
    return max(s.srtt + max(1.0, 4 * s.rttvar), c.min_rto)


@compiled
def estimate_rtt(c: Record, h: int, now: float, echo: float) -> None:
    """Update SRTT, RTTVAR and RTO by a time stamp, in whole milliseconds (``EstimateRtt``)."""
    s = c.half[h]
    rtt = float(math.floor(now) - math.floor(echo))
    if rtt <= 0:
        rtt = 0.001
    if s.rtt_samples == 0:
        s.srtt = rtt
        s.rttvar = rtt / 2
    else:
        error = rtt - s.srtt
        s.srtt += error / 8
        s.rttvar += (abs(error) - s.rttvar) / 4
    s.rtt_samples += 1
    s.rto = retransmission_timeout(c, h)


@compiled
def send_segment(c: Record, h: int, now: float, i: int, new: bool) -> None:
    """Send or retransmit segment ``i``, and start the timer if it is off (``SendDataPacket``)."""
    s = c.half[h]
    if not new:
        mark_retransmitted(c, h, i)
    if s.timer_expires == math.inf:
        s.timer_expires = now + s.rto
    transmit(c, h, now, i)
    if s.ca_state == RECOVERY:
        s.prr_out += c.half[h].segment[i & RING].size


@compiled
def next_seg(c: Record, h: int) -> int:
    """Return the first lost segment not retransmitted (RFC 6675, NextSeg rule 1); -1: none."""
    s = c.half[h]
    if s.lost_out == 0:
        return -1
    for i in range(s.snd_una, s.snd_nxt):
        segment = c.half[h].segment[i & RING]
        if segment.lost and not segment.retrans and not segment.sacked:
            return i
    return -1


@compiled
def send_pending_data(c: Record, h: int, now: float) -> None:
    """Send the data that the window allows (``SendPendingData``)."""
    s = c.half[h]
    while True:
        window = s.cwnd - in_flight(c, h)
        if window <= 0:
            return
        i = next_seg(c, h)
        if i < 0:
            left = s.bytes_available - s.bytes_sent
            if left > 0:
                if s.snd_nxt - s.snd_una >= RING or (window < SEGMENT_BYTES and left > window):
                    return
                send_segment(c, h, now, next_segment(c, h, now, window), True)
                continue
            if s.ca_state == RECOVERY:  # rule 3
                for k in range(s.snd_una, s.snd_nxt):
                    segment = c.half[h].segment[k & RING]
                    if not segment.retrans and not segment.sacked:
                        i = k
                        break
            if i < 0:
                return
        rest = (
            s.bytes_available
            - c.half[h].segment[i & RING].end_seq
            + c.half[h].segment[i & RING].size
        )
        if window < SEGMENT_BYTES and rest > window:
            return
        send_segment(c, h, now, i, False)


@compiled
def do_retransmit(c: Record, h: int, now: float) -> None:
    """Send one segment regardless of the window (``DoRetransmit``)."""
    s = c.half[h]
    i = next_seg(c, h)
    if i >= 0:
        send_segment(c, h, now, i, False)
    elif s.bytes_available > s.bytes_sent:
        send_segment(c, h, now, next_segment(c, h, now, SEGMENT_BYTES), True)
    else:
        send_segment(c, h, now, s.snd_una, False)


@compiled
def update_lost_count(c: Record, h: int) -> None:
    """Mark segments lost that have three acknowledged ones above them (``UpdateLostCount``)."""
    s = c.half[h]
    came = 0
    i = s.highest_sack
    while i > s.snd_una:
        if c.half[h].segment[i & RING].sacked:
            came += 1
        elif came >= DUPLICATE_ACKS:
            mark_lost(c, h, i)
        i -= 1
    if came >= DUPLICATE_ACKS:
        mark_lost(c, h, s.snd_una)


@compiled
def prr_do_recovery(c: Record, h: int, delivered: int, resent: bool) -> None:
    """Set the window by proportional rate reduction with slow start (``TcpPrrRecovery``)."""
    s = c.half[h]
    s.prr_delivered += delivered
    flying = in_flight(c, h)
    if flying > s.ssthresh:
        product = (s.prr_delivered * s.ssthresh) & 0xFFFFFFFF  # as its 32 bits have it
        count = math.ceil(product / s.recover_fs) - s.prr_out
    else:
        limit = delivered
        if resent:
            behind = s.prr_delivered - s.prr_out
            limit = (behind if behind < 0 else max(behind, delivered)) + SEGMENT_BYTES
        count = min(limit, s.ssthresh - flying)
    count = max(count, 0 if s.prr_out > 0 else SEGMENT_BYTES)
    s.cwnd = flying + count


@compiled
def enter_recovery(c: Record, h: int, now: float, delivered: int) -> None:
    """Enter fast recovery, and retransmit (``EnterRecovery``)."""
    s = c.half[h]
    head = c.half[h].segment[s.snd_una & RING]
    if not head.lost:
        if head.retrans:
            head.retrans = 0
            s.retrans_out -= head.size
        mark_lost(c, h, s.snd_una)
    s.recover = s.snd_nxt
    s.recover_active = 1
    s.ca_state = RECOVERY
    s.ssthresh = congestion.ssthresh_after_loss(c, h)
    s.prr_out = 0
    s.prr_delivered = 0
    s.recover_fs = s.packets_out
    prr_do_recovery(c, h, delivered, False)
    do_retransmit(c, h, now)


@compiled
def is_lost_behind_head(c: Record, h: int) -> bool:
    """Return whether the segment after the first is lost (``IsLost(HighRxAck + segment size)``)."""
    s = c.half[h]
    if s.highest_sack < 0 or s.snd_una + 1 >= s.highest_sack:
        return False
    for i in range(s.snd_una + 1, s.snd_nxt):
        segment = c.half[h].segment[i & RING]
        if segment.lost:
            return True
        if segment.sacked:
            return False
    return False


@compiled
def dup_ack(c: Record, h: int, now: float, delivered: int) -> None:
    """Process a duplicate acknowledgement, one with new SACK information (``DupAck``)."""
    s = c.half[h]
    if s.ca_state == LOSS:
        return
    if s.ca_state == RECOVERY:
        prr_do_recovery(c, h, delivered, False)
        return
    s.dupacks += 1
    s.ca_state = DISORDER
    if (
        s.dupacks == DUPLICATE_ACKS and (s.snd_una >= s.recover or not s.recover_active)
    ) or is_lost_behind_head(c, h):
        enter_recovery(c, h, now, delivered)


@compiled
def new_ack(c: Record, h: int, now: float, restart: bool) -> None:
    """Restart or stop the retransmission timer after a new acknowledgement (``NewAck``)."""
    s = c.half[h]
    if restart:
        s.rto = retransmission_timeout(c, h)
        s.timer_expires = now + s.rto
    if s.snd_una == s.snd_nxt and s.bytes_available == s.bytes_sent:
        s.timer_expires = math.inf


@compiled
def received_ack(
    c: Record, h: int, now: float, ack: int, count: int, holes: int, echo: float
) -> None:
    """Process an acknowledgement, and send the data that it allows (``ReceivedAck``)."""
    s = c.half[h]
    front = max(s.snd_una, s.rtt_history)
    if front < s.snd_nxt and ack > front and not c.half[h].segment[front & RING].ever_retrans:
        estimate_rtt(c, h, now, echo)
    if ack < s.snd_una:
        return
    news = 0
    if holes:
        news = mark_sacked(c, h, count)
        if news:
            update_lost_count(c, h)
    before = s.snd_una
    resent = False
    if s.ca_state == RECOVERY and before < ack < s.recover:
        for i in range(before, ack):
            segment = c.half[h].segment[i & RING]
            if segment.retrans and not segment.sacked:
                resent = True
    bytes_before = c.half[h].segment[before & RING].end_seq - c.half[h].segment[before & RING].size
    acked_bytes = c.half[h].segment[(ack - 1) & RING].end_seq - bytes_before if ack > before else 0
    delivered = news
    while s.snd_una < ack:
        delivered += pop_acked(c, h)
    duplicates = s.dupacks
    if news:
        if s.ca_state == RECOVERY:
            prr_do_recovery(c, h, delivered, resent)
        else:
            dup_ack(c, h, now, delivered)
    if ack == before:
        if ack < s.snd_nxt:
            congestion.update_delay_min(c, h, now, s.srtt)
    else:
        _process_ack(c, h, now, ack, acked_bytes, delivered, bool(news), duplicates, resent)
    send_pending_data(c, h, now)


@compiled
def _process_ack(
    c: Record,
    h: int,
    now: float,
    ack: int,
    acked_bytes: int,
    delivered: int,
    duplicated: bool,
    duplicates: int,
    resent: bool,
) -> None:
    """Process an advance of the cumulative acknowledgement (``ProcessAck``)."""
    s = c.half[h]
    s.data_retries = 0
    acked = acked_bytes // SEGMENT_BYTES
    s.remainder += acked_bytes % SEGMENT_BYTES
    if s.remainder >= SEGMENT_BYTES:
        acked += 1
        s.remainder -= SEGMENT_BYTES
    if not duplicated:
        s.dupacks = 0
    if ack < s.recover and s.ca_state == RECOVERY:
        if acked >= 1:
            prr_do_recovery(c, h, delivered, resent)
        head = c.half[h].segment[s.snd_una & RING]
        if not (head.retrans and not head.sacked and head.size == SEGMENT_BYTES):
            do_retransmit(c, h, now)
        congestion.update_delay_min(c, h, now, s.srtt)
        new_ack(c, h, now, s.partial_ack == 0)
        s.partial_ack = 1
        return
    if ack < s.recover and s.ca_state == LOSS:
        congestion.update_delay_min(c, h, now, s.srtt)
        congestion.increase_window(c, h, now, acked)
        new_ack(c, h, now, True)
        return
    left_recovery = False
    if s.ca_state == OPEN:
        congestion.update_delay_min(c, h, now, s.srtt)
    elif s.ca_state == DISORDER:
        if acked >= duplicates:
            congestion.update_delay_min(c, h, now, s.srtt)
        if not duplicated:
            s.ca_state = OPEN
    elif s.ca_state == RECOVERY:
        s.partial_ack = 0
        acked = acked_bytes // SEGMENT_BYTES
        congestion.update_delay_min(c, h, now, s.srtt)
        s.ca_state = OPEN
        left_recovery = True
        s.dupacks = 0
    else:
        s.partial_ack = 0
        acked = 0
        congestion.update_delay_min(c, h, now, s.srtt)
        s.ca_state = OPEN
    if ack >= s.recover:
        s.recover_active = 0
    if left_recovery:
        new_ack(c, h, now, True)
        s.cwnd = s.ssthresh
    if s.ca_state == OPEN:
        congestion.increase_window(c, h, now, acked)
        new_ack(c, h, now, True)


@compiled
def retx_timeout(c: Record, h: int, now: float) -> None:
    """Process an expired retransmission timer (``ReTxTimeout``); the seventh in a row aborts."""
    s = c.half[h]
    s.timer_expires = math.inf
    if s.snd_una == s.snd_nxt:
        return
    if s.data_retries == DATA_RETRIES:
        c.timed_out = 1
        return
    s.data_retries += 1
    s.dupacks = 0
    s.retrans_out = 0
    for i in range(s.snd_una, s.snd_nxt):
        mark_lost(c, h, i)
        c.half[h].segment[i & RING].retrans = 0
    s.recover = s.snd_nxt
    s.recover_active = 1
    s.rto = min(2 * s.rto, MAX_RTO_MS)
    s.rtt_history = s.snd_nxt
    s.ssthresh = congestion.ssthresh_after_loss(c, h)
    if c.cubic:
        congestion.reset_cubic(c, h)
    s.ca_state = LOSS
    s.cwnd = SEGMENT_BYTES
    send_pending_data(c, h, now)
