"""Snapshots of every protocol: resumed after each step, a party is the same, and so is its end."""

import pytest

from mpcsim.protocol import Party
from mpcsim.runner import LocalRun
from tests.helpers.sessions import DEFINITIONS, session

REBUILT = {"definition", "setup", "me", "session_id", "listener", "reproducible"} | {
    f"_{name}"
    for name in ["seed", "root", "roles", "wire", "kinds", "senders", "initial_secrets", "view"]
}
"""Attributes that follow from what the party is made with."""
KEPT = {"outcome", "phase", "inbox", "_position", "_received", "_pair_secrets", "_authenticated"}
KEPT |= {"_log", "_unopened", "_gave_up"}
"""Attributes that change: a snapshot has to bring back each of them."""
UNEQUAL = {"keep", "_forged"}
"""Without equality, but seen in all that the party does later; and noise that is not stored."""

NAMES = [name for name in DEFINITIONS if "secp256k1" not in name]


def state(party: Party) -> dict[str, object]:
    """The attributes that change; all are private, for only here all of them matter."""
    return {name: getattr(party, name) for name in KEPT}


def resumed(party: Party) -> Party:
    again, _ = Party.resume(party.definition, party.snapshot(), share=party.share)
    return again


def test_every_attribute_of_a_party_is_known():
    party = session("frost-2").party(1)
    assert vars(party).keys() == REBUILT | KEPT | UNEQUAL


@pytest.mark.parametrize("newest", [False, True], ids=["in order", "newest first"])
@pytest.mark.parametrize("name", NAMES)
def test_resumed_after_each_step_the_run_ends_the_same(name, newest):
    """Newest first, so that messages come before the secrets that open them, or the start."""
    s = session(name)
    expected = LocalRun(s.parties())
    expected.start()
    expected.finish()
    run = LocalRun(s.parties())
    run.start()
    while run.in_flight:
        at = len(run.in_flight) - 1 if newest else 0
        me = run.in_flight[at].send.to
        run.deliver(at)
        party, again = run.parties[me], resumed(run.parties[me])
        assert state(again) == state(party)
        assert again.snapshot() == party.snapshot()
        run.parties[me] = again
    assert {i: repr(o) for i, o in run.outcomes().items()} == {
        i: repr(o) for i, o in expected.outcomes().items()
    }


def test_messages_before_the_start_and_before_the_secrets_are_kept():
    s = session("dkg-ed25519")
    run = LocalRun(s.parties())
    early = s.party(1)
    for party in s.parties()[1:]:
        for output in party.start():
            if output.to == 1:
                early.receive(party.me, output.data)
    again = resumed(early)
    assert early.start() == again.start()
    assert early.waiting().round > 1
    run.start()
    kept = 0
    while run.in_flight:
        run.deliver(len(run.in_flight) - 1)
        for party in run.parties.values():
            kept += len(party._unopened)
            assert resumed(party)._unopened == party._unopened
    assert kept
