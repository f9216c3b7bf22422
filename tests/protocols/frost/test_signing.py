"""Honest runs: any quorum, any message, any schedule, paused and resumed anywhere."""

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from hypothesis import given
from hypothesis import strategies as st

from mpcsim.errors import UsageError
from mpcsim.protocols import frost, keys, results, run
from tests.helpers.sessions import check_frost, signing_parties
from tests.helpers.tiers import examples


def assert_signs(shares, signers, message, label="sign"):
    """Two libraries take the signature, which is the same for all signers."""
    public_key = shares[1].public_key.encode()
    found = results(run(signing_parties(shares, signers, message, label)))
    check_frost(public_key, found, message)
    signature = found[signers[0]].encode()
    assert len(signature) == 64
    Ed25519PublicKey.from_public_bytes(public_key).verify(signature, message)


@st.composite
def quorums(draw):
    n = draw(st.integers(2, 5))
    threshold = draw(st.integers(2, n))
    size = draw(st.integers(threshold, n))
    signers = draw(st.permutations(range(1, n + 1)))[:size]
    return threshold, n, tuple(signers)


# ------------------------------------------------------------------ runs


@examples(12)
@given(quorums(), st.binary(max_size=200), st.integers(0, 2**32))
def test_any_quorum_signs_any_message(quorum, message, seed):
    threshold, n, signers = quorum
    assert_signs(keys("ed25519", threshold, n), signers, message, str(seed))


@pytest.mark.parametrize("message", [b"", bytes(frost.MAX_MESSAGE_BYTES)])
def test_shortest_and_longest_message(message):
    assert_signs(keys("ed25519"), (1, 2), message)


# ------------------------------------------------------------------ set-up


def test_a_share_of_another_curve_is_refused():
    with pytest.raises(UsageError, match="secp256k1"):
        frost.setup(keys("secp256k1")[1], (1, 2), b"")


@pytest.mark.parametrize(
    ("signers", "message", "complaint"),
    [
        ((1,), b"", "1 of the 2 holders needed"),
        ((), b"", "0 of the 2 holders needed"),
        ((1, 3, 3), b"", "duplicate"),
        ((0, 1), b"", "outside"),
        ((1, 4), b"", "hold no share"),
        ((2, 3), b"", "not a signer"),
        ((1, 2), bytes(frost.MAX_MESSAGE_BYTES + 1), "at most"),
    ],
)
def test_bad_setups_are_refused(signers, message, complaint):
    with pytest.raises(UsageError, match=complaint):
        frost.setup(keys("ed25519")[1], signers, message)
