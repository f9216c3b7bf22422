"""What tests of services under load have in common."""

from __future__ import annotations

import pytest

from mpcsim.capacity.model.costs import Costs
from tests.helpers.made_up_costs import made_up


@pytest.fixture
def costs(monkeypatch: pytest.MonkeyPatch) -> Costs:
    """Made up for a signature; the ones that are loaded if a test says none, or a file."""
    found = made_up()
    monkeypatch.setattr(Costs, "load", lambda path: found)
    monkeypatch.setattr(Costs, "measured", lambda: found)
    return found
