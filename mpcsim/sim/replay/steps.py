"""What a message graph consists of: messages and steps. Plain data."""

from __future__ import annotations

from dataclasses import dataclass

from mpcsim.ids import PartyId


@dataclass(frozen=True)
class Packet:
    """One message of the graph."""

    kind: str
    sender: PartyId
    receiver: PartyId
    size: int
    """Envelope in bytes; the transport adds its overhead."""
    step: int
    """Number of the step that sends it."""


@dataclass(frozen=True)
class Step:
    """One round at one party. It runs when the party's last one is over and its needs are there."""

    party: PartyId
    protocol: str
    round: int
    name: str
    needs: tuple[int, ...]
    """Numbers of the messages it waits for."""
    sends: tuple[int, ...]
    """Numbers of the messages that leave at its end, in order."""
