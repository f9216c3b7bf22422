"""Tails and quantiles: the curves go where the samples are."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.axes import Axes

from mpcsim.errors import UsageError
from mpcsim.sim.figures import Chart, quantile_plot, tail_plot

NEAR = np.linspace(100.0, 140.0, 2000)
FAR = np.geomspace(100.0, 4000.0, 2000)
"""More than a magnitude: on a logarithmic scale."""
STAIR = np.repeat([100.0, 200.0, 1000.0], [900, 90, 10])


def two_tails() -> Chart:
    groups = {"near": {"one": NEAR, "two": NEAR + 20}, "far": {"one": FAR, "three": STAIR}}
    return tail_plot(groups)


def three_cases() -> Chart:
    pairs = {"first": (NEAR, NEAR + 1), "second": (FAR, FAR * 1.1)}
    return quantile_plot({"0 %": pairs, "1 %": pairs, "2 %": {"second": (STAIR, STAIR)}})


# ---------------------------------------------------------------------- tails


def curve(axes: Axes, label: str) -> tuple[np.ndarray, np.ndarray]:
    (line,) = (each for each in axes.lines if each.get_label() == label)
    return np.asarray(line.get_xdata()), np.asarray(line.get_ydata())


def test_a_curve_is_the_share_that_takes_longer() -> None:
    near, far = two_tails().axes
    assert [axes.get_xlabel() for axes in (near, far)] == ["time (ms)"] * 2
    times, shares = curve(near, "one")
    for ms in (100.0, 110.0, 139.0):
        assert np.interp(ms, times, shares) == pytest.approx(np.mean(ms < NEAR), abs=0.01)
    times, shares = curve(far, "three")
    assert {100.0, 200.0, 1000.0} == set(times)
    assert shares[times == 100.0].min() == pytest.approx(0.1, rel=0.03)
    assert shares[times == 200.0].min() == pytest.approx(0.01, rel=0.03)
    assert shares[times == 1000.0].min() == pytest.approx(0.001)


def test_the_scale_is_logarithmic_from_a_magnitude_on() -> None:
    found = [tail_plot({"": {"all": times}}).axes[0].get_xscale() for times in (NEAR, FAR)]
    assert found == ["linear", "log"]


def test_a_curve_ends_where_less_than_one_of_its_times_takes_longer() -> None:
    (axes,) = tail_plot({"": {"all": NEAR, "few": NEAR[::20]}}).axes
    assert curve(axes, "all")[1].min() == pytest.approx(0.001)
    assert curve(axes, "few")[1].min() == pytest.approx(0.01)


def percentiles(axes: Axes, label: str) -> dict[float, float]:
    (line,) = (each for each in axes.lines if each.get_gid() == f"percentiles {label}")
    times, shares = np.asarray(line.get_data(), dtype=float)
    return {round(100 * (1 - share), 3): ms for ms, share in zip(times, shares, strict=True)}


def test_percentiles_are_dots_on_the_curve() -> None:
    (axes,) = tail_plot({"": {"all": FAR, "few": FAR[::20]}}).axes
    for percent, ms in percentiles(axes, "all").items():
        assert ms == pytest.approx(np.percentile(FAR, percent), rel=0.01)
    assert list(percentiles(axes, "all")) == [50.0, 95.0, 99.0, 99.9]
    assert list(percentiles(axes, "few")) == [50.0, 95.0, 99.0], "100 times have no 99.9"


# ---------------------------------------------------------------------- quantiles


def dots(axes: Axes, label: str) -> tuple[np.ndarray, np.ndarray]:
    lines = [line for line in axes.lines if line.get_gid() == f"quantiles {label}"]
    assert len(lines) == 2, "small ones and large ones"
    found = [np.concatenate([np.asarray(line.get_data()[k]) for line in lines]) for k in (0, 1)]
    return found[0], found[1]


def test_quantiles_are_on_the_diagonal_where_both_agree() -> None:
    axes = three_cases().axes
    assert axes[1].get_xlabel().endswith(" (ms)")
    x, y = dots(axes[5], "second")
    assert (x == y).all()
    x, y = dots(axes[1], "first")
    assert y == pytest.approx(x + 1)
    x, y = dots(axes[1], "second")
    assert y == pytest.approx(1.1 * x)
    assert x[-3:] == pytest.approx(np.quantile(FAR, (0.5, 0.95, 0.99)), rel=0.01)


# ---------------------------------------------------------------------- what cannot be shown


@pytest.mark.parametrize("times", [[], [0.0, 1.0], [1.0, -1.0], [1.0, np.nan], [np.inf]], ids=str)
def test_times_that_are_none(times: list[float]) -> None:
    with pytest.raises(UsageError, match="slow, all: no times, or some"):
        tail_plot({"slow": {"all": times}})
    with pytest.raises(UsageError, match="slow, all: no times, or some"):
        quantile_plot({"slow": {"all": (NEAR, times)}})


def test_nothing_or_too_much() -> None:
    for groups in ({}, {"empty": {}}):
        with pytest.raises(UsageError, match="no distribution to show"):
            tail_plot(groups)
        with pytest.raises(UsageError, match="no distribution to show"):
            quantile_plot(groups)
    with pytest.raises(UsageError, match="1 pictures with 7 labels"):
        tail_plot({"": {str(k): NEAR for k in range(7)}})
    with pytest.raises(UsageError, match="taller than a screen"):
        tail_plot({str(k): {"": NEAR} for k in range(10)})
    with pytest.raises(UsageError, match="4 pictures with 1 labels"):
        quantile_plot({str(k): {"": (NEAR, NEAR)} for k in range(4)})
    for lowest in (0.0, 1.0, float("nan")):
        with pytest.raises(UsageError, match="lowest is"):
            tail_plot({"": {"all": NEAR}}, lowest=lowest)
