"""A signer that tells two others different things must not set them against each other."""

from dataclasses import replace

from mpcsim.errors import Reason
from mpcsim.protocols import keys, run
from tests.helpers.adversary import Adversary, alter_kind
from tests.helpers.sessions import signing_parties


def test_honest_signers_do_not_ban_each_other_over_a_third():
    """With other commitments the transcripts differ, and every OT check between them would fail."""
    shares = keys("secp256k1")
    made = signing_parties(shares, (1, 2, 3), bytes(32))
    cheat = alter_kind("Commit", lambda m: replace(m, nonce=bytes(32)), to={2})
    outcomes = run([*made[:2], Adversary(made[2], cheat)])
    for i in (1, 2):
        assert outcomes[i].reason in (Reason.ECHO_MISMATCH, Reason.PEER_ABORTED)
        assert not outcomes[i].culprits
        assert shares[i].can_multiply(3 - i)
    assert Reason.ECHO_MISMATCH in {outcomes[1].reason, outcomes[2].reason}


def heard(kind, change):
    """What party 1 says when party 2 changes what it sends."""
    one, two = signing_parties(keys("secp256k1"), (1, 2), bytes(32))
    return run([one, Adversary(two, alter_kind(kind, change))])[1]


def test_an_echo_of_other_senders_is_refused():
    for change in (
        lambda m: replace(m, echo={**m.echo, 3: bytes(32)}),
        lambda m: replace(m, echo={1: m.echo[1]}),
        lambda m: replace(m, echo={}),
    ):
        outcome = heard("Offer", change)
        assert outcome.reason is Reason.ECHO_MISMATCH
        assert not outcome.culprits
        assert outcome.suspects == {2}


def test_a_nonce_share_that_was_not_committed_to_is_refused():
    """Or the last to open could choose R."""
    for change in (
        lambda m: replace(m, blinding=bytes(32)),
        lambda m: replace(m, R_i=m.R_i + m.R_i),
    ):
        outcome = heard("Respond", change)
        assert outcome.reason is Reason.COMMITMENT_OPENING
        assert outcome.culprits == {2}
