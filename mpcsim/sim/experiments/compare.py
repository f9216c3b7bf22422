"""Comparison of distributions of times: of replays, and of repeated calls.

    >>> at = {city: Network.preset(city, access="lte") for city in ("seoul", "tokyo", "frankfurt")}
    >>> found = compare({city: graph.replay(there, 1_000) for city, there in at.items()})
    >>> table, curves, best_first = str(found), found.plot(), found.ranked_bars()

The first distribution is the reference. All times are milliseconds. Figures are loaded
when they are asked for: matplotlib is optional.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from mpcsim.errors import UsageError, check_type, with_article
from mpcsim.frozen_dict import freeze_fields
from mpcsim.sim.call_times import CallTimes
from mpcsim.sim.replay.results import CompletionTimes
from mpcsim.sim.rich_display import (
    Table,
    beside,
    counted,
    document,
    few_mark,
    few_notes,
    interval_heads,
    interval_text,
    milliseconds,
    page,
)
from mpcsim.sim.traces.records import SCOPES

if TYPE_CHECKING:
    from mpcsim.sim.figures import Chart

Times = CompletionTimes | CallTimes
"""Distributions that can be compared: replays, with samples or sketches, and repeated calls."""

PERCENTS: Final = (50.0, 95.0, 99.0, 99.9)
DIFFERENCES: Final = (50.0, 99.0)
"""Percentiles whose differences are in the table; ``rows`` has all of them."""
NONE: Final = "-"
NOISE: Final = "~"
"""Mark of a difference whose confidence interval contains zero."""


@dataclass(frozen=True, repr=False, eq=False)
class Comparison:
    """Distributions of times by name, compared with the first of them; displays as tables.

    The interval of a difference combines those of both percentiles, taken for independent (Zou and
    Donner 2008, Statistics in Medicine 27): its lower end is the difference less the root of the
    sum of the squares of the distances to the ends that lower it. Replays of one graph with one
    seed share their draws: their differences are surer than it says.
    """

    runs: Mapping[str, Times]
    """Distributions by name; the first is the reference."""

    def __post_init__(self) -> None:
        freeze_fields(self, "runs")

    @property
    def first(self) -> str:
        return next(iter(self.runs))

    def rows(self) -> list[dict[str, Any]]:
        """Return the measures of each distribution, one row a name, as plain values.

        Returns:
            Rows with ``name``, ``scope``, ``n``, ``failed``, ``mean_ms``, ``p50_ms``, ``p95_ms``,
            ``p99_ms``, ``p99.9_ms``, and in ``difference_ms`` the same measures (``mean``, ``p50``
            and so on) minus those of the first; in ``low_ms`` and ``high_ms`` the 95% confidence
            interval of each percentile, in ``difference_low_ms`` and ``difference_high_ms`` that of
            its difference; of replays ``seed``, ``network`` and ``compute``, too.
            None: fewer than one of the n times lies beyond, or the interval is open.
        """
        found = {name: _measures(run) for name, run in self.runs.items()}
        ends = {name: _intervals(run) for name, run in self.runs.items()}
        base = found[self.first]
        return [
            {
                "name": name,
                "scope": run.scope,
                "n": _sample_count(run),
                "failed": run.failed,
                **{f"{measure}_ms": ms for measure, ms in found[name].items()},
                "difference_ms": {
                    measure: _difference(ms, base[measure]) for measure, ms in found[name].items()
                },
                **ends[name],
                **_difference_intervals(found[name], ends[name], base, ends[self.first]),
                **_settings(run),
            }
            for name, run in self.runs.items()
        ]

    def table(self) -> Table:
        """Return the percentiles with their intervals, and the mean, a row each."""
        *shown, last = PERCENTS
        columns = ["time", "n", "mean ms", *interval_heads(shown), f"p{last:g} ms"]
        rows = []
        for row in self.rows():
            cells = [self._label(row), f"{row['n']:,}", _format_cell(row["mean_ms"])]
            for percent in shown:
                cells += [_percentile_cell(row, percent), _interval_cell(row, f"p{percent:g}")]
            rows.append([*cells, _percentile_cell(row, last)])
        return Table(columns, rows, frozenset(columns[1:]))

    def differences(self) -> Table:
        """Return the differences of percentiles to those of the first, with their intervals."""
        columns = [f"compared with {self._label(self.rows()[0])}", *interval_heads(DIFFERENCES)]
        rows = []
        for row in self.rows()[1:]:
            cells = [self._label(row)]
            for percent in DIFFERENCES:
                measure = f"p{percent:g}"
                mark = _noise(row, measure)
                cells += [
                    _format_cell(row["difference_ms"][measure], "+,.2f") + mark,
                    _interval_cell(row, measure, "difference_", "+,.2f"),
                ]
            rows.append(cells)
        return Table(columns, rows, frozenset(columns[1:]))

    def _label(self, row: Mapping[str, Any]) -> str:
        return f"{row['name']} ({row['scope']})" if len(self._scopes) > 1 else row["name"]

    def _tables(self) -> list[Table]:
        return [self.table(), self.differences()] if len(self.runs) > 1 else [self.table()]

    @property
    def headline(self) -> str:
        """The shortest median, and how it compares with the first."""
        rows = self.rows()
        best = min(rows, key=lambda row: math.inf if row["p50_ms"] is None else row["p50_ms"])
        said = f"{self._label(best)}, p50 {_format_cell(best['p50_ms'])} ms"
        if len(rows) == 1:
            return f"{said}, p99 {_format_cell(best['p99_ms'])} ms"
        if best is rows[0]:
            return f"shortest median: {said}, the first"
        saved = _format_cell(best["difference_ms"]["p50"], "+,.2f")
        noise = ", which may be noise" if _noise(best, "p50") else ""
        return f"shortest median: {said}, {saved} ms beside {self._label(rows[0])}{noise}"

    def notes(self) -> list[str]:
        """Return the remarks: scopes, failures, approximations, marks."""
        notes = [f"scope {' and '.join(self._scopes)}"]
        if len(self._scopes) > 1:
            notes.append("times of different things: a REST call is more than a protocol")
        notes += [
            f"{name}: {counted(run.failed, 'further call')} failed and left no time"
            for name, run in self.runs.items()
            if isinstance(run, CallTimes) and run.failed
        ]
        replays = {name: run for name, run in self.runs.items() if isinstance(run, CompletionTimes)}
        notes += [f"{name}: {note}" for name, run in replays.items() for note in run.notes()]
        if any(row[f"p{percent:g}_ms"] is None for row in self.rows() for percent in PERCENTS):
            notes.append(f"{NONE}: so far out is less than one of the times")
        notes += few_notes(self.table())
        if any(_noise(row, f"p{p:g}") for row in self.rows()[1:] for p in DIFFERENCES):
            notes.append(f"{NOISE} may be noise: the 95 % interval of the difference contains 0")
        if len(self.runs) > 2:
            notes.append(
                f"the shortest of {len(self.runs)} was chosen afterwards: each interval errs by "
                "itself in 5 % of cases"
            )
        return notes

    # ------------------------------------------------------------------ figures

    def plot(self) -> Chart:
        """Plot a curve for each distribution: the share of times that are longer; needs matplotlib.

        The share has a logarithmic scale; percentiles are dots with their 95% intervals.

        >>> figure = compare({"LTE": lte, "fibre": fibre}).plot()

        Raises:
            UsageError: too many curves to tell apart, or a time of 0.
        """
        from mpcsim.sim import figures

        of = {
            name: f"{run.name if isinstance(run, CompletionTimes) else 'a call'}, "
            f"{SCOPES[run.scope]}"
            for name, run in self.runs.items()
        }
        alike = len(set(of.values())) == 1
        labels = {name: name if alike else f"{name}: {what}" for name, what in of.items()}
        curves = {labels[name]: _curve(run) for name, run in self.runs.items()}
        intervals = {
            labels[name]: {percent: _interval(run, percent) for percent in PERCENTS}
            for name, run in self.runs.items()
        }
        title = f"Time of {of[self.first]}" if alike else "Times of different things"
        if others := [name for name in self.runs if name != self.first]:
            title += f": {self.first} compared with {', '.join(others)}"
        return figures.tail_plot({title: curves}, intervals=intervals)

    def ranked_bars(self, percent: float = 50.0, beside: float = 99.0) -> Chart:
        """Plot how much shorter than the first each of the others is, the best on top.

        It shows what to change first; needs matplotlib.

        >>> figure = compare({"as it is": lte, "on fibre": fibre}).ranked_bars()

        Args:
            percent: percentile whose saving the bars show, with its 95% interval.
            beside: percentile whose saving the dots show.

        Raises:
            UsageError: there is only one, or a percentile is not between 0 and 100.
        """
        from mpcsim.sim import figures

        if len(self.runs) < 2:
            raise UsageError("nothing to rank: only one was given")
        first, *others = self.runs.items()
        saved = {}
        for each in (percent, beside):
            if not 0 <= each <= 100:
                raise UsageError(f"percentile {each}: not between 0 and 100")
            saved[each] = {name: _saving(run, first[1], each) for name, run in others}
        bars = {name: ms for name, (ms, _) in saved[percent].items()}
        dots = {name: ms for name, (ms, _) in saved[beside].items()}
        return figures.ranked_bars(
            bars,
            dots=dots,
            names=(f"p{percent:g}", f"p{beside:g}"),
            notes={
                name: f"p{percent:g} {ms:,.0f} ms, p{beside:g} {dots[name]:,.0f} ms"
                for name, ms in bars.items()
            },
            intervals={name: ends for name, (_, ends) in saved[percent].items()},
            x=f"saved (ms), with the 95 % interval of p{percent:g}",
            title=f"Saved, compared with: {self.first}",
        )

    def stacked_bars(self) -> Chart:
        """Plot the parts of each mean time as a stacked bar; needs matplotlib and explained
        replays.

        >>> network = Network.star(50, 50, 50)
        >>> over = {"kept open": network, "cold": network.with_connection(cold=True)}
        >>> runs = {name: graph.replay(each, 100, explain=True) for name, each in over.items()}
        >>> figure = compare(runs).stacked_bars()

        Raises:
            UsageError: one is no replay with an explanation.
        """
        from mpcsim.sim import figures

        rows = {}
        for name, run in self.runs.items():
            if not isinstance(run, CompletionTimes) or run.explanation is None:
                raise UsageError(f"{name}: not a replay with explain=True: the parts are unknown")
            rows[name] = run.explanation.split_ms
        return figures.stacked_bars(rows, x="mean time (ms)", title="Where the mean time goes")

    # ------------------------------------------------------------------ display

    @property
    def _scopes(self) -> list[str]:
        return list(dict.fromkeys(run.scope for run in self.runs.values()))

    def __repr__(self) -> str:
        return page(self.headline, self._tables(), notes=self.notes())

    def _repr_html_(self) -> str:
        return beside(document(self.headline, self._tables(), notes=self.notes()), self.plot)


def compare(runs: Mapping[str, Times]) -> Comparison:
    """Compare replays (``Replay``, ``Distribution``) and repeated calls (``CallTimes``) by name.

    >>> print(compare({"LTE": lte, "fibre": fibre}))  # doctest: +SKIP

    Raises:
        UsageError: nothing to compare, something that has no times, or none of them.
    """
    check_type("runs by name", runs, Mapping)
    if not runs:
        raise UsageError("nothing to compare")
    for name, run in runs.items():
        if not isinstance(run, Times):
            raise UsageError(
                f"{name} is {with_article(type(run).__name__)}: no replay, and no call times"
            )
        if not _sample_count(run):
            raise UsageError(f"{name}: no times")
    return Comparison(dict(runs))


def _sample_count(run: Times) -> int:
    return run.samples - run.failed if isinstance(run, CompletionTimes) else len(run.times_ms)


def _curve(run: Times) -> NDArray[np.float64]:
    return run.curve() if isinstance(run, CompletionTimes) else run.times_ms


def _percentiles(run: Times, percents: Sequence[float]) -> list[float]:
    if isinstance(run, CompletionTimes):
        return [*run.percentiles(percents).values()]
    return [float(ms) for ms in np.percentile(run.times_ms, percents)]


def _measures(run: Times) -> dict[str, float | None]:
    mean = run.mean_ms if isinstance(run, CompletionTimes) else float(run.times_ms.mean())
    found: dict[str, float | None] = {"mean": mean}
    for percent, ms in zip(PERCENTS, _percentiles(run, PERCENTS), strict=True):
        beyond = _sample_count(run) * (100 - percent) / 100
        found[f"p{percent:g}"] = ms if beyond > 1 - 1e-9 else None
    return found


def _interval(run: Times, percent: float) -> tuple[float, float]:
    if isinstance(run, CompletionTimes):
        return run.interval(percent)
    at = run.percentile(percent)
    return at.low_ms, at.high_ms


def _saving(run: Times, first: Times, percent: float) -> tuple[float, tuple[float, float]]:
    """Return how much shorter a percentile is than the first's, with its interval
    (``Comparison``)."""
    (ms,), (base,) = _percentiles(run, [percent]), _percentiles(first, [percent])
    (low, high), (base_low, base_high) = _interval(run, percent), _interval(first, percent)
    saved = base - ms
    less, more = math.hypot(high - ms, base - base_low), math.hypot(ms - low, base_high - base)
    return saved, (saved - less, saved + more)


def _intervals(run: Times) -> dict[str, dict[str, float | None]]:
    low: dict[str, float | None] = {}
    high: dict[str, float | None] = {}
    for percent in PERCENTS:
        ends = _interval(run, percent)
        low[f"p{percent:g}"] = ends[0] or None
        high[f"p{percent:g}"] = ends[1] if math.isfinite(ends[1]) else None
    return {"low_ms": low, "high_ms": high}


def _settings(run: Times) -> dict[str, Any]:
    if isinstance(run, CompletionTimes):
        return {"seed": run.seed, "network": run.network, "compute": run.compute}
    return {"network": run.network}


def _difference_intervals(
    measures: Mapping[str, float | None],
    ends: Mapping[str, Mapping[str, float | None]],
    base: Mapping[str, float | None],
    base_ends: Mapping[str, Mapping[str, float | None]],
) -> dict[str, dict[str, float | None]]:
    """Return the intervals of the differences to the first (``Comparison``)."""
    found: dict[str, dict[str, float | None]] = {}
    for sign, own, other in ((-1, "low", "high"), (1, "high", "low")):
        found[f"difference_{own}_ms"] = {
            measure: _difference_end(
                sign, measures[measure], base[measure], end, base_ends[f"{other}_ms"][measure]
            )
            for measure, end in ends[f"{own}_ms"].items()
        }
    return found


def _difference_end(
    sign: int, ms: float | None, base: float | None, end: float | None, base_end: float | None
) -> float | None:
    if ms is None or base is None or end is None or base_end is None:
        return None
    return ms - base + sign * math.hypot(ms - end, base - base_end)


def _percentile_cell(row: Mapping[str, Any], percent: float) -> str:
    ms = row[f"p{percent:g}_ms"]
    return _format_cell(ms) + (few_mark(row["n"], percent) if ms is not None else "")


def _interval_cell(row: Mapping[str, Any], measure: str, of: str = "", form: str = ",.2f") -> str:
    """Return the confidence interval of a percentile, or of its difference to the first."""
    low, high = row[f"{of}low_ms"][measure], row[f"{of}high_ms"][measure]
    opened = math.inf
    return interval_text(-opened if low is None else low, opened if high is None else high, form)


def _noise(row: Mapping[str, Any], measure: str) -> str:
    """Return the mark of a difference to the first that may be none."""
    if row["difference_ms"][measure] is None:
        return ""
    low, high = row["difference_low_ms"][measure], row["difference_high_ms"][measure]
    is_inside = (low is None or low <= 0) and (high is None or high >= 0)  # None: an open end
    return NOISE if is_inside else ""


def _difference(ms: float | None, base: float | None) -> float | None:
    return None if ms is None or base is None else ms - base


def _format_cell(ms: float | None, how: str = "") -> str:
    if ms is None:
        return NONE
    return format(ms, how) if how else milliseconds(ms)
