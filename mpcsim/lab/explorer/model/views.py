"""What there is to see of a run: plain, nested, frozen; ``model`` makes it.

All times are milliseconds of the run's clock, from its start.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mpcsim.lab.explorer.model.checks import Checked
from mpcsim.lab.explorer.model.fields import Field
from mpcsim.lab.explorer.model.knowledge_trace import LearnedItem, UndisclosedItem
from mpcsim.sim.colours import PartyColour


@dataclass(frozen=True)
class PartyView:
    """One party."""

    id: int
    role: str
    """``client``, ``operator``, ``institution``; empty for others."""
    site: str
    colour: PartyColour
    status: str
    """``done``, ``aborted`` or ``waiting``."""
    ended_ms: float
    text: str
    """Why it aborted, or for whom it waits."""
    cheats: bool
    """Whether a message of its was altered."""


@dataclass(frozen=True)
class MessageView:
    """One message on its way."""

    number: int
    key: str
    """``1>3 Commit``: the same in every run of the session."""
    kind: str
    sender: int
    receiver: int
    round: int
    """0: outside the rounds, a notice of an abort."""
    size: int
    """Bytes, with the envelope."""
    sent_ms: float
    received_ms: float | None
    fate: str
    """``delivered``, ``dropped``, ``duplicate`` or ``lost``."""
    recovery_ms: float
    """Of its way, waiting until what was lost of it had been sent again."""
    altered: bool
    critical: bool
    """Whether it is on the critical path."""
    ignored: str
    """Why its receiver took no notice of it; empty if it did."""
    checks: tuple[Checked, ...]


@dataclass(frozen=True)
class Detail:
    """What is in a message."""

    doc: str
    """What it is for."""
    sealed: bool | None
    """Encrypted and authenticated end to end; None if that was not recorded."""
    broadcast: bool | None
    """The same content to every receiver."""
    payload_bytes: int | None
    fields: tuple[Field, ...]
    problem: str
    """Why its fields cannot be shown."""
    raw: str | None
    """The payload, if it could not be taken apart."""
    operations: tuple[str, ...]
    """What can be done to the message as a whole."""


@dataclass(frozen=True)
class RoundRun:
    """A round that a party ran."""

    number: int
    name: str
    steps: tuple[str, ...]
    """Its numbered steps, as far as it came."""
    start_ms: float
    end_ms: float


@dataclass(frozen=True)
class StepView:
    """One thing that happens: a party starts, or a message reaches it."""

    key: str
    party: int
    message: int | None
    """Number of the message that arrives; None: the party starts."""
    at_ms: float
    until_ms: float
    title: str
    rounds: tuple[RoundRun, ...]
    sent: tuple[int, ...]
    """Numbers of the messages that go out."""
    gained: tuple[LearnedItem, ...]
    ended: str
    """``done`` or ``aborted`` if the party ends here."""
    standing: str
    """How the party stands afterwards."""


@dataclass(frozen=True)
class RoundView:
    """One round over all parties; rounds overlap."""

    number: int
    name: str
    start_ms: float
    end_ms: float


@dataclass(frozen=True)
class SegmentView:
    """A stretch of the critical path."""

    where: str
    party: int | None
    """Whose work or wait it is."""
    what: str
    start_ms: float
    end_ms: float
    parts: Mapping[str, float]
    message: int | None


@dataclass(frozen=True)
class AbortView:
    """Who caught what, where, and by which check."""

    party: int
    """Who aborted."""
    at_ms: float
    where: str
    """``in round 4 (share)``"""
    reason: str
    text: str
    detail: str
    culprits: tuple[int, ...]
    suspects: tuple[int, ...]
    consequence: str
    what_to_do: str
    blame: str
    strength: str
    message: int | None
    """The message in which a check failed."""


@dataclass(frozen=True)
class LinkNumbers:
    """What can be changed of a link; all of it from its first site to its second."""

    one_way_ms: float
    """Mean."""
    mbit_per_s: float | None
    """None: without limit."""
    loss: float
    """Share of the packets that get lost, in the long run."""


@dataclass(frozen=True)
class LinkView:
    """A link, as it is now and as it was at first."""

    a: str
    b: str
    now: LinkNumbers
    at_first: LinkNumbers
    text: str
    """Its latency as a distribution, its losses if they come in bursts, and what differs on the way
    back."""


@dataclass(frozen=True)
class View:
    """One run, ready to be shown."""

    name: str
    protocol: str
    network: str
    clock: str
    compute: str
    seed: int
    """Of what is random in it: latencies and losses (no secrets)."""
    first_seed: int
    """Before anything was changed."""
    verdict: str
    good: bool
    finished_ms: float
    at_first_ms: float
    """Of the run as it was before anything was changed."""
    revealed: bool
    frozen: str
    """Why messages cannot be altered; empty if they can."""
    fixed_times: str
    """Why links and seed cannot be changed; empty if they can."""
    parties: tuple[PartyView, ...]
    rounds: tuple[RoundView, ...]
    messages: tuple[MessageView, ...]
    steps: tuple[StepView, ...]
    critical: tuple[SegmentView, ...]
    critical_parts: Mapping[str, float]
    aborts: tuple[AbortView, ...]
    never: Mapping[str, tuple[UndisclosedItem, ...]]
    """By party, and ``network`` for whoever carries the messages."""
    network_sees: tuple[LearnedItem, ...]
    links: tuple[LinkView, ...]
    edits: tuple[str, ...]
