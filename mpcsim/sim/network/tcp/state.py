"""State of a TCP connection: records in NumPy arrays, for the compiled kernel.

A connection has two halves, one for each direction of data: half 0 is the opener's, half 1 the
other end's. A half has the sender's variables (``snd_una``, ``cwnd``, ...) and those of the
receiver at the far end (``rcv_...``). Variables have the names of RFC 9293, 5681, 6298, 6675, 6937,
7323, 8985, 9438 or of Linux's ``tcp_sock``. Sequence numbers count segments from 0, in the order in
which they are first sent; a segment is never split.

Windows and counts in flight are in ``unit``s: bytes where ns-3 counts bytes (a unit is then 1448),
segments where Linux counts segments (a unit is 1). All times are milliseconds.
"""

from __future__ import annotations

import math
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

SEGMENT_BYTES: Final = 1448
"""Payload of a full segment (1500-byte MTU, IPv4, TCP timestamps)."""

# Kinds of packets.
DATA: Final = 0
ACK: Final = 1
SYN: Final = 2
SYN_ACK: Final = 3

# States of a connection at its opener (RFC 9293, section 3.3.2).
CLOSED: Final = 0
SYN_SENT: Final = 1
"""SYN-SENT: the opener has sent a SYN."""
ESTABLISHED: Final = 2

# Congestion states, as Linux's TCP_CA_Open, Disorder, Recovery and Loss.
OPEN: Final = 0
DISORDER: Final = 1
RECOVERY: Final = 2
LOSS: Final = 3

# Purposes of a sender's timer, as Linux's ICSK_TIME_*.
TIME_RETRANS: Final = 0
TIME_LOSS_PROBE: Final = 1
TIME_REO_TIMEOUT: Final = 2

# Congestion control algorithms.
RENO: Final = 0
CUBIC: Final = 1

ALL: Final = 1 << 60
"""Infinity: no limit of messages, or of a window."""

RING: Final = 511
"""Most segments in flight in one direction: 740 kB. This, ``MESSAGES`` and ``PACKETS`` are masks of
ring buffers: one less than a power of two."""
MESSAGES: Final = 63
PACKETS: Final = 1023

SEGMENT: Final = np.dtype(
    [
        ("xmit_ts", np.float64),  # time of the last transmission (RFC 8985: Segment.xmit_ts)
        ("end_seq", np.int64),  # bytes of the half up to its end
        ("size", np.int32),
        ("message", np.int32),  # number of the message with its first byte
        ("index", np.int32),  # position among the segments of its message
        ("arrival", np.int32),  # ordinal of its arrival at the receiver; 0: not arrived
        ("transmissions", np.int16),  # times it was sent
        ("sacked", np.int8),  # acknowledged selectively (RFC 6675)
        ("lost", np.int8),  # marked lost
        ("retrans", np.int8),  # retransmitted, and not marked lost since
        ("ever_retrans", np.int8),  # ever retransmitted (RFC 8985: Segment.retransmitted)
    ],
    align=True,
)

MESSAGE: Final = np.dtype(
    [
        ("number", np.int64),  # the caller's number; below 0: a flight of the TLS handshake
        ("begin", np.int64),  # bytes of the half before it
        ("size", np.int64),
        ("available", np.int64),  # bytes of it that can be sent
        ("reported", np.int64),  # bytes whose arrival was reported
        ("stream", np.int64),  # report every arrival, not only the last
        ("key", np.uint64),  # of its random draws
        ("forward", np.float64),  # one-way latency of its segments
        ("backward", np.float64),  # one-way latency of their acknowledgements
        ("first_segment", np.int64),
        ("began", np.float64),  # time when its first byte was sent
        ("left", np.float64),  # time when its last byte had first left
        ("waited", np.float64),  # waiting for the wire, behind other packets
        ("wire_ms", np.float64),  # first transmissions of its segments
        ("resent", np.int64),  # retransmitted segments
    ],
    align=True,
)

