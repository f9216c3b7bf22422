"""Snapshots of every protocol: resumed after each step, a party is the same, and so is its end."""

from operator import attrgetter

import pytest

from mpcsim.errors import UsageError
from mpcsim.ids import CLIENT, OPERATOR
from mpcsim.protocols import LocalRun, keys, presigned
from mpcsim.protocols.engine import Party
from mpcsim.protocols.engine.outcome import Phase
from mpcsim.protocols.presign import Presignature
from mpcsim.protocols.sample_keys import presignatures
from tests.helpers.sessions import DEFINITIONS, session

REBUILT = {"definition", "setup", "me", "session_id", "listener", "reproducible"}
REBUILT |= {f"_{name}" for name in ["seed", "root", "roles", "kinds", "senders", "view"]}
REBUILT |= {"_first", "_secrets.initial", "_secrets._early", "_secrets._identified"}
"""Attributes that follow from what the party is made with."""
KEPT = {"outcome", "phase", "inbox", "_position", "_received", "_started"}
KEPT |= {"_log", "_unopened", "_gave_up"}
KEPT |= {"_secrets.in_force", "_secrets.sealing", "_secrets.unproven"}
"""Attributes that change: a snapshot has to bring back each of them."""
UNEQUAL = {"keep", "_secrets.unopened"}
"""Without equality, but seen in all that the party does later; and noise that is not stored."""

NAMES = [name for name in DEFINITIONS if "secp256k1" not in name]


def state(party: Party) -> dict[str, object]:
    """The attributes that change; all are private, for only here all of them matter."""
    return {name: attrgetter(name)(party) for name in KEPT}


def resumed(party: Party) -> Party:
    again, _ = Party.resume(party.definition, party.snapshot(), share=party.share)
    return again


def test_every_attribute_of_a_party_is_known():
    party = session("frost-2").party(1)
    known = vars(party).keys() - {"_secrets"} | {f"_secrets.{n}" for n in vars(party._secrets)}
    assert known == REBUILT | KEPT | UNEQUAL


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
    assert early.waiting_state().round > 1
    run.start()
    kept = 0
    while run.in_flight:
        run.deliver(len(run.in_flight) - 1)
        for party in run.parties.values():
            kept += len(party._unopened)
            assert resumed(party)._unopened == party._unopened
    assert kept


# ---------------------------------------------------------------------- exceptions


def two_uses():
    """Two parties that would use one presignature, for two messages."""
    finisher = OPERATOR
    made = presignatures(2, 3, (CLIENT, finisher), name="for two uses")
    share, (mine,) = keys("secp256k1")[finisher], made[finisher]
    mine = Presignature.from_bytes(mine.to_bytes())  # whose use this process remembers
    return [
        presigned.party(presigned.setup(share, mine, finisher, m, b"r" * 32), session_id=m)
        for m in (b"a" * 32, b"b" * 32)
    ]


def test_a_presignature_is_used_once_whatever_is_snapshotted():
    """A refused start has not run the first round: resumed, the party is refused again."""
    first, second = two_uses()
    first.start()
    with pytest.raises(UsageError, match="used"):
        second.start()
    assert second.phase is Phase.OVER
    assert second.receive(CLIENT, b"anything") == []
    again, outputs = Party.resume(second.definition, second.snapshot())
    assert outputs == []
    with pytest.raises(UsageError, match="used"):
        again.start()


class Broken(Exception):
    """Of a listener."""


@pytest.mark.parametrize("name", ["frost-2", "dkg-ed25519"])
def test_a_party_whose_listener_raises_is_over(name):
    """Whatever was half done, nothing more is said: no nonce is used a second time."""
    for at in range(1, 40):
        run, heard = LocalRun(session(name).parties()), 0
        party = run.parties[1]

        def raise_late(event, at=at):
            nonlocal heard
            heard += 1
            if heard == at:
                raise Broken

        party.listener = raise_late
        try:
            run.start()
            run.finish()
        except Broken:
            assert party.phase is Phase.OVER
            assert party.receive(2, b"anything") == []
            with pytest.raises(UsageError, match="already started"):
                party.start()
        else:
            assert heard < at
            break
    assert at > 10
