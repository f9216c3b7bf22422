"""Identities of the MPC nodes as text."""

import pytest

from mpcsim.ids import INSTITUTION, OPERATOR
from mpcsim.service.rpc import pinned_identities

ONE, TWO = 64 * "1", 64 * "a"
KNOWN = {OPERATOR: bytes.fromhex(ONE), INSTITUTION: bytes.fromhex(TWO)}


READ = [
    f"operator={ONE},institution={TWO}",
    f"institution={TWO},operator={ONE}",
    f" operator = {ONE} , institution = {TWO.upper()} ",
]


@pytest.mark.parametrize("text", READ)
def test_what_is_read(text):
    assert pinned_identities.parse_identities(text) == KNOWN
    assert pinned_identities.parse_identities(pinned_identities.format_identities(KNOWN)) == KNOWN


NOT_READ = [
    *("", ",", ONE, "operator", f"{ONE},{TWO}"),
    *(f"operator={ONE}", f"operator={ONE},", f"operator={ONE},operator={TWO}"),
    f"operator={ONE},institution={TWO},institution={TWO}",
    f"operator={ONE},institution={TWO},client={ONE}",
    f"operator={ONE},institution={TWO}1",
    f"operator={ONE},institution={TWO[1:]}",
    f"operator={ONE},institution={TWO[1:]}g",
    f"operator={ONE};institution={TWO}",
    f"operator={ONE},institution={ONE}",
    f"operator={ONE},institution={TWO[1:]}\u0661",
]


@pytest.mark.parametrize("text", NOT_READ)
def test_what_is_not(text):
    with pytest.raises(ValueError, match="both MPC nodes"):
        pinned_identities.parse_identities(text)
