"""What a connection consists of while it is simulated: records in arrays, for the compiled kernel.

A connection has two halves, one for each direction in which data goes: half 2c is the opener's,
half 2c + 1 the other end's. A half holds what its sender knows of its own data (``una``, ``cwnd``,
...) and what the receiver at the far end knows of it (``rcv_...``). Segments are numbered from 0 in
the order in which they are first sent; one is never cut again.

Windows and counts of what is under way are in ``unit``s: bytes where ns-3 counts bytes (a unit is
then 1448), segments where Linux counts segments (a unit is 1). All times are milliseconds.
"""

from __future__ import annotations

import math
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

SEGMENT_BYTES: Final = 1448
"""Payload of a full segment (1500-byte MTU, IPv4, TCP timestamps)."""

# What a packet is.
DATA: Final = 0
ACK: Final = 1
SYN: Final = 2
SYN_ACK: Final = 3

# States of a connection, as its opener sees it.
CLOSED: Final = 0
SYN_SENT: Final = 1
"""A SYN is out."""
ESTABLISHED: Final = 2

# Congestion states (RFC 6675 and Linux have the same).
OPEN: Final = 0
DISORDER: Final = 1
RECOVERY: Final = 2
LOSS: Final = 3

# What a sender's timer is for.
TIME_RETRANS: Final = 0
TIME_LOSS_PROBE: Final = 1
TIME_REO_TIMEOUT: Final = 2

# Algorithms.
RENO: Final = 0
CUBIC: Final = 1

ALL: Final = 1 << 60
"""No limit: of messages, or of a window."""

RING: Final = 511
"""Segments under way in one direction, at most: 740 kB. This, ``MESSAGES`` and ``PACKETS`` are one
less than a power of two."""
MESSAGES: Final = 63
PACKETS: Final = 1023

SEGMENT: Final = np.dtype(
    [
        ("xmit_ts", np.float64),  # last time
        ("end_seq", np.int64),  # bytes up to here
        ("size", np.int32),
        ("message", np.int32),
        ("index", np.int32),  # among those of its message
        ("arrival", np.int32),  # which arrival it was; 0: not there
        ("transmissions", np.int16),
        ("sacked", np.int8),
        ("lost", np.int8),
        ("retrans", np.int8),  # sent again, and not given up since
        ("ever_retrans", np.int8),  # sent again at any time
    ],
    align=True,
)

MESSAGE: Final = np.dtype(
    [
        ("number", np.int64),  # as the caller knows it; below 0: a flight of the TLS handshake
        ("begin", np.int64),  # bytes of the half before it
        ("size", np.int64),
        ("available", np.int64),
        ("reported", np.int64),  # bytes whose arrival was told
        ("stream", np.int64),  # every arrival is told, not only the last
        ("key", np.uint64),  # of its draws
        ("forward", np.float64),
        ("backward", np.float64),
        ("first_segment", np.int64),
        ("began", np.float64),  # when its first byte was sent
        ("left", np.float64),  # when its last byte had left for the first time
        ("waited", np.float64),  # for the wire, behind others
        ("wire_ms", np.float64),  # what its segments took on the wire the first time
        ("resent", np.int64),  # segments of it that were sent again
    ],
    align=True,
)

PACKET: Final = np.dtype(
    [
        ("arrives", np.float64),
        ("echo", np.float64),
        ("sent", np.float64),
        ("segment", np.int32),
        ("ack", np.int32),
        ("count", np.int32),  # arrivals that the acknowledgement covers
        ("holes", np.int32),
        ("next", np.int32),  # the sender's next segment
        ("kind", np.int16),
        ("duplicate", np.int16),  # it answers a segment that was there already (RFC 2883)
    ],
    align=True,
)

WIRE: Final = np.dtype(
    [
        ("bits_per_ms", np.float64),
        ("free", np.float64),
        ("queue", np.float64),  # bytes that may wait; infinite
        ("loss", np.float64),
        ("to_bad", np.float64),  # bursty loss: chances per packet; 0: none
        ("to_good", np.float64),
        ("bad_loss", np.float64),
        ("bad", np.int64),  # -1: not known yet
        ("change_rate", np.float64),  # bursty loss by time: changes per ms; 0: none
        ("bad_share", np.float64),
        ("seen", np.float64),  # when ``bad`` was the state
    ],
    align=True,
)

