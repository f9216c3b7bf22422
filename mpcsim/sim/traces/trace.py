"""The trace of a run: what was sent, computed and decided, and when.

What evaluates a trace knows it by its type alone, so this module may import all of that. Two
imports wait until they are needed: figures, because matplotlib is optional, and ``jsonl``, which
makes traces.

All times are milliseconds of the run's clock, from its start.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from mpcsim.errors import Aborted
from mpcsim.ids import PartyId
from mpcsim.protocol import Waiting
from mpcsim.sim.traces import critical_path, frame, perfetto, summary
from mpcsim.sim.traces.picture import picture
from mpcsim.sim.traces.records import Ending, MessageRecord, Scope, Verdict, WorkRecord

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from mpcsim.sim.traces.critical_path import CriticalPath
    from mpcsim.sim.traces.summary import Summary


@dataclass(frozen=True)
class Trace:
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
        """The figures of the run; prints well."""
        return summary.summary(self)

    def critical_path(self) -> CriticalPath:
        """What the duration was made of: the chain of work and messages that ended the run."""
        return critical_path.critical_path(self)

    def to_frame(self) -> pd.DataFrame:
        """One row per event; columns as in ``mpcsim.sim.traces.frame.FRAME_COLUMNS``.

        Raises:
            UsageError: pandas is not installed.
        """
        return frame.to_frame(self)

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
        from mpcsim.sim.traces import jsonl

        return jsonl.save_jsonl(self, path)

    def save_perfetto(self, path: str | Path) -> Path:
        """Write the trace for ui.perfetto.dev and chrome://tracing; returns the path."""
        return perfetto.save_perfetto(self, path)

    @classmethod
    def load(cls, path: str | Path) -> Trace:
        """Read what ``save_jsonl`` wrote.

        Raises:
            InvalidEncoding: not a trace, of another version, or damaged; says in which line.
        """
        from mpcsim.sim.traces import jsonl

        return jsonl.load(path)

    def __str__(self) -> str:
        return str(self.summary())

    def _repr_html_(self) -> str:
        return self.summary()._repr_html_() + picture(self)
