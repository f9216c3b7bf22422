"""The trace of a run: what was sent, computed and decided, and when. Plain data.

All times are milliseconds of the run's clock, from its start.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mpcsim.errors import Aborted
from mpcsim.ids import PartyId
from mpcsim.protocol import Waiting
from mpcsim.sim.transport import Transfer

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from mpcsim.sim.analysis import CriticalPath, Summary


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

    def landed(self, received_ms: float, hops: tuple[Hop, ...]) -> MessageRecord:
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

    # ------------------------------------------------------------------ analysis

    def summary(self) -> Summary:
        """The figures of the run (``mpcsim.sim.analysis``); prints well."""
        from mpcsim.sim import analysis

        return analysis.summary(self)

    def critical_path(self) -> CriticalPath:
        """What the duration was made of: the chain of work and messages that ended the run."""
        from mpcsim.sim import analysis

        return analysis.critical_path(self)

    def to_frame(self) -> pd.DataFrame:
        """One row per event; columns as in ``mpcsim.sim.analysis.FRAME_COLUMNS``.

        Raises:
            UsageError: pandas is not installed.
        """
        from mpcsim.sim import analysis

        return analysis.to_frame(self)

    # ------------------------------------------------------------------ figures

    def sequence_diagram(self, *, gateway: bool = False) -> Figure:
        """Who sent what to whom, on a time axis; needs matplotlib.

        Args:
            gateway: also show the sites that forward messages.
        """
        from mpcsim.sim import figures

        return figures.sequence_diagram(self, gateway=gateway)

    def gantt(self) -> Figure:
        """Computing and waiting by party, and every message's way; needs matplotlib."""
        from mpcsim.sim import figures

        return figures.gantt(self)

    # ------------------------------------------------------------------ files

    def save_jsonl(self, path: str | Path) -> Path:
        """Write the trace, without the outcomes, as JSON Lines; returns the path."""
        from mpcsim.sim import export

        return export.save_jsonl(self, path)

    def save_perfetto(self, path: str | Path) -> Path:
        """Write the trace for ui.perfetto.dev and chrome://tracing; returns the path."""
        from mpcsim.sim import export

        return export.save_perfetto(self, path)

    @classmethod
    def load(cls, path: str | Path) -> Trace:
        """Read what ``save_jsonl`` wrote.

        Raises:
            InvalidEncoding: not a trace, of another version, or damaged; says in which line.
        """
        from mpcsim.sim import export

        return export.load(path)

    def __str__(self) -> str:
        return str(self.summary())

    def _repr_html_(self) -> str:
        from mpcsim.sim import rich_display

        return rich_display.trace_html(self)
