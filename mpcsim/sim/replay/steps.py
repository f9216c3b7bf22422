"""Messages and steps: the elements of a message graph."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from mpcsim.ids import PartyId

GATEWAY: Final = PartyId(0)
"""The gateway's number in the graph of a call."""


@dataclass(frozen=True)
class GraphMessage:
    """A message of the graph."""

    kind: str
    sender: PartyId
    receiver: PartyId
    size: int
    """Size in bytes (in a protocol, the envelope's), without the transport's overhead."""
    step: int
    """Number of the step that sends it."""
    exchange: int = -1
    """Number of the request and answer of a call, which have a connection to themselves."""


@dataclass(frozen=True)
class Step:
    """A round of a party; in a call, what one end sends at a time. It runs when its needs have
    arrived and, in a protocol, the party's previous step has ended."""

    party: PartyId
    protocol: str
    round: int
    name: str
    needs: tuple[int, ...]
    """Numbers of the messages that it waits for."""
    sends: tuple[int, ...]
    """Numbers of the messages that are sent at its end, in order."""


Timeouts = tuple[float, float]
"""Time-outs in seconds: of a call's node for the gateway, of the gateway for an MPC node."""
NO_TIMEOUTS: Final[Timeouts] = (math.inf, math.inf)
