"""Known attacks on key generation, each stopped by the check that is there for it."""

from dataclasses import replace

import pytest

from mpcsim.crypto import Message
from mpcsim.errors import Aborted, Reason
from mpcsim.protocols.dkg import Deal, steps
from mpcsim.protocols.engine import Done
from tests.helpers.adversary import Adversary, Tampered, alter_kind
from tests.helpers.sessions import dkg_session, judge, run_with


def test_copied_commitment():
    """A rushing party repeats another's commitment, and later its opening (D6): the committer's
    identifier is inside the hash, so the opening does not fit."""
    session = dkg_session("ed25519", 2, 3)
    adversary = Adversary(session.party(2), hold={"Commit", "Reveal"})

    def copy(kind: str, to: int, message: Message) -> Tampered:
        if kind in ("Commit", "Reveal"):
            return adversary.party.inbox.received(type(message))[1]
        return None if kind == "AbortNotice" else message  # it feels cheated itself: hush

    adversary.tamper = copy
    for outcome in judge(session, run_with(session, adversary), {2}).values():
        assert isinstance(outcome, Aborted)
        assert outcome.reason is Reason.COMMITMENT_OPENING
        assert outcome.culprits == {2}


@pytest.mark.parametrize("kind", ["Commit", "Reveal"])
def test_equivocation_does_not_end_in_two_keys(kind):
    """Whatever differs between two receivers (D7), honest parties never finish with two records."""
    session = dkg_session("ed25519", 2, 4)
    changes = {
        "Commit": [
            lambda m: replace(m, nonce=bytes(32)),
            lambda m: replace(m, commitment=bytes(32)),
        ],
        "Reveal": [
            lambda m: replace(m, echo={**m.echo, 1: bytes(32)}),
            lambda m: replace(m, proof=replace(m.proof, z=-m.proof.z)),
        ],
    }
    for change in changes[kind]:
        for toward in ({1}, {1, 3}, {4}):
            adversary = Adversary(session.party(2), alter_kind(kind, change, toward))
            outcomes = judge(session, run_with(session, adversary), {2})
            assert not any(isinstance(outcome, Done) for outcome in outcomes.values())


def test_a_share_for_another_party():
    """The shares of two receivers swapped: each is the wrong point of the right polynomial (D3)."""
    session = dkg_session("ed25519", 2, 3)
    adversary = Adversary(session.party(2))
    dealt: dict[int, Deal] = {}

    def swap(kind: str, to: int, message: Message) -> Tampered:
        if kind != "Deal":
            return message
        dealt[to] = message
        f = adversary.party.keep.committed.polynomial
        other = next(j for j in session.members if j not in (2, to))
        return replace(message, share=steps.deal(f, other))

    adversary.tamper = swap
    outcomes = judge(session, run_with(session, adversary), {2})
    assert set(dealt) == {1, 3}
    for outcome in outcomes.values():
        assert outcome.reason in (Reason.SHARE_INCONSISTENT, Reason.PEER_ABORTED)
    assert any(outcome.culprits == {2} for outcome in outcomes.values())
