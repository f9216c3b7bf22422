"""The picture of measured round trips and their fit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mpcsim.errors import UsageError
from mpcsim.sim.figures import measured_links
from mpcsim.sim.network.measured import fit, read
from tests.vectors.network import make

FOLDER = Path(make.__file__).parent


def test_quantiles_of_a_good_fit_are_on_the_diagonal() -> None:
    found = fit(read(FOLDER / "ping_linux.txt").series[0], "empirical")
    left, right = measured_links([found]).axes
    (points,) = [line for line in right.lines if line.get_gid() == "quantiles"]
    x, y = np.asarray(points.get_xdata()), np.asarray(points.get_ydata())
    assert np.abs(x - y)[:-4].max() < 0.6
    assert [text.get_text() for text in left.get_legend().get_texts()] == [
        "measured (593)",
        "empirical",
    ]


@pytest.mark.parametrize("name", ["mtr.json", "regions.csv"])
def test_links_without_samples(name: str) -> None:
    figure = measured_links([fit(read(FOLDER / name).series[0])])
    assert "no samples to compare with" in [text.get_text() for text in figure.axes[1].texts]


def test_nothing_to_show() -> None:
    with pytest.raises(UsageError, match="no fit to show"):
        measured_links([])
