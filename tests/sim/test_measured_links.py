"""The picture of measured round trips and their fit."""

from __future__ import annotations

from pathlib import Path

import pytest

from mpcsim.errors import UsageError
from mpcsim.sim.figures import measured_links
from tests.vectors.network import make

FOLDER = Path(make.__file__).parent


def test_nothing_to_show() -> None:
    with pytest.raises(UsageError, match="no fit to show"):
        measured_links([])
