"""Results of a replay: distributions of completion times, and critical paths, in milliseconds.

Figures are imported when requested: matplotlib is optional.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np

from mpcsim.errors import UsageError, check_type
from mpcsim.ids import PartyId
from mpcsim.sim.replay.kernels.arrays import Floats
from mpcsim.sim.rich_display import (
    PERCENTS,
    Table,
    beside,
    document,
    few_notes,
    milliseconds,
    page,
    percentile_table,
)
from mpcsim.sim.statistics.order_statistics import interval_of
from mpcsim.sim.statistics.quantile_sketch import ERROR, QuantileSketch
from mpcsim.sim.traces.records import SCOPES, Scope

if TYPE_CHECKING:
    from mpcsim.sim.figures import Chart

CURVE_POINTS: Final = 10_001
"""Most points of a plotted distribution function; it has no more than there are samples."""


@dataclass(frozen=True)
class PathShare:
    """Contribution of a link or a party to the critical path."""

    probability: float
    """Share of the samples in which it is on the critical path."""
    mean_ms: float
    """Time on the critical path, averaged over all samples."""


@dataclass(frozen=True)
class Explanation:
    """Averages over the critical paths of samples (``critical_path_totals``)."""

    split_ms: Mapping[str, float]
    """Mean time by ``PARTS``; its sum is the mean completion time."""
    links: Mapping[str, PathShare]
    """Shares by direction of a link, e.g. ``client → gateway``; without service times."""
    parties: Mapping[PartyId, PathShare]
    """Shares of the parties, with their computation."""
    last: Mapping[PartyId, float]
    """Share of the samples in which this party finishes last; ties go to the first."""
    link_split_ms: Mapping[str, Mapping[str, float]]
    """Mean time of each direction in ``links`` by ``PARTS``, without zeros."""

    def tables(self) -> list[Table]:
        """Return tables: the mean by part, the links on the critical path, who finishes last."""
        whole = math.fsum(self.split_ms.values())
        ranked = sorted(self.links.items(), key=lambda item: -item[1].mean_ms)
        tables = [
            Table(
                ("part of the mean", "ms", "share"),
                [
                    [part, milliseconds(ms), f"{ms / whole:.1%}"]
                    for part, ms in self.split_ms.items()
                    if ms
                ],
                frozenset(("ms", "share")),
            ),
            Table(
                ("link", "on the critical path", "mean ms"),
                [
                    [name, f"{share.probability:.1%}", milliseconds(share.mean_ms)]
                    for name, share in ranked
                    if share.probability
                ],
                frozenset(("on the critical path", "mean ms")),
            ),
        ]
        if len(self.last) > 1:
            rows = [[str(party), f"{share:.1%}"] for party, share in self.last.items()]
            tables.append(Table(("party", "finishes last"), rows, frozenset(("finishes last",))))
        return [table for table in tables if table.rows]

    def plot(self) -> Chart:
        """Plot links and computing parties by their mean time on the critical path; needs
        matplotlib.

        >>> figure = graph.replay(network, 1_000, explain=True).explanation.plot()
        """
        from mpcsim.sim import figures

        computing = {i: f"party {i} computes" for i, of in self.parties.items() if of.mean_ms}
        shares = dict(self.links) | {name: self.parties[i] for i, name in computing.items()}
        shown = {name: share for name, share in shares.items() if share.probability}
        return figures.ranked_bars(
            {name: share.mean_ms for name, share in shown.items()},
            notes={
                name: f"{share.mean_ms:,.1f} ms, on {share.probability:.1%} of the paths"
                for name, share in shown.items()
            },
            parties={name: i for i, name in computing.items()},
            x="mean time on the critical path (ms)",
            title="Where the time goes: links and computing on the critical path",
        )


@dataclass(frozen=True)
class Approximation:
    """Errors of the approximation by fitted transfers."""

    simulated: int
    """Number of samples of the fit."""
    judged: int
    """Number of other samples, which it was compared with."""
    mean: float
    """Relative error of the mean."""
    errors: Mapping[float, float]
    """Relative errors at some percentiles."""
    wasserstein: float
    """Wasserstein distance of the distributions, divided by the mean."""
    tolerance: float
    """Largest accepted relative error at a percentile."""

    @property
    def is_accepted(self) -> bool:
        """Whether every error is within the tolerance; if not, every transfer was simulated."""
        return all(abs(error) <= self.tolerance for error in self.errors.values())

    def __str__(self) -> str:
        at = ", ".join(f"p{percent:g} by {error:+.1%}" for percent, error in self.errors.items())
        return (
            f"approximate{'' if self.is_accepted else ' refused'} (fitted to {self.simulated:,} "
            f"samples): beside {self.judged:,} others the mean is off by {self.mean:+.2%}, {at}, "
            f"Wasserstein distance {self.wasserstein:.2%}"
            + (
                ""
                if self.is_accepted
                else f"; over {self.tolerance:.0%}, so every transfer is simulated"
            )
        )


class CompletionTimes(ABC):
    """Completion times of many runs, however they are stored."""

    name: str
    network: str
    compute: str
    seed: int
    explanation: Explanation | None
    """Critical paths; None unless requested."""
    approximation: Approximation | None
    """Errors of the approximation, used or refused; None unless requested."""
    scope: Scope
    """``protocol`` or ``rest``; opening the vault precedes a REST call (see ``node.local``)."""

    @property
    @abstractmethod
    def samples(self) -> int:
        """Number of runs, failed ones included."""

    @property
    @abstractmethod
    def failed(self) -> int:
        """Number of runs that failed: TCP aborted a connection, or an answer came after the
        time-out. Mean, deviation, percentiles and curves are of the others."""

    @property
    @abstractmethod
    def mean_ms(self) -> float: ...

    @property
    @abstractmethod
    def std_ms(self) -> float: ...

    @abstractmethod
    def _quantiles(self, shares: Floats) -> Floats:
        """Return the quantiles of the runs that did not fail."""

    @abstractmethod
    def share_within(self, ms: float) -> float:
        """Return the share of all runs that finish within ``ms`` milliseconds."""

    @abstractmethod
    def curve(self) -> Floats:
        """Return times for plots: all of them, or quantiles at evenly spaced levels."""

    def percentile(self, percent: float) -> float:
        """Return the time within which ``percent`` of the runs that did not fail finish.

        Raises:
            UsageError: not between 0 and 100.
        """
        return self.percentiles([percent])[percent]

    def percentiles(self, percents: Iterable[float] = (50, 90, 95, 99, 99.9)) -> dict[float, float]:
        """Return several percentiles.

        Raises:
            UsageError: one is not between 0 and 100.
        """
        check_type("percentiles", percents, Iterable)
        asked = list(percents)
        for percent in asked:
            if not 0 <= percent <= 100:
                raise UsageError(f"percentile {percent}: not between 0 and 100")
        found = self._quantiles(np.array(asked) / 100)
        return dict(zip(asked, map(float, found), strict=True))

    @abstractmethod
    def interval(self, percent: float, confidence: float = 0.95) -> tuple[float, float]:
        """Return a confidence interval of the percentile, by order statistics; with too few runs an
        end is open: 0 or infinite.

        Raises:
            UsageError: percent is not between 0 and 100, or confidence not between 0 and 1.
        """

    def cdf(self, points: int = 501) -> tuple[Floats, Floats]:
        """Return the distribution function for plots: times, and the share finished by then.

        Args:
            points: number of points, evenly spaced in probability.

        Raises:
            UsageError: fewer than two points.
        """
        if points < 2:
            raise UsageError(f"a distribution function of {points} points: at least 2 are needed")
        shares = np.linspace(0.0, 1.0, points)
        return self._quantiles(shares), shares

    def plot(self) -> Chart:
        """Plot the complementary distribution function, logarithmic, with percentiles as dots;
        needs matplotlib.

        >>> figure = graph.replay(Network.preset("tokyo", access="lte"), 1_000).plot()

        Raises:
            UsageError: a run took no time: the scale is logarithmic.
        """
        from mpcsim.sim import figures

        over = f" over {self.network}" if self.network else ""
        title = f"{self.name}{over}, {SCOPES[self.scope]}, {self.samples:,} samples"
        intervals = {"": {percent: self.interval(percent) for percent in (*PERCENTS, 99.9)}}
        return figures.tail_plot({title: {"": self.curve()}}, intervals=intervals)

    @property
    def headline(self) -> str:
        """Name of the run, with its median and 99th percentile."""
        over = f" over {self.network}" if self.network else ""
        if self.failed == self.samples:
            return f"{self.name}{over}: every run failed"
        at = self.percentiles((50, 99))
        times = ", ".join(f"p{percent:g} {milliseconds(ms)} ms" for percent, ms in at.items())
        return f"{self.name}{over}: {times}"

    def table(self) -> Table:
        """Return a row for each percentile, with its confidence interval."""
        at = self.percentiles((*PERCENTS, 99.9))
        rows = [(percent, ms, *self.interval(percent)) for percent, ms in at.items()]
        return percentile_table(self.samples - self.failed, rows)

    def notes(self) -> list[str]:
        """Return caveats: the approximation's error and failed runs."""
        notes = []
        if self.approximation is not None:
            notes.append(str(self.approximation))
            if self.approximation.is_accepted:
                notes.append("intervals are without the error of the approximation")
        if self.failed:
            notes.insert(
                0,
                f"{self.failed:,} of {self.samples:,} failed ({self.failed / self.samples:.3g} of "
                "them all): given up by TCP or by the service; mean and percentiles are of the "
                "others",
            )
        return notes

    def _page_notes(self) -> list[str]:
        how = f"seed {self.seed}, compute {self.compute}, scope {self.scope}"
        notes = [f"{self.samples:,} samples, {how}"]
        if self.failed < self.samples:
            mean, deviation = milliseconds(self.mean_ms), milliseconds(self.std_ms)
            notes.append(f"mean {mean} ms, standard deviation {deviation} ms")
        return [*notes, *self.notes(), *few_notes(*self._tables())]

    def _tables(self) -> list[Table]:
        if self.failed == self.samples:
            return []
        return [self.table(), *(self.explanation.tables() if self.explanation else ())]

    def __str__(self) -> str:
        return page(self.headline, self._tables(), notes=self._page_notes())

    def _repr_html_(self) -> str:
        return beside(document(self.headline, self._tables(), notes=self._page_notes()), self.plot)


