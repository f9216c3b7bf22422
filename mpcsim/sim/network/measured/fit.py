"""Fits of latency distributions to measured round trips, and the choice among them.

A link needs one-way latencies, and a round trip does not show how it divides. **Assumed is half of
it each way.** In a parametric family both ways have the same distribution, independent of each
other, such that the sum of two draws is distributed as the round trips are. The samples themselves
(``empirical``, ``Bursts``) have no such half; there the least round trip divides in half, and the
excess over it is put on the way from a to b. Round trips, and exchanges of a request and an answer,
are then as measured, bursts included; a message one way only gets too much from a to b and too
little back.

Chosen is the nearest family whose tail agrees with the samples (p95, p99, p99.9, the mean of the
slowest percent), or the samples if there is none. One-way measurements are fitted as they are, and
taken for the way back, too, unless that was measured as well.

A family's parameters are those of least Wasserstein distance, found from the moments on; the floor
is never above the least measured. The distance is the area between the distribution functions of
measured and simulated round trips, in milliseconds: the mean error of a time. The
Kolmogorov-Smirnov distance is the greatest difference between them.

Times are milliseconds. The same series gives the same fit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from mpcsim.errors import UsageError, unknown
from mpcsim.sim.network.bursts import Bursts
from mpcsim.sim.network.latency import (
    Constant,
    Empirical,
    Gamma,
    Latency,
    LogNormal,
    Normal,
    Pareto,
)
from mpcsim.sim.network.measured.series import Series
from mpcsim.sim.network.presets import jittered_latency
from mpcsim.sim.rich_display import PERCENTS, Table, counted, interval_text
from mpcsim.sim.statistics.order_statistics import enclosing_ranks, interval_of
from mpcsim.sim.streams import generator

__all__ = ["DISTRIBUTIONS", "Candidate", "Fit", "Times", "fit"]

FEW: Final = 30
"""Number of samples below which a 95th percentile is one or two of them."""
POOR_KS: Final = 0.1
"""KS distance above which a fit is poor, unless chance gives as much: 1.36 / sqrt(n), 5 % level."""
TAIL_AT: Final = (95.0, 99.0, 99.9)
TAIL_OFF: Final = 0.1
"""Relative error of a tail that is accepted."""
SURE: Final = 0.999
"""Confidence with which a percentile must differ to count."""
STANDARD_ERRORS: Final = 4.0
HARDLY_A_TAIL: Final = 100.0
"""Exponent of a Pareto distribution above which it is practically exponential."""
DRAWS: Final = 40_000
SEARCH_DRAWS: Final = 3_000
QUANTILES: Final = (np.arange(500) + 0.5) / 500
WORTHWHILE: Final = 0.999
"""Factor by which a step of the search must shorten the distance."""
SEED: Final = 1

Times = NDArray[np.float64]


@dataclass(frozen=True)
class Candidate:
    """Candidate distribution, and its distances from the measured round trips."""

    name: str
    one_way: Latency
    """Latency from a to b, one way; and back, unless ``back`` is given."""
    back: Latency | None = None
    ks: float | None = None
    """Kolmogorov-Smirnov distance, 0 to 1; None: there are no samples to compare with."""
    distance_ms: float | None = None
    """Wasserstein distance."""
    tail: tuple[str, ...] = ()
    """Significant differences of the tail, in words."""
    doubled: bool = False
    """Whether both ways take the same time: times were measured one way."""

    @property
    def round_trip_mean_ms(self) -> float:
        """Mean round trip, the sum of both ways."""
        return self.one_way.mean_ms + (self.back or self.one_way).mean_ms

    def round_trips(self, n: int) -> Times:
        """Return simulated round trips, in ascending order: one draw each way."""
        source = generator(SEED, "round trips")
        found = self.one_way.series(source, n)
        found = found + (found if self.doubled else (self.back or self.one_way).series(source, n))
        found.sort()
        return found

    def __str__(self) -> str:
        return f"{self.one_way}" + (f"; back {self.back}" if self.back is not None else "")


@dataclass(frozen=True)
class Fit:
    """Fit of one measured series: candidate distributions, and the chosen one."""

    series: Series
    candidates: tuple[Candidate, ...]
    """Candidates, the nearest first."""
    chosen: Candidate
    neighbours: float = 0.0
    """Rank correlation of successive samples."""
    memory: int = 0
    """Lag, in samples, after which the correlation is within its noise."""
    warnings: tuple[str, ...] = ()

    @property
    def headline(self) -> str:
        """Measurement, and the distribution that was chosen for it."""
        series = self.series
        what = "one-way time" if series.one_way else "round trip"
        count = counted(series.moments.count, what) if series.rtt_ms else "a summary"
        return f"{series.a} - {series.b}: {self.chosen.name} for {count}: {self.chosen}"

    def table(self) -> Table:
        """Return a table of the measured round trips and those of each distribution."""
        moments = self.series.moments
        times_of = (f"p{percent:g} ms" for percent in PERCENTS)
        head = ("round trips", "one way", "KS", "off by ms", "mean ms", *times_of)
        rows = []
        if self.series.rtt_ms:
            times = np.sort(self.series.rtt_ms)
            rows.append(("measured", "", "", "", *_format_statistics(moments.mean_ms, times)))
            if not self.memory:  # it would be too narrow: successive times depend on each other
                ends = [interval_of(times, percent, 0.95) for percent in PERCENTS]
                intervals = (interval_text(low or -math.inf, high, ".3g") for low, high in ends)
                rows.append(("95 % interval", "", "", "", "", *intervals))
        else:
            rows.append(("measured", "", "", "", _format_ms(moments.mean_ms), "", "", ""))
        for each in self.candidates:
            taken = " *" if each is self.chosen else ""
            simulated = each.round_trips(DRAWS)
            rows.append(
                (
                    each.name + taken,
                    str(each),
                    "" if each.ks is None else f"{each.ks:.3f}",
                    "" if each.distance_ms is None else _format_ms(each.distance_ms),
                    *_format_statistics(each.round_trip_mean_ms, simulated),
                )
            )
        return Table(head, rows, frozenset(head[2:]))


def fit(series: Series, distribution: str | None = None, blocks: int | None = None) -> Fit:
    """Fit distributions to a series and choose one.

    Args:
        distribution: name in ``DISTRIBUTIONS`` of the one to choose; by default the nearest.
        blocks: block length in which the order of the samples is kept (``Bursts``).

    Raises:
        UsageError: unknown distribution, one that does not go with such samples, both arguments;
            blocks of samples whose order is not known, or longer than half of them.
    """
    if distribution is not None and blocks is not None:
        raise UsageError(f"blocks are of the samples themselves, not of a {distribution}")
    if distribution is not None and distribution not in DISTRIBUTIONS:
        raise UsageError(unknown("distribution", distribution, DISTRIBUTIONS))
    if blocks is not None:
        _check_blocks(series, blocks)
    warnings = []
    times = np.array(series.rtt_ms)
    if len(times) > 1:
        candidates = _compare_families(times, series.one_way)
        neighbours, memory = _correlation_lag(times)
        if len(times) < FEW:
            warnings.append(f"only {counted(len(times), 'round trip')}: the tail is a guess")
    else:
        candidates = _without_samples(series)
        neighbours, memory = 0.0, 0
    if blocks is not None:
        if series.runs:
            warnings.append(
                f"{len(series.runs)} runs follow each other: a block may begin in one and end in "
                "the next"
            )
        there, back = _split_round_trips(times, series.one_way)
        chosen = _candidate("bursts", Bursts(there, blocks), times, back, series.one_way)
        candidates = (chosen, *candidates)
    elif distribution is not None:
        named = [each for each in candidates if each.name == distribution]
        if not named:
            raise UsageError(
                f"{series.a} - {series.b}: these round trips allow no {distribution} (only "
                + ", ".join(each.name for each in candidates)
                + ")"
            )
        chosen = named[0]
    else:
        families = [each for each in candidates if each.name in _FAMILIES] or [candidates[0]]
        near = [each for each in families if each.ks is None or each.ks <= _poor_ks(times)]
        chosen = next((each for each in near if not each.tail), families[0])
        if chosen not in near or chosen.tail:
            nearest, chosen = chosen, next(e for e in candidates if e.name == "empirical")
            why = f"is off by up to {nearest.ks:.0%} of the round trips"
            if near:
                nearest = near[0]
                why = f"has {'; '.join(nearest.tail)}"
            warnings.append(
                f"no family fits (the nearest, {nearest.name}, {why}): the samples themselves are "
                "taken"
            )
    if chosen.tail:
        warnings.append(f"{chosen.name} has another tail: {'; '.join(chosen.tail)}")
    if chosen.ks is not None and chosen.ks > _poor_ks(times):
        warnings.append(
            f"{chosen.name} fits poorly: shares of round trips below a time are off by up to "
            f"{chosen.ks:.0%}"
        )
    if memory and blocks is None and series.in_order:
        block = min(2 * memory, len(times) // 4)
        warnings.append(
            f"round trips come in bursts (correlation of neighbours {neighbours:.2f}, gone after "
            f"{counted(memory, 'sample')}), which independent draws forget: --blocks={block} keeps "
            "them"
        )
    return Fit(series, candidates, chosen, neighbours, memory, tuple(warnings))


# ------------------------------------------------------------------ families


def _log_normal(mean: float, std: float, floor: float) -> Latency:
    return LogNormal.with_mean(mean, std, floor)


def _gamma(mean: float, std: float, floor: float) -> Latency:
    return Gamma(mean, ((mean - floor) / std) ** 2, floor)


def _normal(mean: float, std: float, floor: float) -> Latency:
    return Normal(mean, std, floor)


def _pareto(mean: float, std: float, floor: float) -> Latency:
    ratio = (std / (mean - floor)) ** 2
    if ratio <= 1:
        raise UsageError("its standard deviation exceeds its mean")
    alpha = 2 * ratio / (ratio - 1)
    if alpha > HARDLY_A_TAIL:
        raise UsageError("it is an exponential distribution, and gamma has that")
    return Pareto((mean - floor) * (alpha - 1), alpha, floor)


_FAMILIES: Final[Mapping[str, Callable[[float, float, float], Latency]]] = {
    "log-normal": _log_normal,
    "gamma": _gamma,
    "pareto": _pareto,
    "normal": _normal,
}
"""Families of one-way latencies, made of mean, standard deviation and floor."""

DISTRIBUTIONS: Final = (*_FAMILIES, "empirical", "constant")
"""Names of distributions that can be chosen."""


def _compare_families(times: Times, one_way: bool) -> tuple[Candidate, ...]:
    """Return a candidate for each distribution that allows these round trips, nearest first."""
    mean, std, least = float(times.mean()), float(times.std()), float(times.min())
    made: list[tuple[str, Latency]] = [("constant", Constant(mean / 2))]
    if std > 1e-9 * mean:
        for name, family in _FAMILIES.items():
            best = _search(family, times, mean, std, least, one_way)
            if best is not None:
                made.append((name, best))
    there, back = _split_round_trips(times, one_way)
    compared = [_candidate("empirical", Empirical(there), times, back, one_way)]
    compared += [_candidate(name, latency, times, None, one_way) for name, latency in made]
    return tuple(sorted(compared, key=lambda each: each.distance_ms or 0.0))


def _candidate(
    name: str, one_way: Latency, times: Times, back: Latency | None, doubled: bool
) -> Candidate:
    simulated = Candidate(name, one_way, back, doubled=doubled).round_trips(DRAWS)
    return Candidate(
        name,
        one_way,
        back,
        _ks_distance(times, simulated),
        _wasserstein_distance(times, simulated),
        tuple(_tail_differences(np.sort(times), simulated)) if name in _FAMILIES else (),
        doubled,
    )


def _split_round_trips(times: Times, one_way: bool) -> tuple[tuple[float, ...], Constant | None]:
    """Return the samples from a to b, and the constant way back; None: the same both ways."""
    if one_way:
        return tuple((times / 2).tolist()), None
    half = float(times.min()) / 2
    return tuple((times - half).tolist()), Constant(half)


def _poor_ks(times: Times) -> float:
    return max(POOR_KS, 1.36 / math.sqrt(len(times)))


def _search(
    family: Callable[[float, float, float], Latency],
    times: Times,
    mean: float,
    std: float,
    least: float,
    doubled: bool,
) -> Latency | None:
    """Return the nearest member of a family, by compass search over mean, deviation and floor.

    It begins at the measured moments, with the floor just below the least, and halves its steps
    until they are a percent.
    """
    gap = max(mean - least, 1e-6 * mean)
    measured = np.quantile(times, QUANTILES)

    def made(factors: tuple[float, float, float]) -> tuple[float, Latency | None]:
        floor = max(0.0, least - 0.05 * factors[2] * gap)
        centre = floor + (mean - floor) * factors[0]
        try:
            spread = std / 2 if doubled else std / math.sqrt(2)
            latency = family(centre / 2, factors[1] * spread, floor / 2)
        except UsageError:
            return math.inf, None
        return _quantile_distance(
            measured, Candidate("", latency, doubled=doubled).round_trips(SEARCH_DRAWS)
        ), latency

    at = (1.0, 1.0, 1.0)
    distance, best = made(at)
    step = 0.4
    while step > 0.01:
        better = False
        for near in _neighbouring_parameters(at, step):
            far, latency = made(near)
            if far < WORTHWHILE * distance:
                distance, best, at, better = far, latency, near, True
        if not better:
            step /= 2
    return best


def _neighbouring_parameters(
    at: tuple[float, float, float], step: float
) -> Iterator[tuple[float, float, float]]:
    for axis in range(3):
        # The floor's distance spans magnitudes; mean and standard deviation do not.
        factor = 1 + step * (4 if axis == 2 else 1)
        for by in (factor, 1 / factor):
            moved = list(at)
            moved[axis] *= by
            yield moved[0], moved[1], moved[2]


def _without_samples(series: Series) -> tuple[Candidate, ...]:
    """Return candidates for a summary, or for a single number."""
    moments = series.moments
    varying: dict[str, Latency]
    if series.summary is None or moments.std_ms == 0 or moments.mean_ms <= moments.least_ms:
        varying = {"log-normal": jittered_latency(moments.mean_ms)}
    else:
        spread = moments.std_ms / (2 if series.one_way else math.sqrt(2))
        of_one_way = moments.mean_ms / 2, spread, moments.least_ms / 2
        varying = {"log-normal": _log_normal(*of_one_way), "gamma": _gamma(*of_one_way)}
    made = varying | {"constant": Constant(moments.mean_ms / 2)}
    return tuple(Candidate(name, each, doubled=series.one_way) for name, each in made.items())


# ------------------------------------------------------------------ goodness


def _ks_distance(times: Times, simulated: Times) -> float:
    """Return the greatest difference of the distribution functions, at the measured times."""
    values, counts = np.unique(times, return_counts=True)
    upto = np.cumsum(counts) / len(times)
    before = upto - counts / len(times)
    right = np.searchsorted(simulated, values, side="right") / len(simulated)
    left = np.searchsorted(simulated, values, side="left") / len(simulated)
    return float(max(np.abs(upto - right).max(), np.abs(before - left).max()))


def _tail_differences(times: Times, simulated: Times) -> Iterator[str]:
    """Yield the tail's differences of more than a tenth that are not due to chance.

    A percentile differs if it is outside of the order statistics that enclose the measured one; the
    mean of the slowest percent, or of fewer than a hundred the slowest one, if it is off by more
    than ``STANDARD_ERRORS``.

    Args:
        times: in ascending order, as ``simulated``.
    """
    for percent in TAIL_AT:
        measured, ours = (float(np.percentile(each, percent)) for each in (times, simulated))
        low, high = enclosing_ranks(len(times), percent / 100, SURE)
        beyond = (low > 0 and ours < times[low - 1]) or (
            high <= len(times) and ours > times[high - 1]
        )
        if beyond and abs(ours / measured - 1) > TAIL_OFF:
            yield f"p{percent:g} {_format_ms(ours)} ms instead of {_format_ms(measured)}"
    n = max(1, len(times) // 100)
    slowest = simulated[-(len(simulated) * n // len(times)) :]
    measured, ours = float(times[-n:].mean()), float(slowest.mean())
    error = math.sqrt((float(slowest.var()) + (ours - float(slowest[0])) ** 2) / n)
    if abs(measured - ours) > max(STANDARD_ERRORS * error, TAIL_OFF * measured):
        which = "in the slowest percent" if len(times) >= 100 else "for the slowest"
        yield f"{_format_ms(ours)} ms {which} instead of {_format_ms(measured)}"


def _wasserstein_distance(times: Times, simulated: Times) -> float:
    return _quantile_distance(np.quantile(times, QUANTILES), simulated)


def _quantile_distance(quantiles: Times, simulated: Times) -> float:
    """Return the mean difference of quantiles; simulated times are sorted, and many."""
    return float(np.abs(quantiles - simulated[(QUANTILES * len(simulated)).astype(int)]).mean())


def _correlation_lag(times: Times) -> tuple[float, int]:
    """Return the correlation of neighbours, and the lag at which it is within its noise."""
    n = len(times)
    # Ranks: a single outlier would hide the rest. Equal times share one: in the order of the series
    # theirs would rise with time.
    _, place, counts = np.unique(times, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - counts / 2)[place]
    ranks -= ranks.mean()
    power = float(ranks @ ranks)
    if n < FEW or len(counts) < 3:
        return 0.0, 0
    noise = 2 / math.sqrt(n)

    def correlation(lag: int) -> float:
        return float(ranks[:-lag] @ ranks[lag:]) / power

    neighbours = correlation(1)
    if neighbours < 1.5 * noise:
        return neighbours, 0
    lag = next((lag for lag in range(2, n // 2) if correlation(lag) < noise), n // 2)
    return neighbours, lag


def _check_blocks(series: Series, blocks: int) -> None:
    where = f"{series.a} - {series.b}"
    if len(series.rtt_ms) < 2:
        raise UsageError(f"{where}: blocks need the samples one by one, and there are none")
    if not series.in_order:
        raise UsageError(
            f"{where}: blocks keep the samples' order, but time goes backwards in the file: sort it"
        )
    if not 1 <= blocks <= len(series.rtt_ms) // 2:
        raise UsageError(
            f"{where}: blocks of {blocks} from {counted(len(series.rtt_ms), 'sample')}: from 1 to "
            f"{len(series.rtt_ms) // 2}"
        )


def _format_statistics(mean: float, times: Times) -> tuple[str, ...]:
    return tuple(map(_format_ms, (mean, *np.percentile(times, PERCENTS))))


def _format_ms(ms: float) -> str:
    return f"{ms:.3g}" if ms < 100 else f"{ms:.0f}"
