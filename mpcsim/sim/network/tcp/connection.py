"""A connection's beginning, closed or kept open since earlier; and copies to go back to."""

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
    HALF,
    MESSAGES,
    OPEN,
    READY,
    RING,
    Record,
)


@compiled
def begin(c: Record, warm: bool) -> None:
    """Make it new, with its settings as they are.

    Args:
        warm: it was kept open since earlier.
    """
    c.state = READY if warm else CLOSED
    c.accepted = 1 if warm else 0
    c.resend_syn = math.inf
    c.resend_syn_ack = math.inf
    c.syns = 0
    c.syn_acks = 0
    c.next = math.inf
    c.ready_ms = -math.inf
    c.untold = 0
    c.given_up = 0
    for h in range(2):
        s = c.half[h]
        s.given = 0
        s.available = 0
        s.sent = 0
        s.sending = 0
        s.delivered = 0
        s.waiting = 0
        s.gate = ALL if warm else 0
        s.una = 0
        s.nxt = 0
        s.out = 0
        s.sacked = 0
        s.lost = 0
        s.retrans = 0
        s.high_sack = -1
        s.state = OPEN
        s.cwnd = c.initial_window * c.unit
        s.ssthresh = ALL
        s.cwnd_count = 0
        s.remainder = 0
        s.dupacks = 0
        s.recover = 0
        s.recovering = 0
        s.partial = 0
        s.prr_delivered = 0
        s.prr_out = 0
        s.prior = 0
        s.w_max = 0.0
        s.epoch_ms = -1.0
        s.cubic_k = 0.0
        s.origin = 0.0
        s.delay_min = math.inf
        s.tcp_cwnd = 0.0
        s.ack_count = 0
        s.samples = 0
        s.srtt = 0.0
        s.rttvar = 0.0
        s.mdev = 0.0
        s.mdev_max = 0.0
        s.rtt_seq = 0
        s.min_rtt = math.inf
        s.rto = 1000.0
        s.timer = math.inf
        s.timer_kind = 0
        s.timeouts = 0
        s.history = 0
        s.last_sent = -math.inf
        s.rack_sent = -math.inf
        s.rack_end = 0
        s.rack_rtt = 0.0
        s.probe_end = -1
        s.probe_again = 0
        s.limited = 0
        s.max_out = 0
        s.usage_end = 0
        s.used = 0
        s.used_ms = 0.0
        s.frto = 0
        s.undo = -1
        s.undo_retrans = -1
        s.undo_cwnd = 0
        s.undo_ssthresh = 0
        s.retrans_ms = -1.0
        s.rcv_nxt = 0
        s.rcv_bytes = 0
        s.rcv_beyond = 0
        s.rcv_count = 0
        s.rcv_pending = 0
        s.rcv_acked = 0
        s.rcv_echo = 0.0
        s.delack = math.inf
        s.quick = 0
        s.pingpong = 0
        s.ato = 0.0
        s.rcv_last = 0.0
        s.arrived = -math.inf
        s.head = 0
        s.tail = 0
        s.wire[0].free = -math.inf
        s.wire[0].bad = -1
        if warm:
            _remember(c, h)


@compiled
def _remember(c: Record, h: int) -> None:
    """A connection kept since earlier knows its round trips, and answers delay acknowledgements."""
    s = c.half[h]
    s.samples = 1
    s.srtt = c.warm_rtt
    s.rttvar = c.warm_rtt / 2  # as the first one leaves it (RFC 6298, section 2.2)
    s.min_rtt = c.warm_rtt
    if c.linux:
        s.mdev = 4 * c.warm_deviation
        s.rttvar = max(s.mdev, c.min_rto)
        s.mdev_max = c.min_rto
        s.rto = s.srtt + s.rttvar
        s.ato = linux.LEAST_ATO_MS
        s.pingpong = 1
    else:
        s.rto = ns3.timeout(c, h)


# ---------------------------------------------------------------------- copies


def _fields(of: np.dtype[np.void]) -> Mapping[str, Any]:
    return of.fields or {}


_HALVES: Final[int] = _fields(CONNECTION)["half"][1]
_NUMBERS: Final[int] = _fields(HALF)["segment"][1]
"""Bytes of a half before its segments, messages and packets."""
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
    """Copy of the first ``count`` connections what may change: some kilobytes, not some hundred.

    Segments that were acknowledged and messages that arrived are not looked at again in a way that
    shows; packets under way never change.

    Args:
        source_bytes: the same as ``source``, a row of bytes each; ``target_bytes`` likewise.
    """
    for k in range(count):
        for begin, end in _PARTS:
            for at in range(begin, end):
                target_bytes[k, at] = source_bytes[k, at]
        for h in range(2):
            here, there = source[k].half[h], target[k].half[h]
            for i in range(here.una, here.nxt):
                there.segment[i & RING] = here.segment[i & RING]
            for m in range(here.delivered, here.given):
                there.message[m & MESSAGES] = here.message[m & MESSAGES]
