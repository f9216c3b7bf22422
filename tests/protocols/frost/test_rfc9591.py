"""The figures of RFC 9591, appendix E.1: every intermediate value."""

import copy
import pickle

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from nacl.signing import VerifyKey

from mpcsim.crypto.groups.ed25519 import ED25519
from mpcsim.crypto.hashing import u32
from mpcsim.errors import UsageError
from mpcsim.protocols import frost
from mpcsim.protocols.frost import steps
from mpcsim.protocols.key_share import KeyShare, PeerState, PublicKeyRecord
from mpcsim.protocols.local_run import results, run
from tests.helpers.drawn import DrawnRoot
from tests.helpers.vectors import load, point, scalar

RFC = load("frost_ed25519_rfc9591.json")
SIGNERS = tuple(RFC["participant_list"])
MESSAGE = bytes.fromhex(RFC["message"])


PUBLIC_KEY = point(RFC["group_public_key"])
SHARES = {int(i): scalar(text) for i, text in RFC["participant_shares"].items()}


def figures(i):
    return RFC["signers"][str(i)]


def randomness(i):
    names = ("hiding_nonce_randomness", "binding_nonce_randomness")
    return [bytes.fromhex(figures(i)[name]) for name in names]


def nonces(i):
    return steps.SigningNonces(
        scalar(figures(i)["hiding_nonce"]), scalar(figures(i)["binding_nonce"])
    )


@pytest.fixture
def commitment_list():
    return [
        steps.Commitment(
            i,
            point(figures(i)["hiding_nonce_commitment"]),
            point(figures(i)["binding_nonce_commitment"]),
        )
        for i in SIGNERS
    ]


@pytest.fixture
def bound(commitment_list):
    return steps.bind(PUBLIC_KEY, commitment_list, MESSAGE)


def test_every_figure_is_loaded():
    assert RFC["SOURCE"].startswith("RFC 9591")
    assert SIGNERS == (1, 3)
    assert sorted(SHARES) == [1, 2, 3]
    assert sorted(RFC["signers"]) == ["1", "3"]
    assert [len(of) for of in RFC["signers"].values()] == [9, 9]


def test_binding_factors(commitment_list, monkeypatch):
    hashed, H1 = [], steps.H1

    def recording(m):
        hashed.append(m.hex())
        return H1(m)

    monkeypatch.setattr(steps, "H1", recording)
    factors = steps.compute_binding_factors(PUBLIC_KEY, commitment_list, MESSAGE)
    assert hashed == [figures(i)["binding_factor_input"] for i in SIGNERS]
    assert factors == {i: scalar(figures(i)["binding_factor"]) for i in SIGNERS}


@pytest.mark.parametrize("i", SIGNERS)
def test_verify_signature_share(i, bound):
    z_i, Y_i = scalar(figures(i)["sig_share"]), ED25519.base(SHARES[i])
    assert steps.verify_signature_share(i, Y_i, z_i, bound)
    assert not steps.verify_signature_share(i, Y_i, z_i + ED25519.scalar(1), bound)
    assert not steps.verify_signature_share(i, PUBLIC_KEY, z_i, bound)
    other = next(j for j in SIGNERS if j != i)
    assert not steps.verify_signature_share(other, Y_i, z_i, bound)


def test_independent_verifiers_accept_the_signature():
    signature = bytes.fromhex(RFC["sig"])
    VerifyKey(PUBLIC_KEY.encode()).verify(MESSAGE, signature)
    Ed25519PublicKey.from_public_bytes(PUBLIC_KEY.encode()).verify(signature, MESSAGE)


def test_the_rounds_give_the_signature_of_the_rfc():
    Y = {i: ED25519.base(s) for i, s in SHARES.items()}
    record = PublicKeyRecord("ed25519", 2, bytes(32), PUBLIC_KEY, Y)
    parties = []
    for i in SIGNERS:
        peers = {j: PeerState(u32(i * j) * 8, bytes(32), None) for j in SHARES if j != i}
        agreed = frost.setup(KeyShare(record, i, SHARES[i], peers, None), SIGNERS, MESSAGE)
        party = frost.party(agreed, session_id=bytes(32))
        party._root = DrawnRoot(32, randomness(i), party._root)
        parties.append(party)
    signatures = results(run(parties)).values()
    assert [signature.encode().hex() for signature in signatures] == [RFC["sig"]] * 2


# ------------------------------------------------------------------ nonces


def test_nonces_are_consumed_by_use():
    nonce = nonces(1)
    assert "redacted" in repr(nonce)
    nonce.take()
    assert "used up" in repr(nonce)
    with pytest.raises(UsageError, match="used up"):
        nonce.take()


@pytest.mark.parametrize(
    "duplicate",
    [
        copy.copy,
        copy.deepcopy,
        pickle.dumps,
        lambda nonce: pickle.dumps(nonce, protocol=0),
        lambda nonce: nonce == nonce,
        lambda nonce: nonce != nonces(1),
        lambda nonce: nonce.__getstate__(),
    ],
)
def test_nonces_are_not_duplicated(duplicate):
    with pytest.raises(UsageError, match="cannot be copied"):
        duplicate(nonces(1))
