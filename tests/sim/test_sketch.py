"""Sketches say what numpy says of the times themselves, to their stated error."""

import math
import pickle
from fractions import Fraction
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from mpcsim.errors import UsageError
from mpcsim.sim.statistics.quantile_sketch import BITS, BUCKETS, ERROR, LEAST, MOST, QuantileSketch

LEVELS = (0.0, 0.25, 0.5, 0.9, 0.99, 0.999, 1.0)

TIMES = st.one_of(
    st.floats(0.0, 1e7),
    st.floats(1.0, 2.0),  # many in few buckets
    st.sampled_from([0.0, -0.0, 5e-324, LEAST, np.nextafter(LEAST, 0), 1.0, 1 + ERROR]),
    st.floats(0.0, MOST, exclude_max=True),
)
SOME = arrays(np.float64, st.integers(1, 300), elements=TIMES)


def close(ours: float, exact: float) -> bool:
    return abs(ours - exact) <= ERROR * exact + LEAST


def same_deviation(sketch: QuantileSketch, exact: float) -> bool:
    """But for what times of that size are rounded by."""
    rounded = 8 * np.finfo(float).eps * sketch.greatest
    return math.isclose(sketch.deviation, exact, rel_tol=1e-6, abs_tol=LEAST + rounded)


@given(SOME, st.lists(st.floats(0, 1), max_size=5))
def test_quantiles_are_those_of_the_times(times, levels):
    sketch = QuantileSketch.of(times)
    asked = [*LEVELS, *levels]
    for ours, exact in zip(sketch.quantiles(asked), np.quantile(times, asked), strict=True):
        assert close(ours, exact)
    assert (sketch.count, sketch.least, sketch.greatest) == (len(times), min(times), max(times))
    assert sketch.quantile(0.0) == min(times)
    assert sketch.quantile(1.0) == max(times)
    assert math.isclose(sketch.mean, math.fsum(times) / len(times), abs_tol=LEAST)
    assert same_deviation(sketch, times.std())


@given(SOME)
def test_the_share_within_a_time_is_that_of_a_time_nearby(times):
    sketch = QuantileSketch.of(times)
    for time in (*times[:5], 0.5, 3.0):
        low, high = (
            np.mean(times <= time * (1 - ERROR) - LEAST),
            np.mean(times <= time * (1 + ERROR) + LEAST),
        )
        assert low <= sketch.cdf(float(time)) <= high
    assert sketch.cdf(-1.0) == 0.0
    assert sketch.cdf(math.inf) == 1.0


@given(SOME, st.integers(1, 4))
def test_it_comes_back_from_bytes(times, repeats):
    sketch = QuantileSketch.of(times)
    sketch.add(times, repeats)
    for again in (QuantileSketch.from_bytes(sketch.to_bytes()), pickle.loads(pickle.dumps(sketch))):
        assert again == sketch
        again.add([1.0])
        assert again != sketch
    other = QuantileSketch.of(times)
    other.add(times, repeats)
    assert other.to_bytes() == sketch.to_bytes()


@given(SOME, st.data())
def test_other_bytes_are_refused_or_are_a_sketch(times, data):
    good = QuantileSketch.of(times).to_bytes()
    at = data.draw(st.integers(0, len(good) - 1))
    bad = good[:at] + bytes([data.draw(st.integers(0, 255))]) + good[at + 1 :]
    try:
        found = QuantileSketch.from_bytes(bad)
    except UsageError:
        return
    assert found.to_bytes() == bad
    found.quantiles(LEVELS)


def test_moments_do_not_lose_their_digits():
    # Against fractions: times far from 0 and close together, a billion of each.
    sketch = QuantileSketch()
    for time in (1e6, 1e6 + 1, 1e6 + 2):
        sketch.add([time], 10**9)
    assert sketch.mean == pytest.approx(1e6 + 1, rel=1e-15)
    assert sketch.deviation**2 == pytest.approx(float(Fraction(2, 3)), rel=1e-9)


def test_memory_is_bounded():
    # Every bucket there is, and no more than 12 bytes for it.
    sketch = QuantileSketch()
    for exponent in range(-21, 40):
        sketch.add(2.0**exponent * (1 + np.arange(2**BITS) / 2**BITS))
    assert BUCKETS * 12 - 24 <= len(sketch.to_bytes()) <= BUCKETS * 12 + 64
    few = QuantileSketch.of(np.linspace(20.0, 400.0, 500))
    assert len(few.to_bytes()) <= 500 * 12 + 64


@pytest.mark.parametrize("times", [[-1.0], [math.nan], [1.0, math.inf], [MOST], [3.0, -5e-324]])
def test_what_is_no_time_is_refused_and_changes_nothing(times):
    sketch = QuantileSketch.of([1.0])
    with pytest.raises(UsageError, match="times from"):
        sketch.add(times)
    assert sketch == QuantileSketch.of([1.0])


@pytest.mark.parametrize("level", [-0.1, 1.1, math.nan])
def test_levels_are_checked(level):
    with pytest.raises(UsageError, match="from 0 to 1"):
        QuantileSketch.of([1.0]).quantile(level)
    with pytest.raises(UsageError, match="between 0 and 1"):
        QuantileSketch.of([1.0]).interval(level)


def test_nothing_is_known_of_no_times():
    empty = QuantileSketch()
    empty.add([])
    empty.merge(QuantileSketch())
    assert QuantileSketch.from_bytes(empty.to_bytes()) == empty
    assert empty.count == 0
    assert math.isnan(empty.mean)
    assert math.isnan(empty.deviation)
    for ask in (lambda: empty.quantile(0.5), lambda: empty.cdf(1.0)):
        with pytest.raises(UsageError, match="no times"):
            ask()


def test_intervals_hold_what_they_should_as_often_as_they_say():
    # 400 samples of 1,000 from a distribution whose quantiles are known; 95 % - 4 deviations.
    generator = np.random.default_rng(7)
    for level in (0.5, 0.95):
        true = math.exp(NormalDist(3.0, 0.5).inv_cdf(level))
        hits = 0
        for _ in range(400):
            low, high = QuantileSketch.of(generator.lognormal(3.0, 0.5, 1000)).interval(level)
            hits += low * (1 - ERROR) <= true <= high * (1 + ERROR)
        assert 0.905 <= hits / 400 < 1


def test_so_far_out_that_there_are_too_few_times_an_interval_has_no_end():
    few = QuantileSketch.of(np.arange(1.0, 51.0))
    assert few.interval(0.99)[1] == math.inf
    assert few.interval(0.01)[0] == 0.0
    assert few.interval(0.5)[1] < 50.0
    with pytest.raises(UsageError, match="confidence"):
        few.interval(0.5, 1.0)
