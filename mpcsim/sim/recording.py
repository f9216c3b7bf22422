"""The trace of a run: what was sent, computed and decided, and when. Plain data.

All times are milliseconds of the run's clock, from its start.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from mpcsim.errors import Aborted
from mpcsim.ids import PartyId
from mpcsim.protocol import Waiting
from mpcsim.sim.transport import Transfer


class Verdict(Enum):
    """How a run ended; exactly one of four."""

    VALID = "completed valid"
    INVALID = "completed INVALID"
    ABORTED = "aborted"
    STALLED = "stalled"


@dataclass(frozen=True)
class Hop:
    """One leg of a message's way."""

    source: str
    target: str
    transfer: Transfer
    service_ms: float = 0.0
    """Spent at the target before the message went on."""


@dataclass(frozen=True)
class MessageRecord:
    """One message."""

    number: int
    session: str
    protocol: str
    round: int
    kind: str
    sender: PartyId
    receiver: PartyId
    size: int
    """Envelope in bytes; the transport adds its overhead."""
    sent_ms: float
    received_ms: float | None
    """None: it never arrived."""
    hops: tuple[Hop, ...]
    work: int | None
    """Number of the work record that produced it."""
    fate: str = "delivered"
    """``delivered``, ``dropped``, ``duplicate`` or ``lost`` (the receiver was down)."""


@dataclass(frozen=True)
class WorkRecord:
    """One uninterrupted piece of computation: a round, or the handling of a message."""

    number: int
    party: PartyId
    site: str
    protocol: str
    round: int
    name: str
    start_ms: float
    end_ms: float
    cause: tuple[str, int] | None
    """What it had to wait for last: ("message", number), ("work", number), or nothing (the
    start)."""


@dataclass(frozen=True)
class Ending:
    """How one party ended."""

    party: PartyId
    status: str
    """``done``, ``aborted`` or ``waiting``."""
    at_ms: float
    text: str = ""


@dataclass(frozen=True)
class Trace:
    """Everything about one run."""

    name: str
    """What was run, e.g. ``sign secp256k1``."""
    network: str
    seed: int
    compute: str
    clock: str
    """``virtual`` or ``real``."""
    verdict: Verdict
    messages: tuple[MessageRecord, ...]
    work: tuple[WorkRecord, ...]
    endings: tuple[Ending, ...]
    finished_ms: float
    """When the last party ended, or when nothing more could happen."""
    reproducible: bool = False
    """The parties' secrets follow from a seed."""
    outcomes: Mapping[PartyId, Any] = field(default_factory=dict, repr=False, compare=False)
    """What each party returned; not part of an exported trace."""

    @property
    def aborted(self) -> Aborted | None:
        """The first abort that named a reason of its own, if the run aborted."""
        found = [o for o in self.outcomes.values() if isinstance(o, Aborted)]
        own = [o for o in found if o.reported_by is None]
        return next(iter(own or found), None)

    @property
    def waiting(self) -> dict[PartyId, Waiting]:
        """For whom the parties that did not finish wait."""
        return {i: o for i, o in self.outcomes.items() if isinstance(o, Waiting)}
