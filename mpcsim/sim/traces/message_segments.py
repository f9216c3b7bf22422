"""Segments of a message's transit: hops and services, each with its time by part.

All results are computed from the trace alone, so a loaded trace gives the same as the original.
Times are milliseconds of the run's clock, from its start."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from mpcsim.ids import PartyId
from mpcsim.sim.traces.records import Hop, MessageRecord, RunRecord

RESOLUTION_MS: Final = 1e-9
"""Difference below which times are equal: rounding errors are not waits."""

PARTS: Final[Mapping[str, str]] = {
    "compute": "a party worked",
    "propagation": "on the way",
    "transmission": "bytes going onto the wire",
    "window": "waiting for acknowledgements (slow start)",
    "handshake": "opening the connection (TCP, TLS)",
    "queueing": "behind earlier messages, or to arrive in order",
    "recovery": "lost segments being sent again",
    "service": "a gateway forwarding the message",
    "contention": "ready to work, but the processor was busy elsewhere",
    "fault": "delay that a fault added",
    "flight": "real clock only: what the machinery took, or a fault added",
    "idle": "nothing happened: a party was down, or it waited for an answer or the deadline",
}
"""Parts of time, with their meanings; the first eight are those of network and machines."""


def extra_ms(message: MessageRecord) -> float:
    """Return the delay that a fault added to a message after its last hop."""
    if message.received_ms is None or not message.hops:
        return 0.0
    return max(0.0, message.received_ms - message.hops[-1].transfer.arrived_ms)


def has_arrived(trace: RunRecord, message: MessageRecord) -> bool:
    """Return whether a message reached its receiver before the run was over."""
    return message.received_ms is not None and message.received_ms <= (
        trace.finished_ms + RESOLUTION_MS
    )


def hop_parts(hop: Hop) -> dict[str, float]:
    """Return the time of one hop by part, in order of time; without the service at its end."""
    transfer = hop.transfer
    return {
        "queueing": transfer.queueing_ms,
        "handshake": transfer.handshake_ms,
        "transmission": transfer.transmission_ms,
        "window": transfer.window_ms,
        "propagation": transfer.propagation_ms,
        "recovery": transfer.recovery_ms,
    }


@dataclass(frozen=True)
class Segment:
    """Interval of time that a party or a message spends at one place."""

    where: str
    """``party 1``, ``client → gateway`` or, for the service there, ``gateway``."""
    what: str
    """Name of the round or message."""
    start_ms: float
    end_ms: float
    parts: Mapping[str, float]
    """Time by part (``PARTS``); adds up to ``end_ms - start_ms``."""
    message: int | None = None
    work: int | None = None
    party: PartyId | None = None
    """Party that works or waits; None: a message was under way, or nothing happened."""

    @property
    def duration_ms(self) -> float:
        return self.end_ms - self.start_ms


def message_label(message: MessageRecord) -> str:
    """Return a message's label: ``Commit 1 → 3``."""
    return f"{message.kind} {message.sender} → {message.receiver}"


def message_segments(trace: RunRecord, message: MessageRecord) -> list[Segment]:
    """Return the segments of a message's transit, from sending to receipt or loss."""
    what, found, now = message_label(message), list[Segment](), message.sent_ms

    def add(where: str, until: float, parts: Mapping[str, float]) -> None:
        nonlocal now
        if until > now or parts:
            nonzero = {part: ms for part, ms in parts.items() if ms}
            found.append(Segment(where, what, now, until, nonzero, message.number))
            now = until

    here = f"party {message.sender}"
    for hop in message.hops:
        if hop.transfer.given_ms > now + RESOLUTION_MS:
            add(here, hop.transfer.given_ms, {"flight": hop.transfer.given_ms - now})
        add(f"{hop.source} → {hop.target}", hop.transfer.arrived_ms, hop_parts(hop))
        if hop.service_ms:
            add(hop.target, now + hop.service_ms, {"service": hop.service_ms})
        here = hop.target
    end = message.received_ms
    if end is not None and end > now + RESOLUTION_MS:
        part = "flight" if trace.clock != "virtual" else "fault"
        between = f"party {message.sender} → party {message.receiver}"
        add(here if message.hops else between, end, {part: end - now})
    return found
