"""The picture of measured round trips and their fit."""

from __future__ import annotations

from pathlib import Path

import pytest

from mpcsim.errors import UsageError
from mpcsim.sim.figures import measured_links
from mpcsim.sim.network.measured import fit, read
from tests.vectors.network import make

FOLDER = Path(make.__file__).parent


@pytest.mark.parametrize("name", ["mtr.json", "regions.csv"])
def test_links_without_samples(name: str) -> None:
    figure = measured_links([fit(read(FOLDER / name).series[0])])
    assert "no samples to compare with" in [text.get_text() for text in figure.axes[1].texts]


def test_nothing_to_show() -> None:
    with pytest.raises(UsageError, match="no fit to show"):
        measured_links([])
