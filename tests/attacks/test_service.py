"""The compromise matrix: every row of the table, every attack that is known, as documented."""

import pytest

from mpcsim.attacks.service.builds import PRODUCT
from mpcsim.attacks.service.catalogue import (
    ENTRIES,
)
from mpcsim.attacks.service.model import observe

REFUSED = [entry for entry in ENTRIES if entry.research is not None]


def named(entry):
    return entry.id


@pytest.mark.parametrize("entry", ENTRIES, ids=named)
def test_the_service_as_it_is(entry):
    cell = observe(entry)
    assert cell.as_expected, cell


@pytest.mark.parametrize("entry", REFUSED, ids=named)
def test_without_the_check_the_attack_succeeds(entry):
    build = entry.research()
    cell = observe(entry, build)
    assert cell.as_expected, cell
    assert repr(build).startswith("RESEARCH: ")
    assert cell.build is not PRODUCT
