"""Record of a run: its counts and gauges, and the statistics of them."""

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
    interval,
    relaxation_time_s,
)
from mpcsim.capacity.results.parts import PARTS
from mpcsim.capacity.simulation.driver import SlowCalls
from mpcsim.capacity.simulation.layout import Layout
from mpcsim.errors import UsageError, unknown
from mpcsim.sim.rich_display import percentage
from mpcsim.sim.statistics.quantile_sketch import ERROR, QuantileSketch
from mpcsim.sim.traces.frame import load_pandas

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Percentile:
    """Percentile with its confidence interval (95 %). Milliseconds."""

    ms: float
    low_ms: float
    high_ms: float
    """Upper end of the interval; infinite: there is none."""
    why_none: str = ""
    """Reason why there is no interval."""
    needs_s: float = math.nan
    """Length of a run that would have an interval, if that can be told."""
    gave_up: float = 0.0
    """Share of calls that ended without success: the percentile is of the others."""
    timed_out: float = 0.0
    """Share of calls whose callers timed out; part of ``gave_up``."""
    at_least: bool = False
    """Whether calls in flight at the end decide: their latencies are longer."""
    under_way: int = 0
    """Calls in flight at the end; they count with their times so far."""
    between_s: tuple[float, float] = (0.0, math.inf)
    """Part of the run in which the calls arrived: whole windows."""
    asked_s: tuple[float, float] | None = None
    """Part of the run that was asked for, where it is another one."""

    def __str__(self) -> str:
        return self.text + self.restriction

    @property
    def text(self) -> str:
        """Text of the percentile and its interval."""
        text = f"at least {self.ms:,.1f} ms" if self.at_least else f"{self.ms:,.1f} ms"
        if self.why_none:
            text += f" (no interval: {self.why_none}"
            if not math.isnan(self.needs_s):
                text += f"; {_duration_text(self.needs_s)} would do"
            text += ")"
        else:
            text += f" ({self.low_ms:,.1f} to {self.high_ms:,.1f})"
        return text

    @property
    def length_hint(self) -> str:
        """Length of a run that would have an interval, in brackets; empty: it cannot be told."""
        return "" if math.isnan(self.needs_s) else f" ({_duration_text(self.needs_s)} would do)"

    @property
    def restriction(self) -> str:
        """Text of which calls the percentile is, if not of all that were asked for."""
        text = ""
        if self.gave_up > 0:
            text += f" of those that succeeded: {percentage(self.gave_up, '.1%')} did not"
            if self.timed_out > 0:
                text += f", {percentage(self.timed_out, '.1%')} timed out"
        if self.asked_s:
            first, last = self.between_s
            text += f", of calls that came from {first:g} s to {last:g} s"
        return text


def _duration_text(seconds: float) -> str:
    """Return a text of a duration that is at least this long."""
    if seconds <= 90:
        return f"{math.ceil(seconds)} s"
    minutes = math.ceil(seconds / 60)
    return f"{minutes} minutes" if minutes <= 90 else f"{math.ceil(minutes / 60):,} hours"


def _upper_bound(over: QuantileSketch, under_way: int, share: float) -> float:
    """Return the percentile if calls in flight took for ever."""
    rank = share * (over.count + under_way - 1)
    if not rank <= over.count - 1:
        return math.inf
    return over.quantile(rank / (over.count - 1)) if over.count > 1 else over.greatest


@dataclass(frozen=True)
class LittlesLawCheck:
    """Little's law: mean calls in flight are throughput times mean latency.

    The two differ where attempts fail, or where arrivals exceed answers.
    """

    under_way: float
    throughput_times_latency: float

    @property
    def off_by(self) -> float:
        """Relative difference."""
        return (
            abs(self.under_way / self.throughput_times_latency - 1)
            if self.throughput_times_latency
            else 0.0
        )


