"""What TCP makes of a message on one hop: handshake, slow start, transmission, loss.

The model has the parts that decide how long a short message takes, with Linux's constants, and
leaves out what only long transfers feel (congestion avoidance, the response of the window to
loss, delayed acknowledgements):

* a cold connection costs one round trip for TCP and ``tls_round_trips`` for TLS before data flows;
* the window starts at ``initial_window`` segments of 1448 bytes and grows by one segment for each
  one acknowledged, so it doubles every round trip; the next window opens when the first
  acknowledgement returns;
* a connection that was idle for longer than the retransmission timeout starts again there, unless
  ``slow_start_after_idle`` is off;
* bytes leave at line rate, one message behind the other, and arrive in order;
* a lost segment with three others behind it is sent again after one round trip (fast
  retransmit), one of the last three after a timeout; timeouts double.

Each hop of each (sender, receiver) flow has a connection of its own, as HTTP clients keep.

A site in the middle forwards whole messages, or (``forwarding="stream"``) what it has of one. A
message then reaches it in bursts, a window's worth each, and each burst goes on when its last byte
is there: successive transfers on the next hop's connection. So slow start on the hops overlaps;
the transmission of one window does not. One message's bursts meet the same latency on a hop; which
of them a lost segment was in is not known, so all of a transfer wait until it is there.

All times are milliseconds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from numbers import Integral
from typing import Final, NamedTuple

from mpcsim.errors import UsageError, unknown

__all__ = ["FORWARDING", "Burst", "Connection", "Draws", "Pipe", "Transfer"]

FORWARDING: Final = ("store", "stream")
"""What a site in the middle may do with messages."""
SEGMENT_BYTES: Final = 1448
"""Payload of a full segment (1500-byte MTU, IPv4, TCP timestamps)."""
SEGMENT_HEADER_BYTES: Final = 52
MAX_WINDOW: Final = 2896
"""Segments; about 4 MB, Linux's default receive buffer."""
MIN_RTO_MS: Final = 200.0
"""Linux's floor under the variance part of the retransmission timeout."""
DUPLICATE_ACKS: Final = 3
MAX_LOSS_LEVEL: Final = 16


@dataclass(frozen=True)
class Connection:
    """How the endpoints of a hop keep their connections."""

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
    """A connection that was idle for longer than its retransmission timeout begins again with the
    initial window (RFC 5681, section 4.1; Linux's ``net.ipv4.tcp_slow_start_after_idle``)."""
    forwarding: str = "store"
    """What a site in the middle (the gateway) does: ``store`` messages and forward them once they
    are whole, or ``stream``: forward what it has of one."""

    def __post_init__(self) -> None:
        check_forwarding("connection forwarding", self.forwarding)
        if self.tls_round_trips not in (0, 1, 2):
            raise UsageError(f"connection tls_round_trips is {self.tls_round_trips}: 0, 1 or 2")
        if not whole(self.overhead_bytes, 0):
            raise UsageError(
                f"connection overhead_bytes is {self.overhead_bytes}: not a whole number from 0 on"
            )
        if not whole(self.initial_window, 1) or self.initial_window > MAX_WINDOW:
            raise UsageError(
                f"connection initial_window is {self.initial_window}: not a whole number of "
                f"segments from 1 to {MAX_WINDOW}"
            )

    @property
    def handshake_round_trips(self) -> int:
        """Round trips before the first byte of data on a cold connection."""
        return 1 + self.tls_round_trips

    def pipe(self, mbit_per_s: float, loss: float) -> Pipe:
        """One direction of a new connection over a link of that rate and loss."""
        return Pipe(
            mbit_per_s,
            loss,
            self.handshake_round_trips if self.cold else 0,
            self.initial_window,
            self.slow_start_after_idle,
        )


class Draws(NamedTuple):
    """The random part of one transfer."""

    forward_ms: float
    """One-way latency of the message."""
    backward_ms: float
    """One-way latency of its acknowledgements."""
    loss: float = 0.0
    """Uniform in [0, 1): where on the loss distribution this transfer falls; 0: nothing lost."""


class Burst(NamedTuple):
    """The part of a message that is at the other end of a hop at the same time."""

    at_ms: float
    """Its last byte is there."""
    size: int


@dataclass(frozen=True)
class Transfer:
    """Where the time of one transfer went; the parts add up to ``arrived_ms - given_ms``."""

    given_ms: float
    """The message was handed to the connection."""
    arrived_ms: float
    """Its last byte reached the other end."""
    queueing_ms: float
    """Behind earlier messages: at the sender, or to arrive in order."""
    handshake_ms: float
    window_ms: float
    """Waiting for acknowledgements (slow start)."""
    transmission_ms: float
    propagation_ms: float
    recovery_ms: float
    """Waiting for what was lost to be sent again."""


def whole(value: object, least: int) -> bool:
    """Whether something that claims to be a count is a whole number, and large enough."""
    return isinstance(value, Integral) and int(value) >= least


def check_forwarding(what: str, value: object) -> None:
    """
    Raises:
        UsageError: it is none of ``FORWARDING``.
    """
    if value not in FORWARDING:
        raise UsageError(unknown(what, str(value), FORWARDING))


