"""The record of a run: messages, work and endings. Plain data.

All times are milliseconds of the run's clock, from its start.
"""

from __future__ import annotations

import platform
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cache
from importlib.metadata import version
from typing import Any, ClassVar, Final, Literal

from mpcsim.ids import CLIENT, INSTITUTION, OPERATOR, PartyId
from mpcsim.sim.network.transport import Transfer

FORMAT: Final = "mpcsim-trace"
"""Names traces in files."""


PARTY_OF: Final = {
    "caller": PartyId(5),
    "node": CLIENT,
    "gateway": PartyId(4),
    "operator": OPERATOR,
    "institution": INSTITUTION,
}
"""As which party each place is shown: the node is its caller's."""

Scope = Literal["protocol", "rest"]
"""What a time is the time of: ``protocol``, from the first message of a session to the last result;
or ``rest``, a whole call of the REST API, which opens the vault before it."""


class Verdict(Enum):
    """How a run ended; exactly one of four."""

    VALID = "completed valid"
    INVALID = "completed INVALID"
    ABORTED = "aborted"
    STALLED = "stalled"


@dataclass(frozen=True)
class Hop:
    """One hop of a message's route."""

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

    def with_arrival(self, received_ms: float | None, hops: tuple[Hop, ...]) -> MessageRecord:
        """The record of the same message, arrived (as ``replace`` would make it, only faster)."""
        return MessageRecord(
            self.number,
            self.session,
            self.protocol,
            self.round,
            self.kind,
            self.sender,
            self.receiver,
            self.size,
            self.sent_ms,
            received_ms,
            hops,
            self.work,
            self.fate,
        )


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


@cache
def _versions() -> dict[str, str]:
    return {"python": platform.python_version()} | {
        name: version(name) for name in ("mpcsim", "numpy", "numba")
    }


@dataclass(frozen=True)
class RunRecord:
    """Everything about one run."""

    scope: ClassVar[Scope] = "protocol"
    """A run has no vault to open: its times are not those of a REST call."""
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
    scenario: object = field(default="", repr=False, compare=False)
    """What makes this run again, as its last task: a ``Scenario``, or the text of one; empty if
    nothing does."""
    versions: Mapping[str, str] = field(default_factory=_versions, repr=False, compare=False)
    """Of what it was made with."""
    contents: Mapping[int, Any] = field(default_factory=dict, repr=False, compare=False)
    """What messages say, by number, if that was asked for: SECRETS."""
