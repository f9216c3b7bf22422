"""What comes out of a replay: finishing times of many runs, and why. In milliseconds.

Figures are loaded when they are asked for: matplotlib is optional.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np

from mpcsim.errors import UsageError
from mpcsim.ids import PartyId
from mpcsim.sim.replay.kernels.arrays import Floats
from mpcsim.sim.statistics.quantile_sketch import ERROR, QuantileSketch
from mpcsim.sim.traces.records import Scope

if TYPE_CHECKING:
    from mpcsim.sim.figures import Chart

CURVE_POINTS: Final = 10_001
"""Of a distribution's curve in pictures."""


@dataclass(frozen=True)
class PathShare:
    """What something has to do with the critical path."""

    probability: float
    """Share of the samples in which it is on the path."""
    mean_ms: float
    """Time spent there, averaged over all samples."""


@dataclass(frozen=True)
class Explanation:
    """Critical paths: from each finish back to the start, always to what was waited for last."""

    split_ms: Mapping[str, float]
    """Mean time by ``PARTS``; adds up to the mean finishing time."""
    links: Mapping[str, PathShare]
    """By direction of a link, e.g. ``client → gateway``; without the service at its end."""
    parties: Mapping[PartyId, PathShare]
    """Parties that a path passes through, with their computation on it."""
    last: Mapping[PartyId, float]
    """Share of the samples in which this party finishes last (the first of several)."""
    link_split_ms: Mapping[str, Mapping[str, float]]
    """Of each direction in ``links`` its mean time by ``PARTS``; only what took any."""

    def plot(self) -> Chart:
        """What to move closer: links and computing parties by the time that critical paths spend
        there; needs matplotlib.

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
        )


@dataclass(frozen=True)
class Approximation:
    """How far fitted transfers are from simulated ones."""

    simulated: int
    """Samples that it was fitted to."""
    judged: int
    """Other samples that it was compared with."""
    mean: float
    """Relative difference of the means; above 0 if the fitted one is larger."""
    errors: Mapping[float, float]
    """The same of the times at some percentiles."""
    wasserstein: float
    """Distance of the distributions, over the mean."""
    tolerance: float
    """Largest relative difference at a percentile with which it is used."""

    @property
    def is_accepted(self) -> bool:
        """Whether it is near enough; otherwise every transfer was simulated."""
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
    """When many runs finished, however that is kept: what can be asked of it."""

    name: str
    network: str
    compute: str
    seed: int
    explanation: Explanation | None
    """None unless asked for."""
    approximation: Approximation | None
    """How far off it is, or would have been; None unless asked for."""
    scope: Scope
    """What was replayed; a REST call opens the vault before (``node.local`` times the whole)."""

    @property
    @abstractmethod
    def samples(self) -> int:
        """How many runs there were, with those that failed."""

    @property
    @abstractmethod
    def failed(self) -> int:
        """How many of the runs failed: TCP gave up a connection, or an answer came later than the
        service waits. Mean, deviation, percentiles and curves are of the others."""

    @property
    @abstractmethod
    def mean_ms(self) -> float: ...

    @property
    @abstractmethod
    def std_ms(self) -> float: ...

    @abstractmethod
    def _quantiles(self, shares: Floats) -> Floats:
        """The times within which these shares of the runs that do not fail finish."""

    @abstractmethod
    def share_within(self, ms: float) -> float:
        """Share of all runs that finish within so many milliseconds."""

    @abstractmethod
    def curve(self) -> Floats:
        """For pictures: times, or quantiles at levels that are evenly spread."""

    def percentile(self, percent: float) -> float:
        """The time within which ``percent`` of the runs that do not fail finish.

        Raises:
            UsageError: not between 0 and 100.
        """
        return self.percentiles([percent])[percent]

    def percentiles(self, percents: Iterable[float] = (50, 90, 95, 99, 99.9)) -> dict[float, float]:
        """Several at once.

        Raises:
            UsageError: one is not between 0 and 100.
        """
        asked = list(percents)
        for percent in asked:
            if not 0 <= percent <= 100:
                raise UsageError(f"percentile {percent}: not between 0 and 100")
        found = self._quantiles(np.array(asked) / 100)
        return dict(zip(asked, map(float, found), strict=True))

    def cdf(self, points: int = 501) -> tuple[Floats, Floats]:
        """The distribution function, for plots: times, and the share of runs finished by then.

        Args:
            points: how many, evenly spread over the probabilities from 0 to 1.

        Raises:
            UsageError: fewer than two points.
        """
        if points < 2:
            raise UsageError(f"a distribution function of {points} points: at least 2 are needed")
        shares = np.linspace(0.0, 1.0, points)
        return self._quantiles(shares), shares

    def plot(self) -> Chart:
        """The share of the runs that take longer, on a logarithmic scale, with the percentiles as
        dots; needs matplotlib.

        >>> figure = graph.replay(Network.preset("tokyo", access="lte"), 1_000).plot()

        Raises:
            UsageError: a run took no time, which has no place on the scale.
        """
        from mpcsim.sim import figures

        over = f" over {self.network}" if self.network else ""
        title = f"{self.name}{over}, {self.samples:,} samples, scope {self.scope}"
        return figures.tail_plot({title: {"": self.curve()}})

    def notes(self) -> list[str]:
        """What one must know of the times."""
        notes = [str(self.approximation)] if self.approximation is not None else []
        if self.failed:
            notes.insert(
                0,
                f"{self.failed:,} of {self.samples:,} failed ({self.failed / self.samples:.3g} of "
                "them all): given up by TCP or by the service; mean and percentiles are of the "
                "others",
            )
        return notes

    def __str__(self) -> str:
        at = self.percentiles()
        lines = [
            f"{self.name} over {self.network}, {self.samples:,} samples, compute {self.compute}, "
            f"scope {self.scope}",
            f"  mean {self.mean_ms:.2f} ms, standard deviation {self.std_ms:.2f} ms",
            "  " + ", ".join(f"{percent:g}%: {ms:.2f} ms" for percent, ms in at.items()),
        ]
        lines += [f"  {note}" for note in self.notes()]
        if self.explanation is not None:
            found = self.explanation
            split = (f"{part} {ms:.2f}" for part, ms in found.split_ms.items() if ms)
            lines.append("  mean by part, ms: " + ", ".join(split))
            for name, share in sorted(found.links.items(), key=lambda item: -item[1].mean_ms):
                if share.probability:
                    lines.append(
                        f"  {name}: on the critical path of {share.probability:.1%}, "
                        f"{share.mean_ms:.2f} ms on average"
                    )
            if len(found.last) > 1:
                last = (f"party {i} {share:.1%}" for i, share in found.last.items())
                lines.append("  finishes last: " + ", ".join(last))
        return "\n".join(lines)


@dataclass(frozen=True)
class Replay(CompletionTimes):
    """Finishing times of many runs, one by one."""

    name: str
    network: str
    compute: str
    seed: int
    finished_ms: Floats = field(repr=False)
    """When the last party finished, for each sample; infinite for those that failed."""
    parties_ms: Mapping[PartyId, Floats] = field(repr=False)
    """When each party finished; empty unless asked for."""
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
        """The finishing times of the runs that did not fail."""
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

    def share_within(self, ms: float) -> float:
        return float(np.count_nonzero(self.finished_ms <= ms)) / self.samples

    def curve(self) -> Floats:
        return self.answered_ms


@dataclass(frozen=True)
class Distribution(CompletionTimes):
    """Finishing times of any number of runs: how often each occurred, to 0.1 %."""

    name: str
    network: str
    compute: str
    seed: int
    finished: QuantileSketch
    """When the last party finished; of the runs that did not fail."""
    parties: Mapping[PartyId, QuantileSketch] = field(repr=False)
    """When each party finished; empty unless asked for."""
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
        """Where the true percentile lies, so surely; each end within 0.1 %, too.

        Raises:
            UsageError: percent is not between 0 and 100, or confidence not between 0 and 1.
        """
        return self.finished.interval(percent / 100, confidence)

    def _quantiles(self, shares: Floats) -> Floats:
        return self.finished.quantiles(shares)

    def share_within(self, ms: float) -> float:
        return self.finished.cdf(ms) * self.finished.count / self.samples

    def curve(self) -> Floats:
        return self.cdf(CURVE_POINTS)[0]

    def notes(self) -> list[str]:
        return [f"none of the samples kept: percentiles to {ERROR:.1%}", *super().notes()]
