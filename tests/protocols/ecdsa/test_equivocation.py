"""A signer that tells two others different things must not set them against each other."""

from dataclasses import replace

from mpcsim.errors import Reason
from mpcsim.protocols import ecdsa
from mpcsim.rng import SeededRng
from mpcsim.runner import run
from tests.helpers.adversary import Adversary, on
from tests.helpers.keys import keys, session_id


def test_honest_signers_do_not_ban_each_other_over_a_third():
    """With other commitments the session ids differ, and every OT check between them would fail."""
    shares = keys("secp256k1")
    made = [
        ecdsa.party(
            ecdsa.setup(shares[i], (1, 2, 3), bytes(32)),
            session_id=session_id("two-faced"),
            rng=SeededRng(f"two-faced {i}"),
        )
        for i in (1, 2, 3)
    ]
    made[2] = Adversary(made[2], on("Commit", lambda m: replace(m, nonce=bytes(32)), to={2}))
    outcomes = run(made)
    for i in (1, 2):
        assert outcomes[i].reason in (Reason.ECHO_MISMATCH, Reason.PEER_ABORTED)
        assert not outcomes[i].culprits
        assert shares[i].usable(3 - i)
    assert Reason.ECHO_MISMATCH in {outcomes[1].reason, outcomes[2].reason}