PACKET: Final = np.dtype(
    [
        ("arrives", np.float64),  # time of arrival
        ("echo", np.float64),  # time stamp echoed (RFC 7323: TSecr)
        ("sent", np.float64),  # time stamp (RFC 7323: TSval)
        ("segment", np.int32),  # of data
        ("ack", np.int32),  # cumulative acknowledgement: next segment expected
        ("count", np.int32),  # arrivals at the receiver that the SACK blocks cover
        ("holes", np.int32),  # segments beyond a hole; above 0: the packet has SACK blocks
        ("next", np.int32),  # the sender's SND.NXT
        ("kind", np.int16),  # DATA, ACK, SYN or SYN_ACK
        ("duplicate", np.int16),  # answers a duplicate segment (D-SACK, RFC 2883)
    ],
    align=True,
)

WIRE: Final = np.dtype(
    [
        ("bits_per_ms", np.float64),  # rate
        ("free", np.float64),  # time when the last packet has left
        ("queue", np.float64),  # bytes that may wait; may be infinite
        ("loss", np.float64),  # probability in the good state
        ("to_bad", np.float64),  # Gilbert-Elliott by packet: P(good to bad); 0: none
        ("to_good", np.float64),  # P(bad to good)
        ("bad_loss", np.float64),  # probability in the bad state
        ("bad", np.int64),  # state; -1: not drawn yet
        ("change_rate", np.float64),  # Gilbert-Elliott by time: changes per ms; 0: none
        ("bad_share", np.float64),  # share of the time in the bad state
        ("seen", np.float64),  # time of the state ``bad``
    ],
    align=True,
)

