"""A signer that tells two others different things must not set them against each other."""

from dataclasses import replace

from mpcsim.crypto.rng import SeededRng
from mpcsim.errors import Reason
from mpcsim.protocols import ecdsa
from mpcsim.protocols.local_run import run
from mpcsim.protocols.sample_keys import keys, session_id
from tests.helpers.adversary import Adversary, alter_kind


def test_honest_signers_do_not_ban_each_other_over_a_third():
    """With other commitments the transcripts differ, and every OT check between them would fail."""
    shares = keys("secp256k1")
    made = [
        ecdsa.party(
            ecdsa.setup(shares[i], (1, 2, 3), bytes(32)),
            session_id=session_id("two-faced"),
            rng=SeededRng(f"two-faced {i}"),
        )
        for i in (1, 2, 3)
    ]
    made[2] = Adversary(
        made[2], alter_kind("Commit", lambda m: replace(m, nonce=bytes(32)), to={2})
    )
    outcomes = run(made)
    for i in (1, 2):
        assert outcomes[i].reason in (Reason.ECHO_MISMATCH, Reason.PEER_ABORTED)
        assert not outcomes[i].culprits
        assert shares[i].can_multiply(3 - i)
    assert Reason.ECHO_MISMATCH in {outcomes[1].reason, outcomes[2].reason}


def test_an_echo_of_other_senders_is_refused():
    shares = keys("secp256k1")

    def party(i):
        return ecdsa.party(
            ecdsa.setup(shares[i], (1, 2), bytes(32)),
            session_id=session_id("echo"),
            rng=SeededRng(f"echo {i}"),
        )

    for change in (
        lambda m: replace(m, echo={**m.echo, 3: bytes(32)}),
        lambda m: replace(m, echo={1: m.echo[1]}),
        lambda m: replace(m, echo={}),
    ):
        outcome = run([party(1), Adversary(party(2), alter_kind("Offer", change))])[1]
        assert outcome.reason is Reason.ECHO_MISMATCH
        assert not outcome.culprits
        assert outcome.suspects == {2}


def test_a_nonce_share_that_was_not_committed_to_is_refused():
    """Or the last to open could choose R."""
    shares = keys("secp256k1")

    def party(i):
        return ecdsa.party(
            ecdsa.setup(shares[i], (1, 2), bytes(32)),
            session_id=session_id("opening"),
            rng=SeededRng(f"opening {i}"),
        )

    for change in (
        lambda m: replace(m, blinding=bytes(32)),
        lambda m: replace(m, R_i=m.R_i + m.R_i),
    ):
        outcome = run([party(1), Adversary(party(2), alter_kind("Respond", change))])[1]
        assert outcome.reason is Reason.COMMITMENT_OPENING
        assert outcome.culprits == {2}
