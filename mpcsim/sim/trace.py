"""Trace of a run: the record, with its analysis, figures and files as methods.

Figures are imported on use: matplotlib is optional.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from mpcsim.errors import Aborted
from mpcsim.ids import PartyId
from mpcsim.protocols.engine import Waiting
from mpcsim.sim.traces import critical_path, frame, jsonl, mermaid, perfetto, summary, views
from mpcsim.sim.traces.critical_path import CriticalPath
from mpcsim.sim.traces.records import RunRecord
from mpcsim.sim.traces.summary import Summary

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

MAX_DIAGRAM_MESSAGES = 80
"""Most messages of a trace that a notebook shows with its diagram."""


class Trace(RunRecord):
    """Record of one run, with analysis, figures and files as methods."""

    @property
    def aborted(self) -> Aborted | None:
        """Abort of the party that found the reason itself; None if no party aborted."""
        found = [o for o in self.outcomes.values() if isinstance(o, Aborted)]
        own = [o for o in found if o.reported_by is None]
        return next(iter(own or found), None)

    @property
    def waiting(self) -> dict[PartyId, Waiting]:
        """Unfinished parties, each with the parties that it waits for."""
        return {i: o for i, o in self.outcomes.items() if isinstance(o, Waiting)}

    # ------------------------------------------------------------------ analysis

    def summary(self) -> Summary:
        """Return the run's key figures, by party, by round and in total; prints as tables."""
        return summary.summary(self)

    def critical_path(self) -> CriticalPath:
        """Return the critical path: the chain of work and messages that ended the run."""
        return critical_path.critical_path(self)

    def to_frame(self) -> pd.DataFrame:
        """Return a data frame of one row per event; columns as in ``traces.frame.FRAME_COLUMNS``.

        Raises:
            UsageError: pandas is not installed.
        """
        return frame.to_frame(self)

    def diff(self, other: RunRecord) -> tuple[str, ...]:
        """Return the differences to another trace, a line each; none if the two are equal."""
        return tuple(views.differences(self, other))

    def of(self, party: int) -> Trace:
        """Return the trace with one party's work and messages only, numbered anew.

        All endings remain, and of the outcomes the party's own.

        Raises:
            UsageError: the party takes no part.
        """
        return views.view_of(self, party)

    # ------------------------------------------------------------------ figures

    def sequence_diagram(self, *, gateway: bool = False) -> Figure:
        """Draw the run's messages between lifelines, on a time axis; needs matplotlib.

        Args:
            gateway: also show the sites that forward messages.
        """
        from mpcsim.sim import figures

        return figures.sequence_diagram(self, gateway=gateway)

    def gantt(self) -> Figure:
        """Draw each party's computing and waiting, and each message's hops; needs matplotlib."""
        from mpcsim.sim import figures

        return figures.gantt(self)

    def mermaid(self) -> str:
        """Return a sequence diagram as Mermaid text, for a bug report or a README."""
        return mermaid.mermaid(self)

    # ------------------------------------------------------------------ files

    def to_json(self, *, contents: bool = False) -> str:
        """Return the trace, without the results, as one JSON object.

        Args:
            contents: what the messages say, field by field, too: SECRETS, and marked as such.

        Raises:
            UsageError: contents are asked for, and none were kept
                (``Simulation(..., contents=True)``).
        """
        return jsonl.to_json(self, contents=contents)

    def save_jsonl(self, path: str | Path, *, contents: bool = False) -> Path:
        """Write the trace as JSON Lines, for ``load``; otherwise as ``to_json``."""
        return jsonl.save_jsonl(self, path, contents=contents)

    def save_perfetto(self, path: str | Path) -> Path:
        """Write the trace for ui.perfetto.dev and chrome://tracing; returns the path."""
        return perfetto.save_perfetto(self, path)

    @classmethod
    def load(cls, path: str | Path) -> Trace:
        """Read a trace that ``save_jsonl`` wrote.

        Raises:
            InvalidEncoding: not a trace, of another version, or damaged; says in which line.
        """
        return cls(**vars(jsonl.load(path)))

    def __str__(self) -> str:
        return str(self.summary())

    def _repr_html_(self) -> str:
        return self.summary()._repr_html_() + diagram_html(self)


def diagram_html(trace: RunRecord) -> str:
    """Return the sequence diagram as an HTML image; a sentence where there is none."""
    if len(trace.messages) > MAX_DIAGRAM_MESSAGES:
        return f"<div>{len(trace.messages)} messages: too many for a diagram here</div>"
    try:
        from mpcsim.sim import figures
    except ImportError:
        return "<div>no diagram: matplotlib is not installed</div>"
    return figures.html(figures.sequence_diagram(trace), f"sequence diagram of {trace.name}")