HALF: Final = np.dtype(
    [
        # data to send
        ("messages_queued", np.int64),  # messages passed to the half so far
        ("bytes_available", np.int64),  # bytes that can be sent
        ("bytes_sent", np.int64),  # bytes sent at least once
        ("sending_message", np.int64),  # number of the message with the next byte
        ("messages_delivered", np.int64),  # messages that have arrived
        ("first_unreleased", np.int64),  # first message not yet available as a whole
        ("handshake_gate", np.int64),  # messages below may be sent: the handshake's, then all
        # segments
        ("snd_una", np.int64),  # SND.UNA (RFC 9293): oldest unacknowledged segment
        ("snd_nxt", np.int64),  # SND.NXT (RFC 9293): next new segment
        ("packets_out", np.int64),  # units sent and not acknowledged
        ("sacked_out", np.int64),  # of these, acknowledged selectively
        ("lost_out", np.int64),  # of these, marked lost
        ("retrans_out", np.int64),  # retransmitted units in flight
        ("highest_sack", np.int64),  # highest segment acknowledged selectively, or -1
        # congestion control
        ("ca_state", np.int64),  # OPEN, DISORDER, RECOVERY or LOSS
        ("cwnd", np.int64),  # congestion window (RFC 5681)
        ("ssthresh", np.int64),  # slow start threshold (RFC 5681)
        ("snd_cwnd_cnt", np.int64),  # acknowledged segments towards the next increase
        ("remainder", np.int64),  # acknowledged bytes short of a segment (ns-3)
        ("dupacks", np.int64),  # duplicate acknowledgements (ns-3), or sent as such (Linux)
        ("recover", np.int64),  # end of recovery (RFC 6582: recover; Linux: high_seq)
        ("recover_active", np.int64),  # ``recover`` is valid (ns-3: m_recoverActive)
        ("partial_ack", np.int64),  # partial acknowledgement in this recovery
        ("prr_delivered", np.int64),  # RFC 6937
        ("prr_out", np.int64),  # RFC 6937
        ("recover_fs", np.int64),  # RFC 6937: RecoverFS; window (Linux), flight (ns-3)
        # CUBIC
        ("w_max", np.float64),  # RFC 9438: W_max
        ("epoch_start", np.float64),  # start of the CUBIC epoch; -1: none
        ("cubic_k", np.float64),  # RFC 9438: K
        ("bic_origin_point", np.float64),  # origin of the cubic function (Linux)
        ("delay_min", np.float64),  # least round trip
        ("tcp_cwnd", np.float64),  # RFC 9438: W_est
        ("ack_cnt", np.int64),  # acknowledged segments in the epoch
        ("last_time", np.float64),  # time of the last computation of ``cnt`` (Linux)
        ("last_cwnd", np.int64),  # window at that time
        ("cnt", np.int64),  # acknowledged segments per increase by one segment
        # round trips and timers
        ("rtt_samples", np.int64),  # number of samples
        ("srtt", np.float64),  # SRTT (RFC 6298)
        ("rttvar", np.float64),  # RTTVAR (RFC 6298)
        ("mdev", np.float64),  # smoothed deviation, times four (Linux: mdev_us)
        ("mdev_max", np.float64),  # its largest value in a round trip
        ("rtt_seq", np.int64),  # segment that ends the round trip
        ("min_rtt", np.float64),  # RACK.min_RTT (RFC 8985)
        ("rto", np.float64),  # RTO (RFC 6298)
        ("timer_expires", np.float64),  # of the write timer; infinite: off
        ("timer_kind", np.int64),  # TIME_RETRANS, TIME_LOSS_PROBE or TIME_REO_TIMEOUT
        ("data_retries", np.int64),  # timeouts since the last acknowledgement (ns-3)
        ("rtt_history", np.int64),  # segments below give no RTT sample (ns-3)
        ("lsndtime", np.float64),  # time of the last data sent
        # RACK and TLP (Linux)
        ("rack_xmit_ts", np.float64),  # RACK.xmit_ts (RFC 8985)
        ("rack_end_seq", np.int64),  # RACK.end_seq
        ("rack_rtt", np.float64),  # RACK.rtt
        ("tlp_end_seq", np.int64),  # TLP.end_seq; -1: no probe in flight
        ("tlp_is_retrans", np.int64),  # TLP.is_retrans
        ("cwnd_limited", np.int64),  # the window has limited sending (RFC 7661)
        ("max_packets_out", np.int64),  # most segments in flight in the last window
        ("cwnd_usage_seq", np.int64),  # segment that ends that window
        ("snd_cwnd_used", np.int64),  # segments in flight, while not limited
        ("snd_cwnd_stamp", np.float64),  # time when the window was last fully used
        ("frto", np.int64),  # F-RTO is in progress (RFC 5682)
        ("undo_marker", np.int64),  # snd_una at the reduction; -1: no undo
        ("undo_retrans", np.int64),  # retransmissions not yet shown spurious; -1: none
        ("prior_cwnd", np.int64),  # window to restore
        ("prior_ssthresh", np.int64),  # threshold to restore
        ("retrans_stamp", np.float64),  # time of the first retransmission; -1: none
        # the receiver
        ("rcv_nxt", np.int64),  # RCV.NXT (RFC 9293)
        ("rcv_bytes", np.int64),  # bytes received in order
        ("ofo_segments", np.int64),  # segments received out of order
        ("rcv_arrivals", np.int64),  # number of arrivals of new segments
        ("rcv_pending", np.int64),  # received, not acknowledged: segments (ns-3), bytes (Linux)
        ("last_ack_sent", np.int64),  # Last.ACK.sent (RFC 7323)
        ("ts_recent", np.float64),  # TS.Recent (RFC 7323)
        ("delack_expires", np.float64),  # of the delayed ACK timer; infinite: off
        ("quick_acks", np.int64),  # immediate ACKs left (Linux: icsk_ack.quick)
        ("pingpong", np.int64),  # interactive: data answers data, ACKs wait (Linux)
        ("ato", np.float64),  # delayed ACK timeout (Linux: icsk_ack.ato)
        ("lrcvtime", np.float64),  # time of the last data received (Linux)
        # packets on the wire
        ("last_arrival", np.float64),  # arrival of the last packet sent, so far
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
        ("linux", np.int64),  # 1: Linux, 0: ns-3
        ("cubic", np.int64),  # 1: CUBIC, 0: Reno
        ("unit", np.int64),  # of windows, see above
        ("initial_window", np.int64),  # segments
        ("header", np.int64),  # bytes around each segment
        ("syn_bytes", np.int64),
        ("min_rto", np.float64),  # floor of RTO
        ("delack_timeout", np.float64),  # ns-3's delayed ACK timeout
        ("idle_restart", np.int64),  # 1: the window shrinks while idle (RFC 5681, 4.1)
        ("flights", np.int64),  # number of TLS flights, beginning with the opener's
        ("flight", np.int64, (4,)),  # their bytes
        ("early_data", np.int64),  # 1: TLS early data (0-RTT)
        # the handshake
        ("state", np.int64),  # CLOSED, SYN_SENT or ESTABLISHED, at the opener
        ("established", np.int64),  # 1: the other end has received the opener's ACK
        ("syn_timer", np.float64),  # retransmission of the SYN
        ("synack_timer", np.float64),  # retransmission of the SYN-ACK
        ("syns_sent", np.int64),  # number of SYNs
        ("synacks_sent", np.int64),  # number of SYN-ACKs
        # events
        ("next_event", np.float64),  # time of the next event
        ("arrival_half", np.int64),  # the last reported arrival: its half
        ("arrival_number", np.int64),  # its message
        ("arrival_bytes", np.int64),  # bytes of it that have arrived
        ("arrival_size", np.int64),  # its size
        ("arrival_slot", np.int64),  # its place in ``message``
        ("arrival_failed", np.int64),  # 1: not an arrival: the connection was aborted
        ("timed_out", np.int64),  # 1: an end aborts (RFC 9293, 3.8.3: user timeout)
        ("has_unreported", np.int64),  # 1: there may be further arrivals to report
        ("established_ms", np.float64),  # time when it was open
        ("warm", np.int64),  # 1: kept open since earlier
        ("warm_rtt", np.float64),  # mean round trip known to a kept connection
        ("warm_deviation", np.float64),  # its standard deviation
        ("half", HALF, (2,)),
    ],
    align=True,
)

