"""How long a call takes, asked many times: percentiles, and how far they can be trusted.

The intervals are those of ``order_statistics``. Where there are too few times for that, an end is
open: 0 or infinite. All times are milliseconds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from mpcsim.errors import UsageError
from mpcsim.sim.rich_display import Table, counted, document, milliseconds
from mpcsim.sim.statistics.order_statistics import enclosing_ranks
from mpcsim.sim.traces.records import Scope

if TYPE_CHECKING:
    from mpcsim.sim.figures import Chart

PERCENTS = (50.0, 95.0, 99.0)
"""What is shown."""


@dataclass(frozen=True)
class Percentile:
    """An estimate with its confidence interval."""

    percent: float
    ms: float
    low_ms: float
    """0 if there are too few times."""
    high_ms: float
    """Infinite if there are too few times."""
    confidence: float
    """That the interval holds the true percentile; at least."""

    def __str__(self) -> str:
        low, high = milliseconds(self.low_ms), milliseconds(self.high_ms)
        return f"p{self.percent:g} {milliseconds(self.ms)} ms ({low} to {high})"


@dataclass(frozen=True, repr=False, eq=False)
class CallTimes:
    """The times of a call that was made again and again."""

    times_ms: NDArray[np.float64]
    """Of the calls that succeeded, in order."""
    pause_ms: float
    """Idle time before each call; 0: in a row."""
    network: str
    clock: str
    """``virtual`` or ``real``."""
    failed: int = 0
    """Calls that failed; their times are not among the others."""
    failure: str = ""
    """Why the last of them did, e.g. ``HTTP 401``."""
    scope: Scope = "rest"

    def percentile(self, percent: float, confidence: float = 0.95) -> Percentile:
        """A percentile with its interval.

        Intervals of independent times: what a call leaves behind for the next one (wider windows)
        makes them a little too narrow, unless the pauses are long enough to undo it.

        Raises:
            UsageError: not between 0 and 100, or a confidence not between 0 and 1.
        """
        if not 0 < percent < 100:
            raise UsageError(f"percentile {percent}: not between 0 and 100")
        if not 0 < confidence < 1:
            raise UsageError(f"confidence {confidence}: not between 0 and 1")
        ranked = np.sort(self.times_ms)
        low, high = enclosing_ranks(len(ranked), percent / 100, confidence)
        return Percentile(
            percent,
            float(np.percentile(ranked, percent)),
            float(ranked[low - 1]) if low else 0.0,
            float(ranked[high - 1]) if high <= len(ranked) else math.inf,
            confidence,
        )

    @property
    def p50(self) -> Percentile:
        return self.percentile(50)

    @property
    def p95(self) -> Percentile:
        return self.percentile(95)

    @property
    def p99(self) -> Percentile:
        return self.percentile(99)

    @property
    def headline(self) -> str:
        calls = counted(len(self.times_ms), "call")
        how = f"each after {self.pause_ms:,g} ms of silence" if self.pause_ms else "in a row"
        return f"{calls} {how} over {self.network or 'no network'}"

    def notes(self) -> list[str]:
        """What stands between the headline and the table."""
        notes = [
            f"scope {self.scope}, {self.clock} clock; from, to: 95% confidence, by order statistics"
        ]
        if self.failed:
            further = counted(self.failed, "further call")
            share = self.failed / (self.failed + len(self.times_ms))
            notes.append(
                f"{further} failed and left no time ({share:.2%} of all, percentiles are of the "
                f"others); the last: {self.failure}"
            )
        return notes

    def table(self) -> Table:
        """One row for each percentile."""
        columns = ("percentile", "ms", "from ms", "to ms")
        rows = [
            [f"p{at.percent:g}", *map(milliseconds, (at.ms, at.low_ms, at.high_ms))]
            for at in map(self.percentile, PERCENTS)
        ]
        return Table(columns, rows, frozenset(columns[1:]))

    def plot(self) -> Chart:
        """The share of the calls that take longer, as ``Replay.plot`` has it; needs matplotlib.

        >>> figure = service.repeat(sign, 100).plot()

        Raises:
            UsageError: there are no times, or one is 0.
        """
        from mpcsim.sim import figures

        return figures.tail_plot({f"{self.headline}, scope {self.scope}": {"": self.times_ms}})

    def __repr__(self) -> str:
        found = ", ".join(str(self.percentile(percent)) for percent in PERCENTS)
        lost = f", {self.failed} failed" if self.failed else ""
        return (
            f"<CallTimes: {counted(len(self.times_ms), 'call')}, {found}, scope {self.scope}{lost}>"
        )

    def __str__(self) -> str:
        lines = [self.headline, *("  " + note for note in self.notes())]
        return "\n".join([*lines, self.table().text()])

    def _repr_html_(self) -> str:
        return document(self.headline, [self.table()], notes=self.notes())
