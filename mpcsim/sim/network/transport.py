"""How the endpoints of a link carry messages: the settings of their connections, and one transfer.

What a message goes through is simulated segment by segment (``mpcsim.sim.network.tcp``): handshakes
with their bytes, slow start and congestion avoidance, delayed acknowledgements, losses and what
Linux (or ns-3) does about them, and connections that remember all that from one message to the
next. ``traffic`` carries messages; this module says how.

A site in the middle forwards whole messages, or (``forwarding="stream"``) what it has of one, each
segment's bytes as they come in order.

All times are milliseconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral
from typing import Final, NamedTuple

from mpcsim.errors import UsageError, unknown

__all__ = [
    "CONGESTION",
    "FORWARDING",
    "HTTP",
    "PROFILES",
    "Connection",
    "Draws",
    "Transfer",
    "check_forwarding",
    "is_whole_number",
]

FORWARDING: Final = ("store", "stream")
"""What a site in the middle may do with messages."""
PROFILES: Final = ("linux", "ns3")
"""Whose TCP: Linux 6's, or that of ns-3 3.37 as it comes."""
CONGESTION: Final = ("cubic", "reno")
"""Algorithms: CUBIC (RFC 9438) is Linux's default. BBR is left out: it needs pacing and long
transfers, and a short message hardly leaves its start-up."""
HTTP: Final = ("1.1", "2")
MOST_CONNECTIONS: Final = 256
MAX_WINDOW: Final = 511
"""Segments under way in one direction of a connection, at most: 740 kB."""

TLS_FLIGHTS: Final = {
    (1, False): (252, 2024, 80),
    (1, True): (523, 241, 80),
    (2, False): (189, 1865, 93, 242),
    (2, True): (517, 141, 51),
}
"""Bytes of the handshake's flights, the opener's first, by round trips (1: TLS 1.3, 2: TLS 1.2) and
whether a session is resumed. Sizes as OpenSSL 3 has them with a chain of two P-256 certificates
(``tests/sim/network/test_transport.py`` measures); tickets that come later are left out."""


@dataclass(frozen=True)
class Connection:
    """How the endpoints of a link keep their connections."""

    cold: bool = False
    """True: every session opens its connections anew. A session is a run of the engine, or a call
    of the service's REST API."""
    tls_round_trips: int = 1
    """1 for TLS 1.3, 2 for TLS 1.2, 0 without."""
    overhead_bytes: int = 300
    """HTTP header and TLS record around each message."""
    initial_window: int = 10
    """Segments that may leave before the first acknowledgement: 10 in RFC 6928 and in Linux (``ip
    route change ... initcwnd``)."""
    slow_start_after_idle: bool = True
    """A connection that was idle for longer than its retransmission timeout halves its window for
    each timeout of the pause, down to the initial one (RFC 5681, section 4.1; Linux's
    ``net.ipv4.tcp_slow_start_after_idle``). The profile ``ns3`` never does."""
    forwarding: str = "store"
    """What a site in the middle (the gateway) does: ``store`` messages and forward them once they
    are whole, or ``stream``: forward what it has of one."""
    profile: str = "linux"
    """``linux``: RACK-TLP (RFC 8985), the floor of 200 ms under the variance part of the timeout,
    restart after idle, F-RTO, quick acknowledgements at first. ``ns3``: duplicate acknowledgements
    and RFC 6675, the floor under the whole timeout, RFC 6937 with ns-3's rules; no probe, no
    restart. Loss-free both give the same but for ns-3's 2 bytes of framing. The second exchange of
    10 kB and 50 kB over 50 ms takes 201 ms (``linux``) and 229 ms (``ns3``) on average with CUBIC
    at 1 % loss, 224 and 244 with Reno; at 2 % 279 and 339, 329 and 371."""
    congestion: str = "cubic"
    """``cubic`` or ``reno``."""
    http: str = "1.1"
    """``1.1``: a pool of connections over each link; ``2``: one connection, on which a message
    that waits for a lost segment holds up those behind it."""
    pool: int = 8
    """Connections that a session may have over one link (HTTP/1.1); a message that finds all of
    them taken waits."""
    resumption: bool = False
    """TLS resumes an earlier session: no certificates in the handshake, and with TLS 1.2 one round
    trip instead of two."""
    early_data: bool = False
    """TLS 1.3 sends the first message along with the first flight (0-RTT); needs ``resumption``."""

    def __post_init__(self) -> None:
        check_forwarding("connection forwarding", self.forwarding)
        for name, known in (("profile", PROFILES), ("congestion", CONGESTION), ("http", HTTP)):
            if (value := getattr(self, name)) not in known:
                raise UsageError(unknown(f"connection {name}", str(value), known))
        if self.tls_round_trips not in (0, 1, 2):
            raise UsageError(f"connection tls_round_trips is {self.tls_round_trips}: 0, 1 or 2")
        if not is_whole_number(self.overhead_bytes, 0):
            raise UsageError(
                f"connection overhead_bytes is {self.overhead_bytes}: not a whole number from 0 on"
            )
        if not is_whole_number(self.initial_window, 1) or self.initial_window > MAX_WINDOW:
            raise UsageError(
                f"connection initial_window is {self.initial_window}: not a whole number of "
                f"segments from 1 to {MAX_WINDOW}"
            )
        if not is_whole_number(self.pool, 1) or self.pool > MOST_CONNECTIONS:
            raise UsageError(
                f"connection pool is {self.pool}: not a whole number of connections from 1 to "
                f"{MOST_CONNECTIONS}"
            )
        if self.early_data and not (self.resumption and self.tls_round_trips == 1):
            raise UsageError(
                "connection early_data needs resumption and tls_round_trips 1: it is TLS 1.3's"
            )

    @property
    def tls_flights(self) -> tuple[int, ...]:
        """Bytes of the flights of a TLS handshake, the opener's first."""
        if not self.tls_round_trips:
            return ()
        flights = TLS_FLIGHTS[self.tls_round_trips, self.resumption]
        return flights[:2] if self.early_data else flights

    @property
    def handshake_round_trips(self) -> int:
        """Round trips before the first byte of data on a cold connection."""
        if self.early_data:
            return 1
        return 1 + len(self.tls_flights) // 2


class Draws(NamedTuple):
    """The random part of one transfer."""

    forward_ms: float
    """One-way latency of the message."""
    backward_ms: float
    """One-way latency of its acknowledgements."""
    key: int = 0
    """Which of its segments get lost follows from it; from 0 to 2^64 - 1."""


@dataclass(frozen=True)
class Transfer:
    """Where the time of one transfer went; the parts add up to ``arrived_ms - given_ms``."""

    given_ms: float
    """The message was handed to the connection."""
    arrived_ms: float
    """Its last byte reached the other end."""
    queueing_ms: float
    """Behind earlier messages: for a connection, at the sender, or to arrive in order."""
    handshake_ms: float
    window_ms: float
    """Waiting for acknowledgements: slow start, or a window that losses have made small."""
    transmission_ms: float
    propagation_ms: float
    recovery_ms: float
    """Waiting for what was lost to be sent again."""


def is_whole_number(value: object, least: int) -> bool:
    """Whether something that claims to be a count is a whole number, and large enough."""
    return isinstance(value, Integral) and int(value) >= least


def check_forwarding(what: str, value: object) -> None:
    """
    Raises:
        UsageError: it is none of ``FORWARDING``.
    """
    if value not in FORWARDING:
        raise UsageError(unknown(what, str(value), FORWARDING))