Record = Any
"""Record of such an array, as an argument of compiled functions."""

HEAD: Final = np.dtype(
    [
        ("link", np.int64),  # -1: not in use
        ("flip", np.int64),  # 1: opened by the link's second site
        ("session", np.int64),
        ("owner", np.int64),  # exchange that has it exclusively, or -1
        ("pair", np.int64),  # pair whose message it carried last
        ("following", np.int64),  # next connection of its link, or of the free list; or -1
    ],
    align=True,
)
"""Head of a connection in a link's pool, apart from its large record."""

POOL: Final = np.dtype(
    [
        ("used", np.int64),  # records ever in use
        ("spare", np.int64),  # first of the free list, or -1
        ("top", np.int64),  # root of the tournament tree of times
        ("failed", np.int64),  # failed transfers that were not reported
    ],
    align=True,
)

LINK: Final = np.dtype(
    [
        ("http2", np.int64),  # 1: HTTP/2
        ("pool", np.int64),  # most connections of a session
        ("first", np.int64),  # first of its connections; -1: none
        ("warm_rtt", np.float64),  # mean round trip known to a kept connection
        ("warm_deviation", np.float64),  # its standard deviation
        ("wire", WIRE, (2,)),  # from its first site to the second, and back; shared
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
        ("given", np.float64),  # time when it was passed to the transport
        ("connection", np.int64),  # -1: waits for one; -2: not in use; -3 - k: failed on k
        ("order", np.int64),
        # its time by part
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
"""Time of the next event on a connection with unreported arrivals: at once."""

Times = NDArray[np.float64]


class Records(NamedTuple):
    """State of all traffic."""

    connections: Record
    heads: Record
    """Heads of the connections."""
    times: Times
    """Times of the next event on each connection: the leaves of a tournament tree, in the second
    half of the array. Every inner node has the lesser of its two children; the root (``pool``) is
    above all connections in use."""
    pool: Record
    """Pool of connections: one record."""
    links: Record
    transfers: Record
