"""Repeated measurements of one call: percentiles of its times, with confidence intervals.

Model: independent, identically distributed times of an unknown distribution; the intervals are
distribution-free, by order statistics (``order_statistics``). With too few times for the confidence
asked for, an end of an interval is open: 0 or infinite. All times are milliseconds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from mpcsim.sim.rich_display import (
    PERCENTS,
    Table,
    beside,
    counted,
    document,
    few_notes,
    interval_text,
    milliseconds,
    page,
    percentile_table,
)
from mpcsim.sim.statistics.order_statistics import interval_of
from mpcsim.sim.traces.records import SCOPES, Scope

if TYPE_CHECKING:
    from mpcsim.sim.figures import Chart


@dataclass(frozen=True)
class Percentile:
    """Estimate of a percentile, with its confidence interval."""

    percent: float
    ms: float
    low_ms: float
    """Lower end of the interval; 0 if there are too few times."""
    high_ms: float
    """Upper end of the interval; infinite if there are too few times."""
    confidence: float
    """Probability that the interval contains the true percentile; a lower bound."""

    def __str__(self) -> str:
        interval = interval_text(self.low_ms or -math.inf, self.high_ms)
        return f"p{self.percent:g} {milliseconds(self.ms)} ms ({interval})"


@dataclass(frozen=True, repr=False, eq=False)
class CallTimes:
    """Times of a call that was repeated, and how many of its repetitions failed."""

    times_ms: NDArray[np.float64]
    """Times of the calls that succeeded, in the order of the calls."""
    pause_ms: float
    """Idle time before each call; 0: in a row."""
    network: str
    clock: str
    """``virtual`` or ``real``."""
    failed: int = 0
    """Number of calls that failed; their times are not in ``times_ms``."""
    failure: str = ""
    """Reason of the last failure, e.g. ``HTTP 401``."""
    scope: Scope = "rest"

    def percentile(self, percent: float, confidence: float = 0.95) -> Percentile:
        """Return a percentile with its confidence interval.

        The interval assumes independent times. A call that leaves wider congestion windows behind
        makes the intervals a little too narrow, unless the pauses are long enough to undo that.

        Raises:
            UsageError: not between 0 and 100, or a confidence not between 0 and 1.
        """
        ranked = np.sort(self.times_ms)
        interval = interval_of(ranked, percent, confidence)
        return Percentile(percent, float(np.percentile(ranked, percent)), *interval, confidence)

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
    def _what(self) -> str:
        calls = counted(len(self.times_ms), "call")
        how = f"each after {self.pause_ms:,g} ms of silence" if self.pause_ms else "in a row"
        return f"{calls} {how} over {self.network or 'no network'}"

    @property
    def headline(self) -> str:
        """Number of calls that were made, and their median."""
        if not len(self.times_ms):
            return self._what
        return f"{self._what}: p50 {milliseconds(self.p50.ms)} ms"

    def notes(self) -> list[str]:
        """Return the lines between the headline and the table: scope, clock, failures."""
        notes = [
            f"scope {self.scope}, {self.clock} clock",
            "intervals by order statistics, of independent times",
        ]
        notes += few_notes(self.table())
        if self.failed:
            further = counted(self.failed, "further call")
            share = self.failed / (self.failed + len(self.times_ms))
            notes.append(
                f"{further} failed and left no time ({share:.2%} of all, percentiles are of the "
                f"others); the last: {self.failure}"
            )
        return notes

    def table(self) -> Table:
        """Return a table with a row for each percentile."""
        found = map(self.percentile, PERCENTS)
        rows = [(at.percent, at.ms, at.low_ms, at.high_ms) for at in found]
        return percentile_table(len(self.times_ms), rows)

    def plot(self) -> Chart:
        """Plot the share of the calls that take longer, as ``Replay.plot`` does; needs matplotlib.

        >>> figure = service.repeat(sign, 100).plot()

        Raises:
            UsageError: there are no times, or one is 0.
        """
        from mpcsim.sim import figures

        found = map(self.percentile, PERCENTS)
        intervals = {"": {at.percent: (at.low_ms, at.high_ms) for at in found}}
        title = f"{self._what}, {SCOPES[self.scope]}"
        return figures.tail_plot({title: {"": self.times_ms}}, intervals=intervals)

    def __repr__(self) -> str:
        found = ", ".join(str(self.percentile(percent)) for percent in PERCENTS)
        lost = f", {self.failed} failed" if self.failed else ""
        return (
            f"<CallTimes: {counted(len(self.times_ms), 'call')}, {found}, scope {self.scope}{lost}>"
        )

    def __str__(self) -> str:
        return page(self.headline, [self.table()], notes=self.notes())

    def _repr_html_(self) -> str:
        return beside(document(self.headline, [self.table()], notes=self.notes()), self.plot)
