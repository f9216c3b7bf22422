"""What was measured in a run."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from mpcsim.capacity.demand import Demand
from mpcsim.capacity.model.arrivals import Times, Users
from mpcsim.capacity.model.costs import Costs
from mpcsim.capacity.model.parts import Model
from mpcsim.capacity.model.workload import Workload
from mpcsim.capacity.results.collecting import (
    OUTCOMES,
    Collector,
    Floats,
    Gauges,
)
from mpcsim.capacity.results.intervals import (
    Comparison,
    Interval,
    compare_share,
    forgets_s,
    interval,
)
from mpcsim.capacity.results.parts import PARTS
from mpcsim.capacity.simulation.driving import Kept
from mpcsim.capacity.simulation.layout import Layout
from mpcsim.errors import UsageError, unknown
from mpcsim.sim.statistics.quantile_sketch import ERROR, QuantileSketch
from mpcsim.sim.traces.frame import load_pandas

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Percentile:
    """Percentile, with the interval in which it is with a confidence of 95 %. Milliseconds."""

    ms: float
    low_ms: float
    high_ms: float
    """Infinite: there is no interval."""
    why_none: str = ""
    """Why there is no interval."""
    needs_s: float = math.nan
    """Length of a run that would have an interval, if that can be told."""
    gave_up: float = 0.0
    """Share of the calls that ended without success: the percentile is of the others."""
    timed_out: float = 0.0
    """Share of the calls whose callers ran out of time; they are part of ``gave_up``."""
    at_least: bool = False
    """Whether calls that are still under way at the end decide: their times are longer."""
    under_way: int = 0
    """Calls that are still under way at the end; they count with their times so far."""
    between_s: tuple[float, float] = (0.0, math.inf)
    """Part of the run in which the calls came: whole windows."""
    asked_s: tuple[float, float] | None = None
    """Part of the run that was asked about, where it is another one."""

    def __str__(self) -> str:
        return self.text + self.of_which

    @property
    def text(self) -> str:
        """The time and its interval."""
        text = f"at least {self.ms:,.1f} ms" if self.at_least else f"{self.ms:,.1f} ms"
        if self.why_none:
            text += f" (no interval: {self.why_none}"
            if not math.isnan(self.needs_s):
                text += f"; {_rounded(self.needs_s)} would do"
            text += ")"
        else:
            text += f" ({self.low_ms:,.1f} to {self.high_ms:,.1f})"
        return text

    @property
    def of_which(self) -> str:
        """The calls that the percentile is of, if these are not all that were asked about."""
        text = ""
        if self.gave_up > 0:
            text += f" of those that succeeded: {self.gave_up:.1%} did not"
            if self.timed_out > 0:
                text += f", {self.timed_out:.1%} timed out"
        if self.asked_s:
            first, last = self.between_s
            text += f", of calls that came from {first:g} s to {last:g} s"
        return text


def _rounded(seconds: float) -> str:
    """Return a length that is at least so long, in words."""
    if seconds <= 90:
        return f"{math.ceil(seconds)} s"
    minutes = math.ceil(seconds / 60)
    return f"{minutes} minutes" if minutes <= 90 else f"{math.ceil(minutes / 60):,} hours"


def _longest(over: QuantileSketch, under_way: int, share: float) -> float:
    """Return the percentile if the calls that are under way took for ever."""
    rank = share * (over.count + under_way - 1)
    if not rank <= over.count - 1:
        return math.inf
    return over.quantile(rank / (over.count - 1)) if over.count > 1 else over.greatest


@dataclass(frozen=True)
class Little:
    """Little's law: calls under way on average are calls a second, times what they take.

    They are apart where attempts fail, or where more come than are answered.
    """

    under_way: float
    per_s_times_s: float

    @property
    def off_by(self) -> float:
        """Relative."""
        return abs(self.under_way / self.per_s_times_s - 1) if self.per_s_times_s else 0.0


@dataclass(frozen=True)
class RunRecord:
    """A workload on a deployment, for a while: what was measured. ``Run`` says what it means.

    Times are seconds since the beginning; ``between_s`` is the part that is asked about, by default
    all but the first tenth, in which the service gets going. A run is kept in windows: answers are
    about those that lie in this part (``bounds_s``). Percentiles are of the calls that came then,
    rates of answers and outcomes of attempts are about what ended then.
    """

    deployment: Model
    workload: Workload
    seed: int
    collector: Collector = field(repr=False)
    layout: Layout = field(repr=False)
    demand: Demand = field(repr=False)
    costs: Costs = field(repr=False)
    kept: Kept = field(repr=False)
    """The slowest calls."""

    # ------------------------------------------------------------------ what was asked about

    @property
    def operations(self) -> tuple[str, ...]:
        """Their names."""
        return self.collector.operations

    @cached_property
    def edges_s(self) -> Floats:
        """Where windows begin, and where the last one ends."""
        return self.collector.edges_ms / 1000

    @property
    def length_s(self) -> float:
        """Of the run."""
        return float(self.edges_s[-1])

    def windows(self, between_s: tuple[float, float] | None = None) -> range:
        """Those that lie in a part of the run.

        Raises:
            UsageError: none does.
        """
        first, last = between_s or (self.length_s / 10, self.length_s)
        inside = [
            k
            for k in range(len(self.edges_s) - 1)
            if self.edges_s[k] >= first - 1e-9 and self.edges_s[k + 1] <= last + 1e-9
        ]
        if not inside:
            raise UsageError(f"no window of the run lies between {first:g} s and {last:g} s")
        return range(inside[0], inside[-1] + 1)

    def bounds_s(self, between_s: tuple[float, float] | None = None) -> tuple[float, float]:
        """Return the part of the run that an answer is about: whole windows of what was asked for.

        Raises:
            UsageError: no window lies in it.
        """
        windows = self.windows(between_s)
        return float(self.edges_s[windows.start]), float(self.edges_s[windows.stop])

    def _chosen(self, operation: str | None) -> range | tuple[int]:
        if operation is None:
            return range(len(self.operations))
        if operation not in self.operations:
            raise UsageError(unknown("operation", operation, self.operations))
        return (self.operations.index(operation),)

    def _sketch(
        self, windows: range, operation: str | None, *, under_way: bool | None = False
    ) -> QuantileSketch:
        """Return the times of calls that came in some windows.

        Args:
            under_way: those that are over (False), those so far of the others, or all (None).
        """
        merged = QuantileSketch()
        for k in windows:
            counts = self.collector.windows[k]
            for number in self._chosen(operation):
                if not under_way:
                    merged.merge(counts.latency[number])
                if under_way is not False:
                    merged.merge(counts.under_way[number])
        return merged

    # ------------------------------------------------------------------ latencies

    def percentile(
        self,
        percent: float,
        operation: str | None = None,
        between_s: tuple[float, float] | None = None,
    ) -> Percentile:
        """Return the time within which so many of the calls that came then, and did not fail,
        succeeded. They count from when they were due, earlier attempts included.

        A run goes on for a while after its end, so that these calls come to theirs. Those that are
        still under way then count with their times so far; where that decides, the percentile is
        ``at_least`` so long. The interval comes from batches of windows, so that calls need not be
        independent of each other (``mpcsim.capacity.results.intervals``); where the run is too
        short, there is none.

        Raises:
            UsageError: no such operation, part, or percentile; or no call succeeded.
        """
        windows = self.windows(between_s)
        share, bounds_s = percent / 100, self.bounds_s(between_s)
        over = self._sketch(windows, operation)
        whole = self._sketch(windows, operation, under_way=None)
        if not whole.count:
            raise UsageError("no call of this part of the run succeeded")
        at = whole.quantile(share)
        under_way = whole.count - over.count
        at_least = under_way > 0 and at < (1 - 2 * ERROR) * _longest(over, under_way, share)
        length_s = bounds_s[1] - bounds_s[0]
        found = interval(
            [self._sketch(range(k, k + 1), operation, under_way=None) for k in windows],
            share,
            length_s=length_s,
            memory_s=self.memory_s(between_s),
        )
        if at_least:
            found = Interval(at, math.inf, f"{under_way:,} calls are still under way")
        shares = self._outcomes_of_calls(windows, operation)
        moved = between_s is not None and bounds_s != tuple(between_s)
        return Percentile(
            at,
            found.low_ms,
            found.high_ms,
            found.why_none,
            found.needs_s * self.length_s / length_s,
            1 - shares["done"],
            shares["timed out"],
            at_least,
            under_way,
            bounds_s,
            between_s if moved else None,
        )

    def compare_percentile(self, percent: float, ms: float, error: float = 0.05) -> Comparison:
        """Return on which side of a time a percentile is, or that the run does not decide it.

        A percentile far below the time takes fewer calls to be known there than an interval does:
        some 300 independent ones for p99, none of which is slower.

        Args:
            error: the chance that ``below`` or ``above`` is wrong.
        """
        windows = self.windows()
        sketches = [self._sketch(range(k, k + 1), None, under_way=None) for k in windows]
        counts = np.array([sketch.count for sketch in sketches], float)
        slower = [each.count * (1 - each.cdf(ms)) if each.count else 0.0 for each in sketches]
        share = 1 - percent / 100
        return self._compare(counts, np.array(slower), share, error, self.memory_s())

    def compare_failures(self, share: float, error: float = 0.05) -> Comparison:
        """Return on which side of a share the failed calls are, as ``compare_percentile``. Calls of
        which none fails count as independent; where some do, batches of windows show whether they
        are."""
        outcomes = [self.collector.windows[k].outcomes.sum(axis=0) for k in self.windows()]
        counts = np.array([each.sum() for each in outcomes], float)
        failed = np.array([each[1:].sum() for each in outcomes], float)
        return self._compare(counts, failed, share, error, 0.0)

    def _compare(
        self, counts: Floats, beyond: Floats, share: float, error: float, memory_s: float
    ) -> Comparison:
        begin, end = self.bounds_s()
        return compare_share(
            counts, beyond, share, length_s=end - begin, memory_s=memory_s, error=error
        )

    def _outcomes_of_calls(self, windows: range, operation: str | None) -> dict[str, float]:
        """Return the shares of how calls ended that came in some windows and are over."""
        chosen = list(self._chosen(operation))
        counts = sum(self.collector.windows[k].outcomes[chosen].sum(axis=0) for k in windows)
        every = float(np.sum(counts))
        if not every:
            return dict(zip(OUTCOMES, (1.0, 0.0, 0.0, 0.0), strict=True))
        return dict(zip(OUTCOMES, map(float, np.asarray(counts) / every), strict=True))

    def memory_s(self, between_s: tuple[float, float] | None = None) -> float:
        """Return how long what happens depends on what happened before; infinite: for ever."""
        windows, (begin, end) = self.windows(between_s), self.bounds_s(between_s)
        arrivals = self.workload.arrivals
        ended = sum(int(self.collector.windows[k].ended.sum()) for k in windows) / (end - begin)
        if isinstance(arrivals, Users):  # a round of theirs
            return arrivals.count / ended if ended else math.inf
        if isinstance(arrivals, Times):
            return forgets_s(ended, self.demand.most_per_s)
        most = max((piece.per_s for piece in arrivals.pieces(begin, end)), default=0.0)
        return forgets_s(most, self.demand.most_per_s)

    def outcomes(self, between_s: tuple[float, float] | None = None) -> dict[str, int]:
        """How many attempts ended how."""
        windows = self.windows(between_s or (0.0, self.length_s))
        sums = sum(self.collector.windows[k].attempts.sum(axis=0) for k in windows)
        return dict(zip(OUTCOMES, map(int, np.atleast_1d(sums)), strict=True))

    def throughput_per_s(self, between_s: tuple[float, float] | None = None) -> float:
        """Calls that succeeded, a second."""
        windows = self.windows(between_s)
        done = sum(int(self.collector.windows[k].done.sum()) for k in windows)
        return done / float(self.edges_s[windows.stop] - self.edges_s[windows.start])

    def offered_per_s(
        self, between_s: tuple[float, float] | None = None, operation: str | None = None
    ) -> float:
        """Return the rate at which calls came, whatever became of them."""
        windows, (begin, end) = self.windows(between_s), self.bounds_s(between_s)
        chosen = list(self._chosen(operation))
        came = sum(int(self.collector.windows[k].came[chosen].sum()) for k in windows)
        return came / (end - begin)

    def ended_per_s(
        self, between_s: tuple[float, float] | None = None, operation: str | None = None
    ) -> float:
        """Calls that were over, well or not, a second."""
        windows = self.windows(between_s)
        chosen = list(self._chosen(operation))
        ended = sum(int(self.collector.windows[k].ended[chosen].sum()) for k in windows)
        return ended / float(self.edges_s[windows.stop] - self.edges_s[windows.start])

    def goodput_per_s(
        self, deadline_ms: float, between_s: tuple[float, float] | None = None
    ) -> float:
        """Return the rate of calls that came then and succeeded within a time."""
        windows, (begin, end) = self.windows(between_s), self.bounds_s(between_s)
        sketch = self._sketch(windows, None)
        in_time = sketch.count * sketch.cdf(deadline_ms) if sketch.count else 0.0
        return in_time / (end - begin)

    def made_of(self, slowest: float = 1.0, operation: str | None = None) -> dict[str, float]:
        """What the time of calls that succeeded went into, on average, by ``PARTS``. Milliseconds.

        Args:
            slowest: part of them: 0.01 are the slowest hundredth.
        """
        if not 0 < slowest <= 1:
            raise UsageError(f"slowest is {slowest}: above 0, 1 at most")
        classes = sum(self.collector.made_of[k] for k in self._chosen(operation))
        counts = np.asarray(classes)[:, 0]
        wanted = slowest * counts.sum()
        above = counts[::-1].cumsum()[::-1]  # of this class, or slower
        part = np.clip((wanted - (above - counts)) / np.maximum(counts, 1), 0.0, 1.0)
        sums = (np.asarray(classes)[:, 1:] * part[:, None]).sum(axis=0)
        return dict(zip(PARTS, map(float, sums / max(wanted, 1e-9)), strict=True))

    @cached_property
    def gauges(self) -> Gauges:
        """Utilisation and queue lengths, a row for each window."""
        return self.collector.gauges()

    @cached_property
    def little(self) -> Little:
        """Little's law over the whole run: rate and mean time are of answered attempts."""
        lengths = np.diff(self.collector.edges_ms)
        spent = sum(float(counts.parts_ms[:, 1:].sum()) for counts in self.collector.windows)
        under_way = float((self.gauges.in_flight[:, 0] * lengths).sum() / lengths.sum())
        return Little(under_way, float(spent / lengths.sum()))

    def percentiles_over_time(self, percent: float, operation: str | None = None) -> Floats:
        """Return a percentile for each window, in milliseconds, of the calls that came in it, those
        under way at the end with their times so far; nan where none succeeds."""
        sketches = [
            self._sketch(range(k, k + 1), operation, under_way=None)
            for k in range(len(self.edges_s) - 1)
        ]
        return np.array(
            [each.quantile(percent / 100) if each.count else math.nan for each in sketches]
        )

    @cached_property
    def memory_mb(self) -> dict[str, Floats]:
        """Of each part's processes together on the fullest machine, for each window."""
        costs = self.costs
        under_way = self.gauges.in_flight[:, 0]
        found = {}
        for name, part in self.deployment.parts.items():
            rest, each = costs.memory_mb.get(name, (0.0, 0.0))
            found[name] = part.workers * rest + each * under_way / part.replicas
        return found

    # ------------------------------------------------------------------ shown

    def table(self) -> pd.DataFrame:
        """Return a row for each window and operation, tidy; needs pandas. Percentiles are of the
        calls that ``came`` and succeeded, all else is about what ended."""
        rows: list[dict[str, Any]] = []
        for k, counts in enumerate(self.collector.windows):
            begin, end = self.edges_s[k], self.edges_s[k + 1]
            for number, name in enumerate(self.operations):
                sketch = counts.latency[number]
                row = {"begin_s": begin, "end_s": end, "operation": name}
                row |= dict(zip(OUTCOMES, map(int, counts.attempts[number]), strict=True))
                row["ended"] = int(counts.ended[number])
                row["came"] = int(counts.came[number])
                for percent in (50, 95, 99):
                    value = sketch.quantile(percent / 100) if sketch.count else math.nan
                    row[f"p{percent}_ms"] = value
                many = max(1, int(counts.done[number]))
                row |= {
                    f"{part} (ms)": float(ms) / many
                    for part, ms in zip(PARTS, counts.parts_ms[number], strict=True)
                }
                rows.append(row)
        return load_pandas().DataFrame(rows)
