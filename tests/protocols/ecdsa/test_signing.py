"""Threshold ECDSA: honest runs, checked by libsecp256k1 and OpenSSL, not by our code alone."""

from itertools import combinations

import pytest
from coincurve import PublicKey
from coincurve.ecdsa import cdata_to_der, deserialize_compact
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import Prehashed, encode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256

from mpcsim.crypto.groups.secp256k1 import ORDER
from mpcsim.crypto.rng import SeededRng
from mpcsim.errors import UsageError
from mpcsim.protocols import ecdsa
from mpcsim.protocols.ecdsa import EcdsaSignature
from mpcsim.protocols.engine import Waiting
from mpcsim.protocols.local_run import results, run
from mpcsim.protocols.sample_keys import keys, session_id

QUORUMS = [ids for size in (2, 3) for ids in combinations((1, 2, 3), size)]


def parties(shares, signers, digest, label="sign"):
    return [
        ecdsa.party(
            ecdsa.setup(shares[i], signers, digest),
            session_id=session_id(label),
            rng=SeededRng(f"{label} {i}"),
        )
        for i in signers
    ]


def sign(shares, signers, digest, label="sign") -> EcdsaSignature:
    found = results(run(parties(shares, signers, digest, label)))
    assert len(set(found.values())) == 1, "the signers disagree"
    return found[signers[0]]


def verify(signature: EcdsaSignature, digest: bytes, public_key: bytes) -> None:
    """libsecp256k1 verifies and recovers, OpenSSL verifies, s is low."""
    key = PublicKey(public_key)
    der = cdata_to_der(deserialize_compact(signature.compact()))
    assert key.verify(der, digest, hasher=None)
    assert 1 <= signature.s <= ORDER // 2
    encoded = signature.encode()
    assert len(encoded) == 65
    assert encoded[64] in (27, 28)
    recovered = PublicKey.from_signature_and_message(
        encoded[:64] + bytes([encoded[64] - 27]), digest, hasher=None
    )
    assert recovered.format() == public_key
    openssl = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256K1(), public_key)
    openssl.verify(
        encode_dss_signature(signature.r, signature.s), digest, ec.ECDSA(Prehashed(SHA256()))
    )


@pytest.mark.parametrize("signers", QUORUMS, ids=str)
def test_every_quorum_signs(signers):
    shares = keys("secp256k1")
    digest = bytes(range(32))
    verify(sign(shares, signers, digest), digest, shares[1].public_key.encode())


@pytest.mark.parametrize("number", [0, 1, ORDER - 1, ORDER, ORDER + 1, 2**256 - 1])
def test_hashes_at_the_edges(number):
    shares = keys("secp256k1")
    digest = number.to_bytes(32, "big")
    verify(sign(shares, (1, 2), digest), digest, shares[1].public_key.encode())


def test_both_parities_of_the_recovery_id_occur():
    shares = keys("secp256k1")
    seen = {sign(shares, (1, 2), bytes(32), str(n)).recovery_id for n in range(12)}
    assert seen == {0, 1}


def test_shares_of_two_epochs_do_not_combine():
    """Nobody is blamed; the parties say that the other's messages do not open."""
    old, new = keys("secp256k1"), keys("secp256k1", name="another")
    made = [
        ecdsa.party(ecdsa.setup(shares[i], (1, 2), bytes(32)), session_id=bytes(32))
        for i, shares in ((1, old), (2, new))
    ]
    for i, outcome in run(made).items():
        assert isinstance(outcome, Waiting)
        assert outcome.unopened == {3 - i}
        assert "another key epoch" in str(outcome)


def test_usage_errors():
    shares, ed = keys("secp256k1"), keys("ed25519")
    share = shares[1]
    for arguments, text in [
        ((ed[1], (1, 2), bytes(32)), "secp256k1"),
        ((share, (1, 2), bytes(31)), "31 bytes"),
        ((share, (1,), bytes(32)), "1 of the 2"),
        ((share, (1, 1), bytes(32)), "duplicate"),
        ((share, (1, 4), bytes(32)), "hold no share"),
        ((share, (2, 3), bytes(32)), "not a signer"),
        ((share, (0, 1), bytes(32)), "outside"),
    ]:
        with pytest.raises(UsageError, match=text):
            ecdsa.setup(*arguments)
