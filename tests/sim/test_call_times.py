"""Percentiles of repeated calls and their intervals, against tables and by trying."""

import math

import numpy as np
import pytest

from mpcsim.errors import UsageError
from mpcsim.sim.call_times import CallTimes


def of(times, **options) -> CallTimes:
    return CallTimes(np.array(times, dtype=np.float64), 0.0, "star", "virtual", **options)


def ranked(n: int) -> CallTimes:
    """The k-th smallest time is k, so that ends of intervals are ranks."""
    return of(np.random.default_rng(1).permutation(np.arange(1, n + 1)))


@pytest.mark.parametrize(
    ("n", "low", "high"),
    # Ranks for the median at 95 %: e.g. Hollander, Wolfe and Chicken, Nonparametric Statistical
    # Methods, section 3.6, from the binomial distribution.
    [(6, 1, 6), (10, 2, 9), (20, 6, 15), (30, 10, 21), (50, 18, 33), (100, 40, 61)],
)
def test_the_median_lies_between_the_ranks_of_the_tables(n: int, low: int, high: int) -> None:
    found = ranked(n).p50
    assert (found.low_ms, found.high_ms) == (low, high)
    assert found.ms == pytest.approx((n + 1) / 2)


@pytest.mark.parametrize(
    ("percent", "enough"),
    # As many as make 1 - share ** n at least 97.5 %: below that the largest time may be too small.
    [(50, 6), (95, 72), (99, 368), (99.9, 3688)],
)
def test_too_few_calls_leave_an_end_open(percent: float, enough: int) -> None:
    assert ranked(enough - 1).percentile(percent).high_ms == math.inf
    found = ranked(enough).percentile(percent)
    assert found.high_ms == enough
    assert [str(ranked(n).p50) for n in (5, 6)] == ["p50 3.00 ms (-)", "p50 3.50 ms (1.00 to 6.00)"]


@pytest.mark.parametrize("confidence", [0.8, 0.95])
@pytest.mark.parametrize("percent", [50, 95, 99])
def test_intervals_hold_the_truth_as_often_as_they_say(percent: float, confidence: float) -> None:
    """Of a heavy-tailed distribution, whose percentiles are known."""
    truth = (1 - percent / 100) ** -0.5
    generator, runs = np.random.default_rng(7), 400
    found = [of(1 + generator.pareto(2, 500)).percentile(percent, confidence) for _ in range(runs)]
    held = sum(each.low_ms <= truth <= each.high_ms for each in found) / runs
    # At least as often; ranks are whole, so a little more. Three standard errors of the count.
    assert confidence - 0.04 < held < confidence + 0.1


@pytest.mark.parametrize("percent", [-1, 0, 100, math.nan])
def test_bad_percentiles(percent: float) -> None:
    with pytest.raises(UsageError, match="percentile"):
        ranked(10).percentile(percent)
    with pytest.raises(UsageError, match="confidence"):
        ranked(10).percentile(50, 1.0)
