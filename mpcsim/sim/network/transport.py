"""Transport settings of a network's connections, and the parts of one transfer's time.

Messages are simulated segment by segment (``mpcsim.sim.network.tcp``): handshakes with their bytes,
slow start and congestion avoidance, delayed acknowledgements, loss recovery as in Linux or ns-3,
and connections that keep this state from one message to the next. ``traffic`` carries messages;
this module has its settings.

A site in the middle forwards whole messages, or (``forwarding="stream"``) each segment's bytes as
they arrive in order.

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
"""Modes in which a site in the middle forwards messages."""
PROFILES: Final = ("linux", "ns3")
"""Implementations of TCP: Linux 6, or ns-3 3.37 with its defaults."""
CONGESTION: Final = ("cubic", "reno")
"""Congestion control: CUBIC (RFC 9438), Linux's default, or Reno (RFC 5681). BBR is left out: it
needs pacing and long transfers, and a short message hardly leaves its start-up."""
HTTP: Final = ("1.1", "2")
MOST_CONNECTIONS: Final = 256
MAX_WINDOW: Final = 511
"""Most segments in flight in one direction of a connection: 740 kB."""

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
    """Settings of the connections over a network's links."""

    cold: bool = False
    """Whether every session opens new connections. A session is a run of the engine, or a call of
    the service's REST API."""
    tls_round_trips: int = 1
    """Round trips of the TLS handshake: 1 for TLS 1.3, 2 for TLS 1.2, 0 without TLS."""
    overhead_bytes: int = 300
    """Bytes of HTTP headers and TLS record around each message. The service's own requests have 540
    to 740 (with their grants and tokens), its answers 150 to 260, and 22 of TLS: over LTE up to 0.8
    ms more a signature than with 300, over 3G 3 ms."""
    initial_window: int = 10
    """Initial congestion window in segments: 10 in RFC 6928 and in Linux (``ip route change ...
    initcwnd``)."""
    slow_start_after_idle: bool = True
    """Whether a connection that was idle for longer than its retransmission timeout halves its
    window for each timeout of the pause, down to the initial one (RFC 5681, section 4.1; Linux's
    ``net.ipv4.tcp_slow_start_after_idle``). The profile ``ns3`` never does."""
    forwarding: str = "store"
    """Forwarding at a site in the middle (the gateway): ``store`` messages and forward them once
    they are whole, or ``stream`` bytes as they arrive."""
    profile: str = "linux"
    """Implementation of TCP. ``linux``: RACK-TLP (RFC 8985), the floor of 200 ms under the variance
    part of the timeout, restart after idle, F-RTO, quick acknowledgements at first. ``ns3``:
    duplicate acknowledgements and RFC 6675, the floor under the whole timeout, RFC 6937 with ns-3's
    rules; no probe, no restart. Loss-free both give the same but for ns-3's 2 bytes of framing. The
    second exchange of 10 kB and 50 kB over 50 ms takes 201 ms (``linux``) and 229 ms (``ns3``) on
    average with CUBIC at 1 % loss, 224 and 244 with Reno; at 2 % 279 and 339, 329 and 371."""
    congestion: str = "cubic"
    """Congestion control: ``cubic`` or ``reno``."""
    http: str = "1.1"
    """Version of HTTP. ``1.1``: a pool of connections over each link; ``2``: one connection, with
    head-of-line blocking: a message that waits for a lost segment delays those behind it."""
    pool: int = 8
    """Most connections of a session over one link (HTTP/1.1); a message that finds all of them busy
    waits."""
    resumption: bool = False
    """Whether TLS resumes an earlier session: no certificates in the handshake, and with TLS 1.2
    one round trip instead of two."""
    early_data: bool = False
    """Whether TLS 1.3 sends the first message with the first flight (0-RTT); needs
    ``resumption``."""

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
        for name in ("cold", "resumption", "early_data"):
            if isinstance(value := getattr(self, name), str):
                raise UsageError(f"connection {name} is {value!r}: True or False")
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
    """Random draws of one transfer."""

    forward_ms: float
    """Latency of the message, one way."""
    backward_ms: float
    """Latency of its acknowledgements, one way."""
    key: int = 0
    """Key that determines the lost segments; from 0 to 2^64 - 1."""


@dataclass(frozen=True)
class Transfer:
    """Time of one transfer by part; the parts add up to ``arrived_ms - given_ms``."""

    given_ms: float
    """Time when the message was passed to the connection."""
    arrived_ms: float
    """Time when its last byte reached the other end."""
    queueing_ms: float
    """Waiting behind earlier messages: for a connection, at the sender, or to arrive in order."""
    handshake_ms: float
    window_ms: float
    """Waiting for acknowledgements: slow start, or a window that losses have made small."""
    transmission_ms: float
    propagation_ms: float
    recovery_ms: float
    """Waiting for retransmissions of lost segments."""


def is_whole_number(value: object, least: int) -> bool:
    """Return whether a value is a whole number of at least ``least``."""
    return isinstance(value, Integral) and int(value) >= least


def check_forwarding(what: str, value: object) -> None:
    """Refuse an unknown mode of forwarding.

    Raises:
        UsageError: it is none of ``FORWARDING``.
    """
    if value not in FORWARDING:
        raise UsageError(unknown(what, str(value), FORWARDING))