def segments(size: int) -> int:
    """Segments of a message of ``size`` bytes."""
    return max(1, -(-size // SEGMENT_BYTES))


def wire_ms(payload: int, count: int, mbit_per_s: float) -> float:
    """Time to put ``count`` segments with ``payload`` bytes in all on the wire."""
    return (payload + count * SEGMENT_HEADER_BYTES) * 8 / (mbit_per_s * 1000)


def rto_ms(rtt_ms: float) -> float:
    """Retransmission timeout of a steady connection."""
    return rtt_ms + MIN_RTO_MS


def loss_distribution(count: int, loss: float) -> tuple[float, ...]:
    """Cumulative probability of each recovery level for a message of ``count`` segments.

    Level 0: nothing lost. Level 2k - 1: the slowest segment needed a fast retransmit and k - 1
    timeouts; level 2k: k timeouts. Levels are in order of the time they cost. Segments are lost
    independently, and so is every attempt to send them again.
    """
    tail = min(count, DUPLICATE_ACKS)
    front = count - tail
    cumulative = []
    for level in range(MAX_LOSS_LEVEL):
        fronts = (1 - loss ** ((level + 1) // 2 + 1)) ** front
        tails = (1 - loss ** (level // 2 + 1)) ** tail
        cumulative.append(fronts * tails)
    cumulative[-1] = 1.0
    return tuple(cumulative)


def recovery_ms(level: int, rtt_ms: float) -> float:
    """Time that a recovery level adds."""
    timeouts = (2.0 ** (level // 2) - 1) * rto_ms(rtt_ms)
    return timeouts + rtt_ms if level % 2 else timeouts


@dataclass
class Pipe:
    """One direction of one connection: state that a transfer changes."""

    mbit_per_s: float
    loss: float = 0.0
    handshake_round_trips: int = 0
    """Still to be paid; 0 on a warm connection."""
    initial_window: int = Connection.initial_window
    """Segments."""
    slow_start_after_idle: bool = Connection.slow_start_after_idle
    window: int = field(init=False)
    """Segments."""
    used: int = 0
    """Segments of the present window that are out."""
    opened_ms: float = -math.inf
    """When the present window opened."""
    free_ms: float = -math.inf
    """When the last byte so far has left."""
    arrived_ms: float = -math.inf
    """When the last message so far arrived."""
    _distributions: dict[int, tuple[float, ...]] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        self.window = self.initial_window

    def transfer(
        self, given_ms: float, size: int, draws: Draws, bursts: list[Burst] | None = None
    ) -> Transfer:
        """Send ``size`` bytes handed over at ``given_ms``; calls must be in order of time.

        Args:
            bursts: gets the parts in which they reach the other end.
        """
        rtt = draws.forward_ms + draws.backward_ms
        first_segment = wire_ms(min(size, SEGMENT_BYTES), 1, self.mbit_per_s)
        now = max(given_ms, self.free_ms)
        queueing = now - given_ms
        handshake = 0.0
        if self.handshake_round_trips:
            handshake = self.handshake_round_trips * rtt
            now += handshake
            self.handshake_round_trips = 0
        if self.slow_start_after_idle and now - self.free_ms > rto_ms(rtt):
            self.window, self.used, self.opened_ms = self.initial_window, 0, now
        elif now >= self.opened_ms + first_segment + rtt:
            self.window, self.used, self.opened_ms = self._grown(), 0, now

        count = left = segments(size)
        bytes_left = size
        windows: list[tuple[float, int]] = []
        waited = transmitted = 0.0
        while True:
            sending = min(self.window - self.used, left)
            payload = min(bytes_left, sending * SEGMENT_BYTES)
            span = wire_ms(payload, sending, self.mbit_per_s) if sending else 0.0
            now += span
            transmitted += span
            self.used += sending
            left -= sending
            bytes_left -= payload
            if sending:
                windows.append((now, payload))
            if not left:
                break
            opened = max(now, self.opened_ms + first_segment + rtt)
            waited += opened - now
            self.window, self.used, self.opened_ms = self._grown(), 0, opened
            now = opened
        self.free_ms = now

        recovery = recovery_ms(self._loss_level(count, draws.loss), rtt) if self.loss else 0.0
        arrived = now + draws.forward_ms + recovery
        in_order = max(arrived, self.arrived_ms)
        if bursts is not None:
            for left_ms, payload in windows:
                there = left_ms + draws.forward_ms + recovery
                bursts.append(Burst(max(there, self.arrived_ms), payload))
        self.arrived_ms = in_order
        return Transfer(
            given_ms,
            in_order,
            queueing + (in_order - arrived),
            handshake,
            waited,
            transmitted,
            draws.forward_ms,
            recovery,
        )

    def _grown(self) -> int:
        return min(self.window + self.used, MAX_WINDOW)

    def _loss_level(self, count: int, uniform: float) -> int:
        distribution = self._distributions.get(count)
        if distribution is None:
            distribution = self._distributions[count] = loss_distribution(count, self.loss)
        return next(level for level, p in enumerate(distribution) if uniform < p)
