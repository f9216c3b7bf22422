"""Dishonest runs: what is noticed, who is named, and who is not."""

from dataclasses import replace

import pytest

from mpcsim.crypto import SeededRng, WireContext
from mpcsim.crypto.groups import ED25519
from mpcsim.errors import Blame, Reason
from mpcsim.protocols import frost, keys, run
from mpcsim.protocols.engine import Done
from mpcsim.protocols.frost import steps
from tests.helpers.adversary import Adversary, alter_kind

SESSION = bytes(range(32))
WIRE = WireContext(ED25519)
ONE = ED25519.scalar(1)


def play(signers, cheater=0, tamper=None, messages=b"message"):
    """Outcomes of a run; ``messages`` may give each signer a message of its own."""
    parties = {}
    for i in signers:
        message = messages[i] if isinstance(messages, dict) else messages
        agreed = frost.setup(keys("ed25519")[i], signers, message)
        parties[i] = frost.party(agreed, session_id=SESSION, rng=SeededRng(f"signer {i}"))
    if cheater:
        parties[cheater] = Adversary(parties[cheater], tamper)
    return run(parties.values())


def add_one(message):
    return replace(message, share=message.share + ONE)


# ------------------------------------------------------------------ bad signature shares (S6, S7)


def test_a_share_that_is_bad_for_one_receiver_only():
    outcomes = play((1, 2, 3), 3, alter_kind("SignatureShare", add_one, to={1}))
    assert outcomes[1].culprits == {3}
    assert isinstance(outcomes[2], Done)


# ------------------------------------------------------------------ disagreement (S5, S8)


def test_the_context_is_compared_before_any_nonce_is_used(monkeypatch):
    def unreachable(*_):
        raise AssertionError("signed")

    monkeypatch.setattr(steps, "sign", unreachable)
    outcomes = play((1, 3), messages={1: b"pay Alice", 3: b"pay Bob"})
    assert outcomes[1].reason is Reason.SESSION_MISMATCH


@pytest.mark.parametrize("field", ["hiding", "binding"])
def test_different_commitments_to_different_signers(field):
    def change(message):
        return replace(message, **{field: getattr(message, field) + ED25519.base(ONE)})

    outcomes = play((1, 2, 3), 2, alter_kind("Commitments", change, to={1}))
    for i in (1, 3):
        assert outcomes[i].reason is Reason.ECHO_MISMATCH
        assert not outcomes[i].culprits
        assert outcomes[i].suspects == {1, 2, 3} - {i}
        assert outcomes[i].blame is Blame.NOBODY


def test_the_view_is_compared_before_the_share():
    cheat = alter_kind("SignatureShare", lambda m: add_one(replace(m, seen=bytes(32))))
    assert play((1, 3), 3, cheat)[1].reason is Reason.ECHO_MISMATCH


# ------------------------------------------------------------------ events nobody can bring about


def test_an_identity_group_commitment_is_refused(monkeypatch):
    monkeypatch.setattr(steps, "compute_group_commitment", lambda *_: ED25519.identity)
    for aborted in play((1, 3)).values():
        assert aborted.reason is Reason.DEGENERATE_NONCE
        assert not aborted.culprits


def test_an_invalid_sum_of_valid_shares_blames_nobody(monkeypatch):
    monkeypatch.setattr(steps, "verify_signature", lambda *_: False)
    for outcome in play((1, 3)).values():
        assert outcome.reason in (Reason.SIGNATURE_INVALID, Reason.PEER_ABORTED)
        assert not outcome.culprits
