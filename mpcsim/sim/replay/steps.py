"""Messages and steps of a message graph, as plain data."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from mpcsim.ids import PartyId

GATEWAY: Final = PartyId(0)
"""Identifier of the end of a call that holds no share."""


@dataclass(frozen=True)
class GraphMessage:
    """Message of the graph."""

    kind: str
    sender: PartyId
    receiver: PartyId
    size: int
    """Bytes (in a protocol, the envelope's); the transport adds its overhead."""
    step: int
    """Number of the step that sends it."""
    exchange: int = -1
    """Number of the request of a call that the message is, or answers; -1 in a protocol. A request
    has a connection to itself."""


@dataclass(frozen=True)
class Step:
    """Round at one party; in a call, the messages that one end sends at a time. A step runs when
    its needs have arrived and, in a protocol, the party's step before is over."""

    party: PartyId
    protocol: str
    round: int
    name: str
    needs: tuple[int, ...]
    """Numbers of the messages it waits for."""
    sends: tuple[int, ...]
    """Numbers of the messages that leave at its end, in order."""


Timeouts = tuple[float, float]
"""Seconds: how long a call's node waits for the gateway, and the gateway for an MPC node."""
NO_TIMEOUTS: Final[Timeouts] = (math.inf, math.inf)
