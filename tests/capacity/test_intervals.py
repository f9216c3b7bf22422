"""Intervals of percentiles cover what they say, wherever there is one: against exact M/M/1."""

from __future__ import annotations

import math

import numpy as np
import pytest

from mpcsim.capacity.results.intervals import (
    Interval,
    compare_share,
    interval,
    relaxation_time_s,
    student_t_quantile,
)
from mpcsim.sim.statistics.quantile_sketch import QuantileSketch

SERVICE_S = 0.005
WINDOWS = 60


def mm1_windows(load: float, length_s: float, source: np.random.Generator) -> list[QuantileSketch]:
    """The times of the calls that come in each window of one run, its first tenth left out."""
    count = source.poisson(load / SERVICE_S * length_s)
    due = np.sort(source.uniform(0, length_s, count))
    worked = np.cumsum(source.exponential(SERVICE_S, count))
    ended = worked + np.maximum.accumulate(due - np.concatenate(([0.0], worked[:-1])))
    window = (due / length_s * WINDOWS).astype(int)
    sketches = []
    for k in range(WINDOWS // 10, WINDOWS):
        sketches.append(QuantileSketch())
        sketches[-1].add((ended - due)[window == k] * 1000)
    return sketches


def mm1(load: float, length_s: float, share: float, source: np.random.Generator) -> Interval:
    """The interval of a percentile of one run."""
    sketches = mm1_windows(load, length_s, source)
    return interval(sketches, share, length_s=0.9 * length_s, relaxation_time_s=memory_of(load))


def memory_of(load: float) -> float:
    return relaxation_time_s(load / SERVICE_S, 1 / SERVICE_S)


def exact_ms(load: float, share: float) -> float:
    return -math.log(1 - share) * SERVICE_S / (1 - load) * 1000


def compared(load: float, length_s: float, at: float, runs: int) -> list[str]:
    """On which side of a part of p99 runs find it."""
    source = np.random.default_rng(round(1000 * load + length_s))
    found = []
    for _ in range(runs):
        sketches = mm1_windows(load, length_s, source)
        ms = at * exact_ms(load, 0.99)
        counts = np.array([each.count for each in sketches], float)
        beyond = np.array([each.count and each.count * (1 - each.cdf(ms)) for each in sketches])
        lasts = {"length_s": 0.9 * length_s, "relaxation_time_s": memory_of(load), "error": 0.05}
        found.append(compare_share(counts, beyond, 0.01, **lasts))  # type: ignore[arg-type]
    return found


COMPARED = [(0.3, 20.0), (0.8, 120.0)]
MANY_COMPARED = [(load, s) for load in (0.3, 0.6, 0.8, 0.9, 0.95) for s in (10.0, 60.0, 600.0)]


@pytest.mark.parametrize(
    ("load", "length_s", "runs"),
    [
        *((*cell, 60) for cell in COMPARED),
        *(pytest.param(*cell, 200, marks=pytest.mark.soak) for cell in MANY_COMPARED),
    ],
)
def test_comparisons_err_as_seldom_as_they_say(load: float, length_s: float, runs: int) -> None:
    """On the border each side is wrong; 5 % of either, and chance."""
    found = compared(load, length_s, 1.0, runs)
    most = 0.05 * runs + 2.33 * math.sqrt(0.05 * 0.95 * runs)
    assert found.count("below") <= most
    assert found.count("above") <= most


def test_far_from_the_border_few_calls_decide() -> None:
    """Where an interval of p99 takes 15,000 of them."""
    assert set(compared(0.3, 30.0, 4.0, 30)) == {"below"}
    assert set(compared(0.3, 10.0, 0.25, 30)) == {"above"}
    assert set(compared(0.3, 2.0, 4.0, 10)) == {"unknown"}, "too few to know"
    assert mm1(0.3, 10.0, 0.99, np.random.default_rng(1)).why_none
    none, one = np.zeros(64), np.ones(64) / 64
    for counts, beyond, share, memory, said in (
        (none, none, 0.01, 0.0, "unknown"), (none + 1e3, none, 0.01, math.inf, "unknown"),
        (none + 10, one, 1e-5, 0.0, "above"),
        (none + 100, 64.0 * (one.cumsum() == 0.5), 1e-3, 0.0, "unknown"),  # all in one window
    ):  # fmt: skip
        asked = {"length_s": 60.0, "relaxation_time_s": memory, "error": 0.05}
        assert compare_share(counts, beyond, share, **asked) == said  # type: ignore[arg-type]


def covered(load: float, length_s: float, share: float, runs: int) -> tuple[int, int]:
    """How many runs had an interval, and of those, how many intervals the percentile is in."""
    exact = exact_ms(load, share)
    source = np.random.default_rng(round(1000 * load + length_s))
    found = [mm1(load, length_s, share, source) for _ in range(runs)]
    printed = [each for each in found if not each.why_none]
    return len(printed), sum(each.low_ms <= exact <= each.high_ms for each in printed)


def test_coverage_on_a_small_grid() -> None:
    cells = [(0.3, 20.0, 0.5), (0.8, 60.0, 0.5), (0.6, 60.0, 0.95), (0.3, 300.0, 0.99)]
    counts = [covered(*cell, 30) for cell in cells]
    assert all(printed > 24 for printed, _ in counts)
    assert all(inside >= 0.88 * printed for printed, inside in counts)
    assert sum(inside for _, inside in counts) >= 0.92 * sum(printed for printed, _ in counts)


@pytest.mark.soak
@pytest.mark.parametrize("load", [0.3, 0.5, 0.7, 0.8, 0.9, 0.95])
@pytest.mark.parametrize("length_s", [10.0, 30.0, 120.0, 600.0, 1200.0])
@pytest.mark.parametrize("share", [0.5, 0.95, 0.99])
def test_coverage(load: float, length_s: float, share: float) -> None:
    printed, inside = covered(load, length_s, share, 200)
    chance = 2 * math.sqrt(0.92 * 0.08 * printed)
    assert inside >= 0.92 * printed - chance


@pytest.mark.parametrize(
    ("load", "length_s", "share"), [(0.8, 30.0, 0.99), (0.9, 120.0, 0.99), (0.95, 600.0, 0.95)]
)
def test_too_short_a_run_has_none_and_says_how_long_it_takes(
    load: float, length_s: float, share: float
) -> None:
    found = mm1(load, length_s, share, np.random.default_rng(1))
    assert found.why_none == "the run is too short"
    assert (found.low_ms, found.high_ms) == (0.0, math.inf)
    assert length_s < found.needs_s < math.inf


def test_demand_beyond_capacity_has_none() -> None:
    assert relaxation_time_s(200.0, 190.0) == math.inf
    sketches = [QuantileSketch() for _ in range(WINDOWS)]
    for sketch in sketches:
        sketch.add(np.ones(100))
    found = interval(sketches, 0.5, length_s=1e9, relaxation_time_s=math.inf)
    assert "as many calls come as are possible" in found.why_none
    assert not interval(sketches, 0.5, length_s=1e9, relaxation_time_s=0.0).why_none
    assert interval(sketches[:2], 0.5, length_s=1e9, relaxation_time_s=0.0).why_none
    assert interval(sketches, 1.0, length_s=1e9, relaxation_time_s=0.0).why_none


def test_students_t() -> None:
    assert [round(student_t_quantile(n), 2) for n in (4, 8, 17, 26)] == [2.77, 2.31, 2.11, 2.06]