@dataclass(frozen=True)
class Replay(CompletionTimes):
    """Completion times of many runs, all kept."""

    name: str
    network: str
    compute: str
    seed: int
    finished_ms: Floats = field(repr=False)
    """Completion time of each sample; infinite if it failed."""
    parties_ms: Mapping[PartyId, Floats] = field(repr=False)
    """Completion times of each party; empty unless requested."""
    explanation: Explanation | None = None
    approximation: Approximation | None = None
    scope: Scope = "protocol"

    @property
    def samples(self) -> int:
        return len(self.finished_ms)

    @cached_property
    def failed(self) -> int:
        return self.samples - len(self.answered_ms)

    @cached_property
    def answered_ms(self) -> Floats:
        """Completion times of the runs that did not fail."""
        ended = np.isfinite(self.finished_ms)
        return self.finished_ms if ended.all() else self.finished_ms[ended]

    @cached_property
    def mean_ms(self) -> float:
        return float(self.answered_ms.mean()) if len(self.answered_ms) else math.nan

    @cached_property
    def std_ms(self) -> float:
        return float(self.answered_ms.std()) if len(self.answered_ms) else math.nan

    def _quantiles(self, shares: Floats) -> Floats:
        if not len(self.answered_ms):
            return np.full(len(shares), math.nan)
        found: Floats = np.quantile(self.answered_ms, shares)
        return found

    @cached_property
    def _ranked_ms(self) -> Floats:
        return np.sort(self.answered_ms)

    def interval(self, percent: float, confidence: float = 0.95) -> tuple[float, float]:
        return interval_of(self._ranked_ms, percent, confidence)

    def share_within(self, ms: float) -> float:
        return float(np.count_nonzero(self.finished_ms <= ms)) / self.samples

    def curve(self) -> Floats:
        return self.answered_ms