HALF: Final = np.dtype(
    [
        # what there is to send
        ("messages_queued", np.int64),  # messages given so far
        ("bytes_available", np.int64),  # bytes that may be sent
        ("bytes_sent", np.int64),  # bytes sent at least once
        ("sending_message", np.int64),  # number of the message with the next byte
        ("messages_delivered", np.int64),  # messages that have arrived
        (
            "first_unreleased",
            np.int64,
        ),  # number of the first message that may not go as a whole yet
        ("handshake_gate", np.int64),  # messages before this one may go: the handshake's, then all
        # segments
        ("snd_una", np.int64),  # first one not acknowledged
        ("snd_nxt", np.int64),  # next new one
        ("packets_out", np.int64),  # units sent and not acknowledged
        ("sacked_out", np.int64),
        ("lost_out", np.int64),
        ("retrans_out", np.int64),
        ("highest_sack", np.int64),  # highest segment acknowledged out of order, or -1
        # congestion control
        ("ca_state", np.int64),
        ("cwnd", np.int64),
        ("ssthresh", np.int64),
        ("snd_cwnd_cnt", np.int64),
        ("remainder", np.int64),  # bytes acknowledged that make no whole segment yet (ns-3)
        ("dupacks", np.int64),
        ("recover", np.int64),  # recovery ends when everything before this segment is there
        ("recover_active", np.int64),
        ("partial_ack", np.int64),  # a partial acknowledgement has come in this recovery
        ("prr_delivered", np.int64),
        ("prr_out", np.int64),
        ("recover_fs", np.int64),  # window (Linux) or flight (ns-3) when recovery began
        # CUBIC
        ("w_max", np.float64),
        ("epoch_start", np.float64),  # -1: none
        ("cubic_k", np.float64),
        ("bic_origin_point", np.float64),
        ("delay_min", np.float64),
        ("tcp_cwnd", np.float64),
        ("ack_cnt", np.int64),
        ("last_time", np.float64),  # when the following were computed (Linux)
        ("last_cwnd", np.int64),
        ("cnt", np.int64),  # acknowledged segments for which the window grows by one
        # round trips and timers
        ("rtt_samples", np.int64),
        ("srtt", np.float64),
        ("rttvar", np.float64),
        ("mdev", np.float64),
        ("mdev_max", np.float64),
        ("rtt_seq", np.int64),
        ("min_rtt", np.float64),
        ("rto", np.float64),
        ("timer_expires", np.float64),
        ("timer_kind", np.int64),
        ("data_retries", np.int64),  # since something was acknowledged last (ns-3)
        ("rtt_history", np.int64),  # segments before it give no sample any more (ns-3)
        ("lsndtime", np.float64),
        # RACK and TLP (Linux)
        ("rack_xmit_ts", np.float64),
        ("rack_end_seq", np.int64),
        ("rack_rtt", np.float64),
        ("tlp_end_seq", np.int64),  # -1: no probe is out
        ("tlp_is_retrans", np.int64),
        ("cwnd_limited", np.int64),  # the window has held something back
        ("max_packets_out", np.int64),
        ("cwnd_usage_seq", np.int64),
        ("snd_cwnd_used", np.int64),
        ("snd_cwnd_stamp", np.float64),
        ("frto", np.int64),
        ("undo_marker", np.int64),
        ("undo_retrans", np.int64),
        ("prior_cwnd", np.int64),
        ("prior_ssthresh", np.int64),
        ("retrans_stamp", np.float64),
        # the receiver
        ("rcv_nxt", np.int64),
        ("rcv_bytes", np.int64),
        ("ofo_segments", np.int64),  # segments held behind a hole
        ("rcv_arrivals", np.int64),  # of arrivals of new segments
        ("rcv_pending", np.int64),  # segments not acknowledged yet
        ("last_ack_sent", np.int64),  # what the last pure acknowledgement said
        ("ts_recent", np.float64),  # time stamp to echo
        ("delack_expires", np.float64),
        ("quick_acks", np.int64),
        ("pingpong", np.int64),
        ("ato", np.float64),
        ("lrcvtime", np.float64),
        # its direction of the link
        ("last_arrival", np.float64),  # the last packet so far
        ("head", np.int64),  # packets under way: from head to tail
        ("tail", np.int64),
        ("wire", WIRE, (1,)),
        ("segment", SEGMENT, (RING + 1,)),
        ("message", MESSAGE, (MESSAGES + 1,)),
        ("packet", PACKET, (PACKETS + 1,)),
    ],
    align=True,
)