@dataclass(frozen=True)
class RunRecord:
    """Measurements of a run; ``Run`` adds the conclusions.

    Times are seconds since the beginning; ``between_s`` is the part that is asked for, by default
    all but the first tenth (warm-up). A run is kept in windows: answers are about those that lie in
    this part (``bounds_s``). Percentiles are of calls that arrived then; throughput and outcomes of
    attempts are about what ended then.
    """

    deployment: Model
    workload: Workload
    seed: int
    collector: Collector = field(repr=False)
    layout: Layout = field(repr=False)
    demand: Demand = field(repr=False)
    costs: Costs = field(repr=False)
    slow_calls: SlowCalls = field(repr=False)
    """Slowest calls, in detail."""

    # ------------------------------------------------------------------ parts of the run

    @property
    def operations(self) -> tuple[str, ...]:
        """Names of the operations."""
        return self.collector.operations

    @cached_property
    def edges_s(self) -> Floats:
        """Beginnings of the windows, and the end of the last."""
        return self.collector.edges_ms / 1000

    @property
    def length_s(self) -> float:
        """Length of the run."""
        return float(self.edges_s[-1])

    def windows(self, between_s: tuple[float, float] | None = None) -> range:
        """Return the windows that lie in a part of the run.

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

    def _operation_numbers(self, operation: str | None) -> range | tuple[int]:
        """Return the number of an operation, or those of all."""
        if operation is None:
            return range(len(self.operations))
        if operation not in self.operations:
            raise UsageError(unknown("operation", operation, self.operations))
        return (self.operations.index(operation),)

    def _latency_sketch(
        self, windows: range, operation: str | None, *, under_way: bool | None = False
    ) -> QuantileSketch:
        """Return the latencies of calls that arrived in some windows.

        Args:
            under_way: those of calls that are over (False), times so far of the others, or all
                (None).
        """
        merged = QuantileSketch()
        for k in windows:
            counts = self.collector.windows[k]
            for number in self._operation_numbers(operation):
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
        """Return a percentile of the latencies of calls that arrived then and did not fail. They
        count from when calls were due, earlier attempts included.

        A run goes on for a while after its end, so that these calls can end. Those still in flight
        then count with their times so far; where that decides, the percentile is ``at_least`` so
        long. The interval comes from batches of windows, so that calls need not be independent
        (``mpcsim.capacity.results.intervals``); where the run is too short, there is none.

        Raises:
            UsageError: no such operation, part, or percentile; or no call succeeded.
        """
        windows = self.windows(between_s)
        share, bounds_s = percent / 100, self.bounds_s(between_s)
        over = self._latency_sketch(windows, operation)
        whole = self._latency_sketch(windows, operation, under_way=None)
        if not whole.count:
            raise UsageError("no call of this part of the run succeeded")
        at = whole.quantile(share)
        under_way = whole.count - over.count
        at_least = under_way > 0 and at < (1 - 2 * ERROR) * _upper_bound(over, under_way, share)
        length_s = bounds_s[1] - bounds_s[0]
        found = interval(
            [self._latency_sketch(range(k, k + 1), operation, under_way=None) for k in windows],
            share,
            length_s=length_s,
            relaxation_time_s=self.relaxation_time_s(between_s),
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

        A percentile far below the time takes fewer calls to decide than an interval does: some 300
        independent ones for p99, none of which is slower.

        Args:
            error: probability that ``below`` or ``above`` is wrong.
        """
        windows = self.windows()
        sketches = [self._latency_sketch(range(k, k + 1), None, under_way=None) for k in windows]
        counts = np.array([sketch.count for sketch in sketches], float)
        slower = [each.count * (1 - each.cdf(ms)) if each.count else 0.0 for each in sketches]
        share = 1 - percent / 100
        return self._compare(counts, np.array(slower), share, error, self.relaxation_time_s())

    def compare_failures(self, share: float, error: float = 0.05) -> Comparison:
        """Return on which side of a share the failed calls are, as ``compare_percentile``. Without
        failures, calls count as independent; otherwise batches of windows show whether they are."""
        outcomes = [self.collector.windows[k].outcomes.sum(axis=0) for k in self.windows()]
        counts = np.array([each.sum() for each in outcomes], float)
        failed = np.array([each[1:].sum() for each in outcomes], float)
        return self._compare(counts, failed, share, error, 0.0)

    def _compare(
        self, counts: Floats, beyond: Floats, share: float, error: float, relaxation_time_s: float
    ) -> Comparison:
        begin, end = self.bounds_s()
        return compare_share(
            counts,
            beyond,
            share,
            length_s=end - begin,
            relaxation_time_s=relaxation_time_s,
            error=error,
        )

    def _outcomes_of_calls(self, windows: range, operation: str | None) -> dict[str, float]:
        """Return the shares of outcomes of calls that arrived in some windows and are over."""
        chosen = list(self._operation_numbers(operation))
        counts = sum(self.collector.windows[k].outcomes[chosen].sum(axis=0) for k in windows)
        every = float(np.sum(counts))
        if not every:
            return dict(zip(OUTCOMES, (1.0, 0.0, 0.0, 0.0), strict=True))
        return dict(zip(OUTCOMES, map(float, np.asarray(counts) / every), strict=True))

    def relaxation_time_s(self, between_s: tuple[float, float] | None = None) -> float:
        """Return how long the service's state depends on its past; infinite: for ever."""
        windows, (begin, end) = self.windows(between_s), self.bounds_s(between_s)
        arrivals = self.workload.arrivals
        ended = sum(int(self.collector.windows[k].ended.sum()) for k in windows) / (end - begin)
        if isinstance(arrivals, Users):  # a round of theirs
            return arrivals.count / ended if ended else math.inf
        if isinstance(arrivals, Times):
            return relaxation_time_s(self.offered_per_s(between_s), self.demand.most_per_s)
        most = max((piece.per_s for piece in arrivals.pieces(begin, end)), default=0.0)
        return relaxation_time_s(most, self.demand.most_per_s)

    def outcomes(self, between_s: tuple[float, float] | None = None) -> dict[str, int]:
        """Return the number of attempts by outcome."""
        windows = self.windows(between_s or (0.0, self.length_s))
        sums = sum(self.collector.windows[k].attempts.sum(axis=0) for k in windows)
        return dict(zip(OUTCOMES, map(int, np.atleast_1d(sums)), strict=True))

    def throughput_per_s(self, between_s: tuple[float, float] | None = None) -> float:
        """Return the rate of calls that succeeded."""
        windows = self.windows(between_s)
        done = sum(int(self.collector.windows[k].done.sum()) for k in windows)
        return done / float(self.edges_s[windows.stop] - self.edges_s[windows.start])

    def offered_per_s(
        self, between_s: tuple[float, float] | None = None, operation: str | None = None
    ) -> float:
        """Return the rate at which calls arrived, whatever their outcome."""
        windows, (begin, end) = self.windows(between_s), self.bounds_s(between_s)
        chosen = list(self._operation_numbers(operation))
        came = sum(int(self.collector.windows[k].came[chosen].sum()) for k in windows)
        return came / (end - begin)

    def ended_per_s(
        self, between_s: tuple[float, float] | None = None, operation: str | None = None
    ) -> float:
        """Return the rate at which calls ended, successfully or not."""
        windows = self.windows(between_s)
        chosen = list(self._operation_numbers(operation))
        ended = sum(int(self.collector.windows[k].ended[chosen].sum()) for k in windows)
        return ended / float(self.edges_s[windows.stop] - self.edges_s[windows.start])

    def goodput_per_s(
        self, deadline_ms: float, between_s: tuple[float, float] | None = None
    ) -> float:
        """Return the rate of calls that arrived then and succeeded within a deadline."""
        windows, (begin, end) = self.windows(between_s), self.bounds_s(between_s)
        sketch = self._latency_sketch(windows, None)
        in_time = sketch.count * sketch.cdf(deadline_ms) if sketch.count else 0.0
        return in_time / (end - begin)

    def made_of(self, slowest: float = 1.0, operation: str | None = None) -> dict[str, float]:
        """Return the mean latency of calls that succeeded, by ``PARTS``, over the whole run, its
        first tenth included. Milliseconds.

        Args:
            slowest: share of the calls: 0.01 are the slowest hundredth.
        """
        if not 0 < slowest <= 1:
            raise UsageError(f"slowest is {slowest}: above 0, 1 at most")
        classes = sum(self.collector.made_of[k] for k in self._operation_numbers(operation))
        counts = np.asarray(classes)[:, 0]
        wanted = slowest * counts.sum()
        above = counts[::-1].cumsum()[::-1]  # of this class, or slower
        part = np.clip((wanted - (above - counts)) / np.maximum(counts, 1), 0.0, 1.0)
        sums = (np.asarray(classes)[:, 1:] * part[:, None]).sum(axis=0)
        return dict(zip(PARTS, map(float, sums / max(wanted, 1e-9)), strict=True))

    @cached_property
    def gauges(self) -> Gauges:
        """Utilisations and queue lengths, a row for each window."""
        return self.collector.gauges()

    @cached_property
    def littles_law(self) -> LittlesLawCheck:
        """Little's law over the whole run: rate and mean time are of answered attempts."""
        lengths = np.diff(self.collector.edges_ms)
        spent = sum(float(counts.parts_ms[:, 1:].sum()) for counts in self.collector.windows)
        under_way = float((self.gauges.in_flight[:, 0] * lengths).sum() / lengths.sum())
        return LittlesLawCheck(under_way, float(spent / lengths.sum()))

    def percentiles_over_time(self, percent: float, operation: str | None = None) -> Floats:
        """Return a percentile for each window (ms), of calls that arrived in it, those in flight at
        the end with their times so far; nan where none succeeds."""
        sketches = [
            self._latency_sketch(range(k, k + 1), operation, under_way=None)
            for k in range(len(self.edges_s) - 1)
        ]
        return np.array(
            [each.quantile(percent / 100) if each.count else math.nan for each in sketches]
        )

    @cached_property
    def memory_mb(self) -> dict[str, Floats]:
        """Memory of each part's processes on the fullest machine, for each window."""
        costs = self.costs
        under_way = self.gauges.in_flight[:, 0]
        found = {}
        for name, part in self.deployment.parts.items():
            rest, each = costs.memory_mb.get(name, (0.0, 0.0))
            here = part.replicas if part.machine else 1  # a named machine has all replicas
            found[name] = here * (part.workers * rest + each * under_way / part.replicas)
        return found

    # ------------------------------------------------------------------ display

    def table(self) -> pd.DataFrame:
        """Return a row for each window and operation, tidy; needs pandas. Percentiles are of calls
        that arrived (``came``) and succeeded, all else is about what ended."""
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
