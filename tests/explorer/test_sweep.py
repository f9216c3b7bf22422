"""Every field of every message altered in every way the explorer offers."""

import pytest

from mpcsim.explorer import Explorer
from mpcsim.explorer.fields import REPLACE
from tests.explorer.rules import check_sound
from tests.explorer.wallets import simulation

RUNS = {
    "ecdsa": lambda: Explorer.live(simulation(), "sign", signers=(1, 3)),
    "frost": lambda: Explorer.live(simulation("ed25519"), "sign", signers=(1, 2, 3)),
    "dkg": lambda: Explorer.live(simulation(), "generate", curve="ed25519"),
    "reshare": lambda: Explorer.live(simulation("ed25519"), "recover"),
}


def flat(fields):
    for field in fields:
        yield field
        yield from flat(field.fields)


@pytest.mark.parametrize("name", RUNS)
def test_every_alteration_is_survived_and_explained(name):
    explorer = RUNS[name]()
    honest = explorer.view
    cheater = honest.parties[-1].id
    for key, detail in explorer.details.items():
        flow, kind = key.split(" ")
        sender, receiver = map(int, flow.split(">"))
        if sender != cheater or receiver != 1:
            continue
        ways = [(f.path, o) for f in flat(detail.fields) for o in f.operations]
        for path, operation in [*ways, *(("", o) for o in detail.operations)]:
            view = explorer.edit(
                sender, receiver, kind, path, operation, b"\x01" * (operation == REPLACE)
            ).view
            where = (key, path, operation)
            check_sound(view)
            assert view.verdict != "completed INVALID", where
            assert explorer.details, where
            for abort in view.aborts:
                if abort.party == cheater:
                    continue
                assert not set(abort.culprits) - {cheater}, where
                if abort.culprits or abort.reason == "ECHO_MISMATCH":
                    assert abort.message is not None, where
            if operation not in ("withhold",) and view.verdict == "stalled":
                assert any(m.ignored for m in view.messages), where
            explorer.undo()
    assert explorer.view == honest
