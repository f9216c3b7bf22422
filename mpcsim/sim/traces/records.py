"""Records of a run as plain data: messages, work and endings.

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
"""Name of the format in trace files."""


PARTY_OF: Final = {
    "caller": PartyId(5),
    "node": CLIENT,
    "gateway": PartyId(4),
    "operator": OPERATOR,
    "institution": INSTITUTION,
}
"""Party numbers under which the service's places are shown in figures."""

Scope = Literal["protocol", "rest"]
"""Scope of a time: ``protocol``, from the first message of a session to the last result; or
``rest``, a whole call of the REST API, which opens the vault first."""
SCOPES: Final[Mapping[Scope, str]] = {"protocol": "protocol alone", "rest": "whole REST call"}
"""Scopes in the titles of figures."""


class Verdict(Enum):
    """Verdict on a run: how it ended."""

    VALID = "completed valid"
    INVALID = "completed INVALID"
    ABORTED = "aborted"
    STALLED = "stalled"


@dataclass(frozen=True)
class Hop:
    """Hop of a message's route, with its transfer."""

    source: str
    target: str
    transfer: Transfer
    service_ms: float = 0.0
    """Service time at the target before the message went on."""


@dataclass(frozen=True)
class MessageRecord:
    """Record of one message: kind, ends, size, times, hops and fate."""

    number: int
    session: str
    protocol: str
    round: int
    kind: str
    sender: PartyId
    receiver: PartyId
    size: int
    """Size of the envelope in bytes; the transport adds its overhead."""
    sent_ms: float
    received_ms: float | None
    """Time of receipt; None: the message never arrived."""
    hops: tuple[Hop, ...]
    work: int | None
    """Number of the work record that produced it."""
    fate: str = "delivered"
    """``delivered``, ``dropped``, ``duplicate`` or ``lost`` (the receiver was down)."""

    def with_arrival(self, received_ms: float | None, hops: tuple[Hop, ...]) -> MessageRecord:
        """Return the record with times of arrival (as ``replace`` does, only faster)."""
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
    """Record of an uninterrupted computation: a round, or the handling of a message."""

    number: int
    party: PartyId
    site: str
    protocol: str
    round: int
    name: str
    start_ms: float
    end_ms: float
    cause: tuple[str, int] | None
    """Event that it waited for last: ("message", number), ("work", number), or None (the start)."""


@dataclass(frozen=True)
class Ending:
    """Record of how one party ended."""

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
    """Record of one run."""

    scope: ClassVar[Scope] = "protocol"
    """Scope of the times: a run opens no vault, so they are not those of a REST call."""
    name: str
    """Name of the operation, e.g. ``sign secp256k1``."""
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
    """Time when the last party ended, or when no event was left."""
    reproducible: bool = False
    """Whether the parties' secrets follow from a seed."""
    outcomes: Mapping[PartyId, Any] = field(default_factory=dict, repr=False, compare=False)
    """Outcome of each party; files have those of failed parties, and no results."""
    scenario: object = field(default="", repr=False, compare=False)
    """Scenario that runs this session again as its last task, or its text; empty if there is
    none."""
    versions: Mapping[str, str] = field(default_factory=_versions, repr=False, compare=False)
    """Versions of Python, this package, NumPy and Numba at the time of the run."""
    contents: Mapping[int, Any] = field(default_factory=dict, repr=False, compare=False)
    """Contents of messages by number, if they were kept: SECRETS."""
