"""Every field of every message altered in every way the explorer offers."""

import pytest

from mpcsim.lab.explorer import Explorer
from mpcsim.lab.explorer.model.fields import REPLACE
from mpcsim.lab.explorer.tampering import Tampered, alterations, tampering
from tests.helpers.tiers import fast_few
from tests.lab.explorer.rules import check_sound
from tests.lab.explorer.wallets import simulation

RUNS = {
    "ecdsa": lambda: Explorer.live(simulation(), "sign", signers=(1, 3)),
    "frost": lambda: Explorer.live(simulation("ed25519"), "sign", signers=(1, 2, 3)),
    "dkg": lambda: Explorer.live(simulation(), "generate", curve="ed25519"),
    "reshare": lambda: Explorer.live(simulation("ed25519"), "recover"),
}


@pytest.mark.parametrize("name", fast_few(sorted(RUNS, key="frost".__ne__), 1))
def test_every_alteration_is_survived_and_explained(name):
    explorer = RUNS[name]()
    honest = explorer.view
    cheater = honest.parties[-1].id
    for choice in list(alterations(explorer, cheater, 1)):
        value = b"\x01" * (choice.operation == REPLACE)
        view = explorer.edit(cheater, 1, choice.message, choice.field, choice.operation, value).view
        check_sound(view)
        assert view.verdict != "completed INVALID", choice
        assert explorer.details, choice
        for abort in view.aborts:
            if abort.party == cheater:
                continue
            assert not set(abort.culprits) - {cheater}, choice
            if abort.culprits or abort.reason == "ECHO_MISMATCH":
                assert abort.message is not None, choice
        if choice.operation not in ("withhold",) and view.verdict == "stalled":
            assert any(m.ignored for m in view.messages), choice
        explorer.undo()
    assert explorer.view == honest


def test_what_the_victim_makes_of_each():
    explorer = RUNS["frost"]()
    found = tampering(explorer, 3, 1)
    assert len(found) == len(list(alterations(explorer, 3, 1)))
    share = [each for each in found if (each.message, each.field) == ("SignatureShare", "share")]
    assert {each.blames for each in share} == {"3"}
    assert "32 zero bytes" in {each.alteration for each in share}
    kept = {each for each in found if each.alteration == "withhold"}
    assert kept == {
        Tampered(kind, "(whole)", "withhold", "stalled", "", "", "")
        for kind in ("Commitments", "SignatureShare")
    }
