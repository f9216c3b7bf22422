"""The figures of ZcashFoundation/frost for signing with identifiers of more than one byte: parties
129, 256 and 257 of 257, threshold two."""

import pytest
from nacl.signing import VerifyKey

from mpcsim.crypto.groups.ed25519 import ED25519
from mpcsim.protocols import frost
from mpcsim.protocols.frost import steps
from mpcsim.protocols.key_share import KeyShare, PeerState, PublicKeyRecord
from mpcsim.protocols.local_run import results, run
from tests.helpers.drawn import Drawn, DrawnRoot
from tests.helpers.vectors import load, point, scalar

VECTORS = load("zcash_frost/vectors-big-identifier.json")
INPUTS = VECTORS["inputs"]
SIGNERS = tuple(INPUTS["participant_list"])
MESSAGE = bytes.fromhex(INPUTS["message"])


PUBLIC_KEY = point(INPUTS["verifying_key_key"])
SHARES = {of["identifier"]: scalar(of["participant_share"]) for of in INPUTS["participant_shares"]}
FIRST = {of["identifier"]: of for of in VECTORS["round_one_outputs"]["outputs"]}
SECOND = {of["identifier"]: of for of in VECTORS["round_two_outputs"]["outputs"]}
SIGNATURE = VECTORS["final_output"]["sig"]


def randomness(i):
    names = ("hiding_nonce_randomness", "binding_nonce_randomness")
    return [bytes.fromhex(FIRST[i][name]) for name in names]


def test_every_figure_is_loaded():
    assert VECTORS["config"]["name"] == "FROST(Ed25519, SHA-512)"
    assert SIGNERS == tuple(FIRST) == tuple(SECOND) == (129, 256, 257)
    assert list(SHARES) == list(range(1, 258))


@pytest.mark.parametrize("i", SIGNERS)
def test_commit(i):
    nonce, (hiding, binding) = steps.commit(SHARES[i], Drawn(32, randomness(i)))
    assert hiding == point(FIRST[i]["hiding_nonce_commitment"])
    assert binding == point(FIRST[i]["binding_nonce_commitment"])
    names = ("hiding_nonce", "binding_nonce")
    assert nonce.take() == tuple(scalar(FIRST[i][name]) for name in names)


def test_binding_factors_and_shares_of_the_signature(monkeypatch):
    hashed, H1 = [], steps.H1
    monkeypatch.setattr(steps, "H1", lambda m: hashed.append(m.hex()) or H1(m))
    commitments = [
        steps.Commitment(
            i,
            point(FIRST[i]["hiding_nonce_commitment"]),
            point(FIRST[i]["binding_nonce_commitment"]),
        )
        for i in SIGNERS
    ]
    factors = steps.compute_binding_factors(PUBLIC_KEY, commitments, MESSAGE)
    assert hashed == [FIRST[i]["binding_factor_input"] for i in SIGNERS]
    assert factors == {i: scalar(FIRST[i]["binding_factor"]) for i in SIGNERS}
    bound = steps.bind(PUBLIC_KEY, commitments, MESSAGE)
    shares = [scalar(SECOND[i]["sig_share"]) for i in SIGNERS]
    for i, z_i in zip(SIGNERS, shares, strict=True):
        nonces = steps.SigningNonces(
            scalar(FIRST[i]["hiding_nonce"]), scalar(FIRST[i]["binding_nonce"])
        )
        assert steps.sign(i, SHARES[i], nonces, bound) == z_i
        assert steps.verify_signature_share(i, ED25519.base(SHARES[i]), z_i, bound)
    assert steps.aggregate(bound, shares).encode().hex() == SIGNATURE
    VerifyKey(PUBLIC_KEY.encode()).verify(MESSAGE, bytes.fromhex(SIGNATURE))


def test_the_rounds_give_their_signature():
    # Keys of ours have 256 holders at most, so these three are all that are in the record.
    Y = {i: ED25519.base(SHARES[i]) for i in SIGNERS}
    record = PublicKeyRecord("ed25519", 2, bytes(32), PUBLIC_KEY, Y)
    parties = []
    for i in SIGNERS:
        peers = {j: PeerState(bytes(32), bytes(32), None) for j in SIGNERS if j != i}
        agreed = frost.setup(KeyShare(record, i, SHARES[i], peers, None), SIGNERS, MESSAGE)
        party = frost.party(agreed, session_id=bytes(32))
        party._root = DrawnRoot(32, randomness(i), party._root)
        parties.append(party)
    signatures = results(run(parties)).values()
    assert [signature.encode().hex() for signature in signatures] == [SIGNATURE] * 3
