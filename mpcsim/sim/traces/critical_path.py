"""Critical path of a run: the chain of work and messages that determined its duration.

All times are milliseconds of the run's clock, from its start.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import fsum
from typing import TYPE_CHECKING

from mpcsim.ids import PartyId
from mpcsim.sim.rich_display import Table, document, milliseconds, page
from mpcsim.sim.traces.causes import cause_of, last_event, origin_of
from mpcsim.sim.traces.frame import load_pandas
from mpcsim.sim.traces.message_segments import (
    PARTS,
    RESOLUTION_MS,
    Segment,
    message_label,
    message_segments,
)
from mpcsim.sim.traces.records import MessageRecord, RunRecord, WorkRecord

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class CriticalPath:
    """Critical path: the chain of work and messages from a run's start to its end.

    Segments follow each other without a gap from the start to ``total_ms``. Shortening anything
    that is not on the path does not shorten the run.
    """

    name: str
    segments: tuple[Segment, ...]
    total_ms: float

    @property
    def parts(self) -> dict[str, float]:
        """Time by part, in the order of ``PARTS``, zeros included; adds up to ``total_ms``."""
        return {part: fsum(s.parts.get(part, 0.0) for s in self.segments) for part in PARTS}

    @property
    def places(self) -> dict[str, float]:
        """Time by party, link and gateway, in the order of their first appearance."""
        found: dict[str, list[float]] = {}
        for segment in self.segments:
            found.setdefault(segment.where, []).append(segment.duration_ms)
        return {where: fsum(times) for where, times in found.items()}

    @property
    def messages(self) -> tuple[int, ...]:
        """Numbers of the messages on the path, in order."""
        numbers = {s.message: None for s in self.segments if s.message is not None}
        return tuple(numbers)

    @property
    def headline(self) -> str:
        return f"critical path of {self.name or 'run'}: {milliseconds(self.total_ms)} ms"

    def tables(self) -> list[Table]:
        """Return three tables: times by part, times by place, and the segments."""

        def share(ms: float) -> str:
            return f"{ms / self.total_ms:.1%}" if self.total_ms else ""

        parts = Table(
            ("part", "ms", "share", "meaning"),
            [(p, milliseconds(ms), share(ms), PARTS[p]) for p, ms in self.parts.items() if ms],
            frozenset({"ms", "share"}),
        )
        places = Table(
            ("place", "ms", "share"),
            [(where, milliseconds(ms), share(ms)) for where, ms in self.places.items()],
            frozenset({"ms", "share"}),
        )
        segments = Table(
            ("from ms", "to ms", "where", "what", "parts"),
            [
                (
                    milliseconds(s.start_ms),
                    milliseconds(s.end_ms),
                    s.where,
                    s.what,
                    ", ".join(f"{part} {milliseconds(ms)}" for part, ms in s.parts.items()),
                )
                for s in self.segments
            ],
            frozenset({"from ms", "to ms"}),
        )
        return [parts, places, segments]

    def to_frame(self) -> pd.DataFrame:
        """Return a data frame with a row per segment, and a column ``<part>_ms`` for each part.

        Raises:
            UsageError: pandas is not installed.
        """
        rows = [
            {"where": s.where, "what": s.what, "start_ms": s.start_ms, "end_ms": s.end_ms}
            | {f"{part}_ms": s.parts.get(part, 0.0) for part in PARTS}
            for s in self.segments
        ]
        columns = ["where", "what", "start_ms", "end_ms", *(f"{part}_ms" for part in PARTS)]
        return load_pandas().DataFrame(rows, columns=columns)

    def __str__(self) -> str:
        return page(self.headline, self.tables())

    def _repr_html_(self) -> str:
        return document(self.headline, self.tables())


def critical_path(trace: RunRecord) -> CriticalPath:
    """Return the critical path: from the event that ended the run back through its causes.

    A run that was still waiting at its end has the path of its last event, and ``idle`` time from
    there.
    """
    backwards: list[Segment] = []
    now = trace.finished_ms

    def gap(until: float, party: PartyId | None, what: str, part: str) -> None:
        """Add the time between a cause and its effect, if there is any."""
        nonlocal now
        if now > until + RESOLUTION_MS:
            where = "nobody" if party is None else f"party {party}"
            parts = {part: now - until}
            backwards.append(Segment(where, what, until, now, parts, party=party))
        now = min(now, until)

    step: MessageRecord | WorkRecord | None = last_event(trace)
    if step is not None:
        end = step.end_ms if isinstance(step, WorkRecord) else step.received_ms or 0.0
        gap(end, None, "the run waited", "idle")
    while step is not None:
        if isinstance(step, WorkRecord):
            spent = now - step.start_ms
            # Work of no duration is on the path, too: it says what led to what.
            backwards.append(
                Segment(
                    f"party {step.party}",
                    step.name,
                    step.start_ms,
                    now,
                    {"compute": spent} if spent else {},
                    None,
                    step.number,
                    step.party,
                )
            )
            now = step.start_ms
            cause = cause_of(trace, step)
            if cause is None:
                gap(0.0, step.party, step.name, "contention")
            elif isinstance(cause, WorkRecord):
                gap(cause.end_ms, step.party, step.name, "contention")
            else:
                gap(cause.received_ms or 0.0, step.party, step.name, "contention")
            step = cause
        else:
            backwards += reversed(message_segments(trace, step))
            now = step.sent_ms
            by = origin_of(trace, step)
            if isinstance(by, MessageRecord):
                until = by.received_ms or 0.0
            else:
                until = 0.0 if by is None else by.end_ms
            gap(until, step.sender, f"before {message_label(step)}", "idle")
            step = by
    gap(0.0, None, "the run waited", "idle")
    return CriticalPath(trace.name, tuple(reversed(backwards)), trace.finished_ms)
