"""The figures of ZcashFoundation/frost for key generation: three parties, threshold two."""

import hashlib

import pytest

from mpcsim.crypto import SeededRng, schnorr
from mpcsim.crypto.groups import ED25519
from mpcsim.errors import CheckFailed, Reason
from mpcsim.protocols import dkg, results, run, session_id
from mpcsim.protocols.dkg import steps
from tests.helpers.drawn import Drawn, DrawnRoot
from tests.helpers.vectors import load, point, scalar

VECTORS = load("zcash_frost/vectors_dkg.json")
INPUTS = VECTORS["inputs"]
IDS = (1, 2, 3)
ONE = ED25519.scalar(1)


def draws(*scalars):
    """What ``Group.random_scalar``, which adds 1, draws for them."""
    return [(scalar.n - 1).to_bytes(48, "big") for scalar in scalars]


def of(i, name):
    return INPUTS[str(i)][name]


f = {i: (scalar(of(i, "signing_key")), scalar(of(i, "coefficient"))) for i in IDS}
C = {i: tuple(map(point, of(i, "vss_commitments"))) for i in IDS}
RECEIVED = {i: {int(j): scalar(s) for j, s in of(i, "signing_shares").items()} for i in IDS}
"""What party i was dealt, by dealer."""
SHARES = {i: scalar(of(i, "signing_share")) for i in IDS}
PUBLIC_SHARES = {i: point(of(i, "verifying_share")) for i in IDS}
PUBLIC_KEY = point(INPUTS["verifying_key"])
PROOFS = {
    i: schnorr.Proof(point(proof[:64]), scalar(proof[64:]))
    for i in IDS
    for proof in [of(i, "proof_of_knowledge")]
}


def test_every_figure_is_loaded():
    config = VECTORS["config"]
    assert config["name"] == "FROST(Ed25519, SHA-512)"
    assert (config["MIN_PARTICIPANTS"], config["MAX_PARTICIPANTS"]) == (2, 3)
    assert sorted(INPUTS) == ["1", "2", "3", "secret", "verifying_key"]
    assert [of(i, "identifier") for i in IDS] == list(IDS)
    assert [len(C[i]) for i in IDS] == [2, 2, 2]
    assert {i: sorted(RECEIVED[i]) for i in IDS} == {1: [2, 3], 2: [1, 3], 3: [1, 2]}
    assert [len(of(i, "proof_of_knowledge")) for i in IDS] == [128] * 3


def test_dealt_shares():
    dealt = [(j, i, share) for i in IDS for j, share in RECEIVED[i].items()]
    assert len(dealt) == 6
    for j, i, share in dealt:
        assert steps.deal(f[j], i) == share
        steps.check_share(C[j], i, share, j)
        other = 6 - j - i
        for C_j, me, wrong in [(C[j], i, share + ONE), (C[j], other, share), (C[other], i, share)]:
            with pytest.raises(CheckFailed) as failed:
                steps.check_share(C_j, me, wrong, j)
            assert failed.value.reason is Reason.SHARE_INCONSISTENT
            assert failed.value.culprits == {j}


# ------------------------------------------------------------------ proofs of knowledge


def their_challenge(sid, prover, Y, R):
    """HDKG(i, Y, R): no session in it."""
    hashed = b"FROST-ED25519-SHA512-v1dkg" + ED25519.scalar(prover).encode()
    digest = hashlib.sha512(hashed + Y.encode() + R.encode()).digest()
    return ED25519.scalar(int.from_bytes(digest, "little"))


def test_proofs_of_knowledge_under_their_challenge(monkeypatch):
    for i in IDS:
        assert not schnorr.verify(b"", i, C[i][0], PROOFS[i]), "ours binds the session"
    monkeypatch.setattr(schnorr, "_challenge", their_challenge)
    for i in IDS:
        Y, proof = C[i][0], PROOFS[i]
        assert schnorr.verify(b"", i, Y, proof)
        assert not schnorr.verify(b"", i % 3 + 1, Y, proof)
        assert not schnorr.verify(b"", i, Y + ED25519.base(ONE), proof)
        assert not schnorr.verify(b"", i, Y, schnorr.Proof(proof.R, proof.z + ONE))
        k = proof.z - their_challenge(b"", i, Y, proof.R) * f[i][0]
        assert schnorr.prove(b"", i, f[i][0], Y, Drawn(48, draws(k))) == proof


# ------------------------------------------------------------------ all rounds


def test_the_rounds_give_their_key_and_shares():
    agreed = dkg.setup("ed25519", 2, IDS)
    parties = []
    for i in IDS:
        party = dkg.party(agreed, i, session_id=session_id("vectors"), rng=SeededRng(i))
        party._root = DrawnRoot(48, draws(*f[i]), party._root)
        parties.append(party)
    shares = results(run(parties))
    assert {i: share.secret_share for i, share in shares.items()} == SHARES
    for share in shares.values():
        assert share.record.public_key == PUBLIC_KEY
        assert share.record.public_shares == PUBLIC_SHARES