@dataclass(frozen=True)
class Distribution(CompletionTimes):
    """Completion times of any number of runs, as quantile sketches to 0.1 %."""

    name: str
    network: str
    compute: str
    seed: int
    finished: QuantileSketch
    """Completion times of the runs that did not fail."""
    parties: Mapping[PartyId, QuantileSketch] = field(repr=False)
    """Completion times of each party; empty unless requested."""
    explanation: Explanation | None = None
    approximation: Approximation | None = None
    scope: Scope = "protocol"
    failed: int = 0

    @property
    def samples(self) -> int:
        return self.finished.count + self.failed

    @property
    def mean_ms(self) -> float:
        return self.finished.mean

    @property
    def std_ms(self) -> float:
        return self.finished.deviation

    def interval(self, percent: float, confidence: float = 0.95) -> tuple[float, float]:
        """Return a confidence interval of the percentile; each end within 0.1 %.

        Raises:
            UsageError: percent is not between 0 and 100, or confidence not between 0 and 1.
        """
        return self.finished.interval(percent / 100, confidence)

    def _quantiles(self, shares: Floats) -> Floats:
        return self.finished.quantiles(shares)

    def share_within(self, ms: float) -> float:
        return self.finished.cdf(ms) * self.finished.count / self.samples

    def curve(self) -> Floats:
        return self.cdf(min(CURVE_POINTS, max(2, self.finished.count)))[0]

    def notes(self) -> list[str]:
        return [f"none of the samples kept: percentiles to {ERROR:.1%}", *super().notes()]
