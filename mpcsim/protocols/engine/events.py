"""Events of a running party, and the interface of those who listen to them.

The core has no clock: a listener that wants
times takes them when it is called.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from mpcsim.errors import Aborted
from mpcsim.ids import PartyId


@dataclass(frozen=True)
class PartyStarted:
    """A party starts; ``reproducible`` if its randomness follows from a seed someone knows."""

    party: int
    protocol: str
    reproducible: bool


@dataclass(frozen=True)
class StepStarted:
    """A party begins a numbered step of its protocol."""

    party: int
    protocol: str
    round: int
    step: str


@dataclass(frozen=True)
class StepFinished:
    """The step that ``StepStarted`` announced is over."""

    party: int
    protocol: str
    round: int
    step: str


@dataclass(frozen=True)
class MessageSent:
    """A message left a party; ``size`` is its whole envelope in bytes."""

    sender: int
    receiver: int
    protocol: str
    round: int
    kind: str
    size: int


@dataclass(frozen=True)
class MessageReceived:
    """A message was accepted; ``early`` if its round has not begun."""

    sender: int
    receiver: int
    protocol: str
    round: int
    kind: str
    size: int
    early: bool


class Ignored(Enum):
    """Reason to drop a message without blame, in words."""

    OVER = "the run is over"
    NO_ENVELOPE = "not an envelope"
    TOO_LARGE = "larger than this protocol's messages are"
    ANOTHER_SENDER = "claims to be from another party"
    ANOTHER_SESSION = "another session"
    NOT_PARTICIPANTS = "not between participants of this session"
    UNKNOWN_KIND = "unknown kind"
    SEALING = "sealed, or not sealed, unlike others of its kind"
    WRONG_WAY = "its kind does not go from this party to that"
    DOES_NOT_OPEN = "does not open"
    DUPLICATE = "duplicate"
    LATE_VARIANT = "late, and not what it was"
    TOO_MANY = "too many that cannot be judged yet"


@dataclass(frozen=True)
class MessageIgnored:
    """A message was dropped without blame: late, duplicate, of another session, or forged."""

    claimed_sender: int
    receiver: int
    protocol: str
    kind: str
    """Kind that it claims to be of; empty if there is no such kind."""
    why: Ignored
    size: int


@dataclass(frozen=True)
class PartyDone:
    """A party finished; the result itself is not in the event, it may be secret."""

    party: int
    protocol: str


@dataclass(frozen=True)
class PartyAborted:
    """A party gave up."""

    party: int
    protocol: str
    aborted: Aborted


PartyEvent = (
    PartyStarted
    | StepStarted
    | StepFinished
    | MessageSent
    | MessageReceived
    | MessageIgnored
    | PartyDone
    | PartyAborted
)


class Listener(Protocol):
    """Receives every event of a party, in order."""

    def __call__(self, event: PartyEvent) -> None: ...


def silent(event: PartyEvent) -> None:
    """Discard an event: the default listener."""


_NO_REPORT = nullcontext()
"""Context of a step that nobody listens to."""


def step(
    listener: Listener, party: PartyId, protocol: str, number: int, name: str
) -> AbstractContextManager[None]:
    """Return a context manager that reports begin and end of a round's step to a listener."""
    if listener is silent:
        return _NO_REPORT
    return _report_step(listener, (party, protocol, number, name))


@contextmanager
def _report_step(listener: Listener, of: tuple[PartyId, str, int, str]) -> Iterator[None]:
    listener(StepStarted(*of))
    try:
        yield
    finally:
        listener(StepFinished(*of))
