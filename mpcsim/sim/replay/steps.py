"""What a message graph consists of: messages and steps. Plain data."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from mpcsim.ids import PartyId

GATEWAY: Final = PartyId(0)
"""In a call, the end that holds no share."""


@dataclass(frozen=True)
class GraphMessage:
    """One message of the graph."""

    kind: str
    sender: PartyId
    receiver: PartyId
    size: int
    """Bytes (in a protocol, the envelope's); the transport adds its overhead."""
    step: int
    """Number of the step that sends it."""
    exchange: int = -1
    """Of a call: the request that it is, or answers. It has a connection to itself."""


@dataclass(frozen=True)
class Step:
    """One round at one party; of a call, what one end sends at a time. It runs when its needs are
    there, and, in a protocol, the party's last one is over."""

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
