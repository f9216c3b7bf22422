"""Threshold ECDSA: honest runs, checked by libsecp256k1 and OpenSSL, not by our code alone."""

from itertools import combinations
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import Prehashed, encode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256

from mpcsim.crypto.groups.secp256k1 import ORDER
from mpcsim.protocols import ecdsa, keys, results, run
from mpcsim.protocols.engine import Waiting
from tests.helpers.reviewed import check_calls
from tests.helpers.sessions import check_ecdsa, signing_parties

QUORUMS = [ids for size in (2, 3) for ids in combinations((1, 2, 3), size)]


def sign(signers, digest, label="sign") -> ecdsa.EcdsaSignature:
    """Sign; libsecp256k1 verifies and recovers, OpenSSL verifies, s is low."""
    shares = keys("secp256k1")
    public_key = shares[1].public_key.encode()
    found = results(run(signing_parties(shares, signers, digest, label)))
    check_ecdsa(public_key, found, digest)
    signature = found[signers[0]]
    assert len(signature.encode()) == 65
    assert signature.encode()[64] == 27 + signature.recovery_id
    openssl = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256K1(), public_key)
    openssl.verify(
        encode_dss_signature(signature.r, signature.s), digest, ec.ECDSA(Prehashed(SHA256()))
    )
    return signature


@pytest.mark.parametrize("signers", QUORUMS, ids=str)
def test_every_quorum_signs(signers):
    sign(signers, bytes(range(32)))


@pytest.mark.parametrize("number", [0, 1, ORDER - 1, ORDER, ORDER + 1, 2**256 - 1])
def test_hashes_at_the_edges(number):
    sign((1, 2), number.to_bytes(32, "big"))


def test_both_parities_of_the_recovery_id_occur():
    assert {sign((1, 2), bytes(32), str(n)).recovery_id for n in range(12)} == {0, 1}


def test_shares_of_two_epochs_do_not_combine():
    """Nobody is blamed; the parties say that the other's messages do not open."""
    old, new = keys("secp256k1"), keys("secp256k1", name="another")
    for i, outcome in run(signing_parties({1: old[1], 2: new[2]}, (1, 2), bytes(32))).items():
        assert isinstance(outcome, Waiting)
        assert outcome.unopened == {3 - i}
        assert "another key epoch" in str(outcome)


def test_usage_errors():
    names = {"SHARES": keys("secp256k1"), "ED": keys("ed25519")}
    check_calls(Path(__file__).with_name("wrong_setups.txt"), ecdsa, **names)
