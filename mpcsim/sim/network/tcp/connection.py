"""Initial state of a connection, closed or kept open; and copies of state for lookahead."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from mpcsim.sim.network.tcp import linux, ns3
from mpcsim.sim.network.tcp.compiled import compiled, entry
from mpcsim.sim.network.tcp.state import (
    ALL,
    CLOSED,
    CONNECTION,
    ESTABLISHED,
    HALF,
    MESSAGES,
    OPEN,
    RING,
    Record,
)


@compiled
def reset(c: Record, warm: bool) -> None:
    """Set a connection's state to its initial values, with its settings unchanged.

    Args:
        warm: whether it was kept open since earlier.
    """
    c.state = ESTABLISHED if warm else CLOSED
    c.established = 1 if warm else 0
    c.syn_timer = math.inf
    c.synack_timer = math.inf
    c.syns_sent = 0
    c.synacks_sent = 0
    c.next_event = math.inf
    c.established_ms = -math.inf
    c.has_unreported = 0
    c.timed_out = 0
    for h in range(2):
        s = c.half[h]
        s.messages_queued = 0
        s.bytes_available = 0
        s.bytes_sent = 0
        s.sending_message = 0
        s.messages_delivered = 0
        s.first_unreleased = 0
        s.handshake_gate = ALL if warm else 0
        s.snd_una = 0
        s.snd_nxt = 0
        s.packets_out = 0
        s.sacked_out = 0
        s.lost_out = 0
        s.retrans_out = 0
        s.highest_sack = -1
        s.ca_state = OPEN
        s.cwnd = c.initial_window * c.unit
        s.ssthresh = ALL
        s.snd_cwnd_cnt = 0
        s.remainder = 0
        s.dupacks = 0
        s.recover = 0
        s.recover_active = 0
        s.partial_ack = 0
        s.prr_delivered = 0
        s.prr_out = 0
        s.recover_fs = 0
        s.w_max = 0.0
        s.epoch_start = -1.0
        s.cubic_k = 0.0
        s.bic_origin_point = 0.0
        s.delay_min = math.inf
        s.tcp_cwnd = 0.0
        s.ack_cnt = 0
        s.rtt_samples = 0
        s.srtt = 0.0
        s.rttvar = 0.0
        s.mdev = 0.0
        s.mdev_max = 0.0
        s.rtt_seq = 0
        s.min_rtt = math.inf
        s.rto = 1000.0
        s.timer_expires = math.inf
        s.timer_kind = 0
        s.data_retries = 0
        s.rtt_history = 0
        s.lsndtime = -math.inf
        s.rack_xmit_ts = -math.inf
        s.rack_end_seq = 0
        s.rack_rtt = 0.0
        s.tlp_end_seq = -1
        s.tlp_is_retrans = 0
        s.cwnd_limited = 0
        s.max_packets_out = 0
        s.cwnd_usage_seq = 0
        s.snd_cwnd_used = 0
        s.snd_cwnd_stamp = 0.0
        s.frto = 0
        s.undo_marker = -1
        s.undo_retrans = -1
        s.prior_cwnd = 0
        s.prior_ssthresh = 0
        s.retrans_stamp = -1.0
        s.rcv_nxt = 0
        s.rcv_bytes = 0
        s.ofo_segments = 0
        s.rcv_arrivals = 0
        s.rcv_pending = 0
        s.last_ack_sent = 0
        s.ts_recent = 0.0
        s.delack_expires = math.inf
        s.quick_acks = 0
        s.pingpong = 0
        s.ato = 0.0
        s.lrcvtime = 0.0
        s.last_arrival = -math.inf
        s.head = 0
        s.tail = 0
        s.wire[0].free = -math.inf
        s.wire[0].bad = -1
        if warm:
            _warm_up(c, h)


@compiled
def _warm_up(c: Record, h: int) -> None:
    """Set the RTT estimate of a kept connection, and its delayed acknowledgements."""
    s = c.half[h]
    s.rtt_samples = 1
    s.srtt = c.warm_rtt
    s.rttvar = c.warm_rtt / 2  # as after the first sample (RFC 6298, section 2.2)
    s.min_rtt = c.warm_rtt
    if c.linux:
        s.mdev = 4 * c.warm_deviation
        s.rttvar = max(s.mdev, c.min_rto)
        s.mdev_max = c.min_rto
        s.rto = s.srtt + s.rttvar
        s.ato = linux.LEAST_ATO_MS
        s.pingpong = 1
    else:
        s.rto = ns3.retransmission_timeout(c, h)


# ---------------------------------------------------------------------- copies


def _fields(of: np.dtype[np.void]) -> Mapping[str, Any]:
    return of.fields or {}


_HALVES: Final[int] = _fields(CONNECTION)["half"][1]
_NUMBERS: Final[int] = _fields(HALF)["segment"][1]
"""Size in bytes of a half's fields before its segments, messages and packets."""
_PARTS: Final = (
    (0, _HALVES + _NUMBERS),
    (_HALVES + HALF.itemsize, _HALVES + HALF.itemsize + _NUMBERS),
)


@entry
def copy(
    source: Record,
    source_bytes: NDArray[np.uint8],
    target: Record,
    target_bytes: NDArray[np.uint8],
    count: int,
) -> None:
    """Copy the state of the first ``count`` connections that may change: kilobytes, not hundreds.

    Acknowledged segments and delivered messages do not matter any more; packets under way never
    change.

    Args:
        source_bytes: ``source`` as bytes, a row for each record; ``target_bytes`` likewise.
    """
    for k in range(count):
        for begin, end in _PARTS:
            for at in range(begin, end):
                target_bytes[k, at] = source_bytes[k, at]
        for h in range(2):
            here, there = source[k].half[h], target[k].half[h]
            for i in range(here.snd_una, here.snd_nxt):
                there.segment[i & RING] = here.segment[i & RING]
            for m in range(here.messages_delivered, here.messages_queued):
                there.message[m & MESSAGES] = here.message[m & MESSAGES]
