"""Every entry in both modes; every row of the table accounted for."""

import re

import pytest

from mpcsim.attacks.catalogue import ATTACKS, NOT_APPLICABLE, REMARKS, ROWS, uncovered
from mpcsim.attacks.gallery import entries
from mpcsim.attacks.model import Effect, Verdict, _list, run_cell
from mpcsim.attacks.picture import OTHER, SERIOUS
from mpcsim.attacks.service import catalogue as matrix
from mpcsim.attacks.service import entries as matrix_entries
from mpcsim.errors import Reason
from tests.attacks.findings import FOUND, in_words
from tests.helpers.repo import ROOT

MODES = {True: "on", False: "off"}


@pytest.mark.parametrize("check_on", MODES, ids=MODES.get)
@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.id)
def test_cell(attack, check_on):
    cell = run_cell(attack, check_on)
    assert cell.observed == cell.expected, f"{cell.observed} ({cell.observed.shown})"
    name, found = in_words(cell)
    assert found == FOUND[name]


def test_check_on_never_succeeds_and_check_off_always_does():
    for attack in ATTACKS:
        assert attack.expected_on.verdict not in (Verdict.BROKEN, Verdict.ERROR), attack.id
        assert attack.expected_off.verdict is Verdict.BROKEN, attack.id
        assert attack.expected_off.effect is not None, attack.id


def test_every_row_of_the_table_is_accounted_for():
    assert len(ROWS) == len(set(ROWS)) == 14 + 15 + 14 + 10
    assert uncovered() == []
    covered = {row for attack in ATTACKS for row in attack.rows}
    assert covered <= set(ROWS)
    assert not covered & set(NOT_APPLICABLE), "a row has an entry and a reason to have none"
    assert set(NOT_APPLICABLE) <= set(ROWS)
    assert all(NOT_APPLICABLE.values())
    assert set(REMARKS) <= covered


def test_a_row_without_an_entry_is_noticed():
    without_rogue_keys = [attack for attack in ATTACKS if attack.id != "D1"]
    assert uncovered(without_rogue_keys) == ["D1"]


def test_an_entry_is_shown_without_its_code_and_parties_in_order():
    assert "function" not in repr(ATTACKS)
    assert _list({3, 1, 2}) == "1, 2, 3"


def test_no_code_is_without_its_entry():
    """The other way round, an entry without code, nothing can be imported."""
    assert not entries.unknown_ids()
    assert not matrix_entries.unknown_ids()


def test_the_public_record_names_every_entry_and_none_that_is_not_there():
    text = (ROOT / "mpcsim/attacks/public_record.md").read_text(encoding="utf-8")
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ")]
    rows = [row for row in rows if row[0] != "attack"]
    assert len(rows) == len({row[0] for row in rows}) > 60
    named = set()
    for attack, source, here, entry in rows:
        assert source, attack
        found = re.findall("`([^`]+)`", entry)
        assert here.startswith("no: ") if entry == "none" else found, attack
        assert not found or re.match("yes$|in part: ", here), attack
        named |= set(found)
    ids = {attack.id for attack in ATTACKS}
    rows = [ROWS.index(attack.rows[0]) for attack in ATTACKS]
    assert rows == sorted(rows)
    assert ids <= named
    assert named <= ids | {attack.id for attack in matrix.ENTRIES}


def test_every_effect_is_reached_and_has_its_words():
    assert {attack.expected_off.effect for attack in ATTACKS} == set(Effect)
    assert SERIOUS.keys() | OTHER.keys() == set(Effect)
    assert not SERIOUS.keys() & OTHER.keys()


def test_which_reasons_have_an_attack():
    """The others guard against coincidences, or report what somebody else found."""
    assert set(Reason) - {attack.expected_on.reason for attack in ATTACKS} == {
        Reason.CHANNEL_KEY_INVALID,
        Reason.CONFIRMATION_MISMATCH,
        Reason.CONFLICTING_MESSAGE,
        Reason.DEGENERATE_KEY,
        Reason.DEGENERATE_NONCE,
        Reason.PEER_ABORTED,
    }
