"""Honest runs: any quorum, any message, any schedule, paused and resumed anywhere."""

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from hypothesis import given
from hypothesis import strategies as st
from nacl.signing import VerifyKey

from mpcsim.crypto.rng import SeededRng
from mpcsim.errors import UsageError
from mpcsim.protocols import dkg, frost
from mpcsim.protocols.frost import FROST
from mpcsim.protocols.local_run import results, run
from tests.helpers.tiers import examples

SESSION = bytes(range(32))


def signers_of(shares, quorum, message, session_id=SESSION, seed=0):
    rng = SeededRng(seed)
    return [
        frost.party(
            frost.setup(shares[i], quorum, message), session_id=session_id, rng=rng.fork(str(i))
        )
        for i in quorum
    ]


def the_signature(outcomes):
    signatures = set(results(outcomes).values())
    assert len(signatures) == 1
    return signatures.pop()


def assert_verifies(signature, shares, message):
    public_key = shares[1].public_key.encode()
    assert len(signature.encode()) == 64
    VerifyKey(public_key).verify(message, signature.encode())
    Ed25519PublicKey.from_public_bytes(public_key).verify(signature.encode(), message)


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
def test_any_quorum_signs_any_message(keys, quorum, message, seed):
    threshold, n, signers = quorum
    shares = keys(threshold, n)
    signature = the_signature(run(signers_of(shares, signers, message, seed=seed)))
    assert_verifies(signature, shares, message)


@pytest.mark.parametrize("message", [b"", bytes(frost.MAX_MESSAGE_BYTES)])
def test_shortest_and_longest_message(keys, message):
    shares = keys(2, 3)
    assert_verifies(the_signature(run(signers_of(shares, (1, 2), message))), shares, message)


def test_the_contract():
    assert (FROST.name, FROST.number) == ("frost", 3)
    assert [(r.number, r.name, len(r.sends)) for r in FROST.rounds] == [
        (1, "commit", 1),
        (2, "sign", 1),
        (3, "aggregate", 0),
    ]
    assert all(sends.sealed for _, sends in FROST.kinds())


# ------------------------------------------------------------------ set-up


def test_a_share_of_another_curve_is_refused():
    agreed = dkg.setup("secp256k1", 2, (1, 2))
    shares = results(run(dkg.party(agreed, i, session_id=SESSION) for i in (1, 2)))
    with pytest.raises(UsageError, match="secp256k1"):
        frost.setup(shares[1], (1, 2), b"")


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
def test_bad_setups_are_refused(keys, signers, message, complaint):
    with pytest.raises(UsageError, match=complaint):
        frost.setup(keys(2, 3)[1], signers, message)
