"""View of a run as plain, nested, frozen data; ``model`` makes it.

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
    """Party."""

    id: int
    role: str
    """Role: ``client``, ``operator``, ``institution``; empty for others."""
    site: str
    colour: PartyColour
    status: str
    """Status: ``done``, ``aborted`` or ``waiting``."""
    ended_ms: float
    text: str
    """Reason of its abort, or what it waits for."""
    cheats: bool
    """Whether a message of its was altered."""


@dataclass(frozen=True)
class MessageView:
    """Message on its way."""

    number: int
    key: str
    """Key, the same in every run of the session: ``1>3 Commit``."""
    kind: str
    sender: int
    receiver: int
    round: int
    """Round; 0: outside the rounds, a notice of an abort."""
    size: int
    """Bytes, with the envelope."""
    sent_ms: float
    received_ms: float | None
    fate: str
    """Fate: ``delivered``, ``dropped``, ``duplicate`` or ``lost``."""
    recovery_ms: float
    """Time on its way until lost segments had been retransmitted."""
    altered: bool
    critical: bool
    """Whether it is on the critical path."""
    ignored: str
    """Reason why its receiver ignored it; empty: it did not."""
    checks: tuple[Checked, ...]


@dataclass(frozen=True)
class Detail:
    """Contents of a message."""

    doc: str
    """Purpose of the message."""
    sealed: bool | None
    """Whether it is encrypted and authenticated end to end; None: that was not recorded."""
    broadcast: bool | None
    """Whether every receiver gets the same content."""
    payload_bytes: int | None
    fields: tuple[Field, ...]
    problem: str
    """Reason why its fields cannot be shown."""
    raw: str | None
    """Payload, if it could not be decoded."""
    operations: tuple[str, ...]
    """Alterations of the message as a whole."""


@dataclass(frozen=True)
class RoundRun:
    """Round that a party ran."""

    number: int
    name: str
    steps: tuple[str, ...]
    """Numbered steps of the round that it ran."""
    start_ms: float
    end_ms: float


@dataclass(frozen=True)
class StepView:
    """Step: a party starts, or a message reaches it."""

    key: str
    party: int
    message: int | None
    """Number of the message that arrives; None: the party starts."""
    at_ms: float
    until_ms: float
    title: str
    rounds: tuple[RoundRun, ...]
    sent: tuple[int, ...]
    """Numbers of the messages that it sends."""
    gained: tuple[LearnedItem, ...]
    ended: str
    """Status ``done`` or ``aborted`` if the party ends here."""
    standing: str
    """Status of the party afterwards."""


@dataclass(frozen=True)
class RoundView:
    """Round over all parties; rounds overlap."""

    number: int
    name: str
    start_ms: float
    end_ms: float


@dataclass(frozen=True)
class SegmentView:
    """Segment of the critical path."""

    where: str
    party: int | None
    """Party that works or waits."""
    what: str
    start_ms: float
    end_ms: float
    parts: Mapping[str, float]
    message: int | None


@dataclass(frozen=True)
class AbortView:
    """Abort of a party: which check failed where, and whom it blames."""

    party: int
    """Party that aborted."""
    at_ms: float
    where: str
    """Place, e.g. ``in round 4 (share)``."""
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
    """Message in which a check failed."""


@dataclass(frozen=True)
class LinkNumbers:
    """Adjustable numbers of a link, from its first site to its second."""

    one_way_ms: float
    """Mean latency."""
    mbit_per_s: float | None
    """Bandwidth; None: no limit."""
    loss: float
    """Share of lost packets, in the long run."""


@dataclass(frozen=True)
class LinkView:
    """Link, as it is now and originally."""

    a: str
    b: str
    now: LinkNumbers
    at_first: LinkNumbers
    text: str
    """Distribution of its latency, bursts of losses, and differences on the way back."""


@dataclass(frozen=True)
class View:
    """View of one run."""

    name: str
    protocol: str
    network: str
    clock: str
    compute: str
    seed: int
    """Seed of latencies and losses (of no secrets)."""
    first_seed: int
    """Seed before any change."""
    verdict: str
    good: bool
    finished_ms: float
    at_first_ms: float
    """Duration of the original run."""
    revealed: bool
    frozen: str
    """Reason why messages cannot be altered; empty if they can."""
    fixed_times: str
    """Reason why links and seed cannot be changed; empty if they can."""
    parties: tuple[PartyView, ...]
    rounds: tuple[RoundView, ...]
    messages: tuple[MessageView, ...]
    steps: tuple[StepView, ...]
    critical: tuple[SegmentView, ...]
    critical_parts: Mapping[str, float]
    aborts: tuple[AbortView, ...]
    never: Mapping[str, tuple[UndisclosedItem, ...]]
    """Forbidden knowledge by party, and of ``network``, which carries the messages."""
    network_sees: tuple[LearnedItem, ...]
    links: tuple[LinkView, ...]
    edits: tuple[str, ...]
