"""Tails and quantiles: the curves go where the samples are."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.axes import Axes

from mpcsim.sim.figures import Chart, tail_plot

NEAR = np.linspace(100.0, 140.0, 2000)
FAR = np.geomspace(100.0, 4000.0, 2000)
"""More than a magnitude: on a logarithmic scale."""
STAIR = np.repeat([100.0, 200.0, 1000.0], [900, 90, 10])


def two_tails() -> Chart:
    groups = {"near": {"one": NEAR, "two": NEAR + 20}, "far": {"one": FAR, "three": STAIR}}
    return tail_plot(groups)


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


def test_a_curve_ends_where_less_than_one_of_its_times_takes_longer() -> None:
    (axes,) = tail_plot({"": {"all": NEAR, "few": NEAR[::20]}}).axes
    assert curve(axes, "all")[1].min() == pytest.approx(0.001)
    assert curve(axes, "few")[1].min() == pytest.approx(0.01)