CONNECTION: Final = np.dtype(
    [
        # settings
        ("linux", np.int64),
        ("cubic", np.int64),
        ("unit", np.int64),
        ("initial_window", np.int64),  # segments
        ("header", np.int64),  # bytes around each segment
        ("syn_bytes", np.int64),
        ("min_rto", np.float64),
        ("delack_timeout", np.float64),
        ("idle_restart", np.int64),
        ("flights", np.int64),  # of the TLS handshake, beginning with the opener's
        ("flight", np.int64, (4,)),  # their bytes
        ("early_data", np.int64),
        # the handshake
        ("state", np.int64),
        ("established", np.int64),  # the other end has seen the opener's ACK
        ("syn_timer", np.float64),
        ("synack_timer", np.float64),
        ("syns_sent", np.int64),  # sent so far
        ("synacks_sent", np.int64),
        # what is next, and what was last
        ("next_event", np.float64),  # nothing happens before
        ("arrival_half", np.int64),  # the last arrival: of what half, what message, how much of it
        ("arrival_number", np.int64),
        ("arrival_bytes", np.int64),
        ("arrival_size", np.int64),
        ("arrival_slot", np.int64),  # where it is kept
        ("arrival_failed", np.int64),  # it did not arrive: its connection was given up
        ("timed_out", np.int64),  # an end has waited in vain for too long
        ("has_unreported", np.int64),  # there may be more to tell
        ("established_ms", np.float64),  # when it was open
        ("warm", np.int64),
        ("warm_rtt", np.float64),  # what a kept connection knows of round trips
        ("warm_deviation", np.float64),
        ("half", HALF, (2,)),
    ],
    align=True,
)

Record = Any
"""A record of such an array, as compiled functions get it."""

HEAD: Final = np.dtype(
    [
        ("link", np.int64),  # -1: it is not in use
        ("flip", np.int64),  # 1: the link's second site opened it
        ("session", np.int64),
        ("owner", np.int64),  # the exchange that has it to itself, or -1
        ("pair", np.int64),  # whose messages it carried last
        ("following", np.int64),  # the next one of its link, or of those given back; or -1
    ],
    align=True,
)
"""What a pool knows of a connection, apart from its large record."""

POOL: Final = np.dtype(
    [
        ("used", np.int64),  # records that have ever been in use
        ("spare", np.int64),  # the first one given back, or -1
        ("top", np.int64),  # of the tree of times
        ("failed", np.int64),  # transfers that failed and of which nobody was told
    ],
    align=True,
)

LINK: Final = np.dtype(
    [
        ("http2", np.int64),
        ("pool", np.int64),  # connections that one session may have over it
        ("first", np.int64),  # its connections begin with this one; -1: none
        ("warm_rtt", np.float64),  # what a kept connection knows of round trips
        ("warm_deviation", np.float64),
        ("wire", WIRE, (2,)),  # from its first site to the second, and back; all share it
    ],
    align=True,
)

TRANSFER: Final = np.dtype(
    [
        ("link", np.int64),
        ("side", np.int64),
        ("pair", np.int64),
        ("session", np.int64),
        ("exclusive", np.int64),
        ("size", np.int64),
        ("available", np.int64),
        ("stream", np.int64),
        ("key", np.uint64),
        ("forward", np.float64),
        ("backward", np.float64),
        ("given", np.float64),
        ("connection", np.int64),  # -1: waits for one; -2: not in use; -3 - k: failed on k
        ("order", np.int64),
        # where its time went
        ("arrived", np.float64),
        ("queueing", np.float64),
        ("handshake", np.float64),
        ("window", np.float64),
        ("transmission", np.float64),
        ("recovery", np.float64),
    ],
    align=True,
)

UNREPORTED: Final = -math.inf
"""When something happens next on a connection with arrivals that nobody was told of: at once."""

Times = NDArray[np.float64]


class Records(NamedTuple):
    """The state of all traffic. Compiled functions take them one by one: it is quicker."""

    connections: Record
    heads: Record
    """Of the connections."""
    times: Times
    """When something happens next on each connection: the leaves of a tree, whose second half they
    are. Every place before has the lesser of the two below it; the top (``pool``) is above all that
    are in use."""
    pool: Record
    """One record."""
    links: Record
    transfers: Record
