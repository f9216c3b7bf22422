"""The figures of RFC 9591, appendix E.1, and those of ZcashFoundation/frost for identifiers of more
than one byte (parties 129, 256 and 257 of 257, threshold two): every intermediate value."""

import copy
import pickle
from dataclasses import dataclass
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from nacl.signing import VerifyKey

from mpcsim.crypto import u32
from mpcsim.crypto.groups import ED25519
from mpcsim.errors import UsageError
from mpcsim.protocols import frost, results, run
from mpcsim.protocols.frost import steps
from mpcsim.protocols.key_share import KeyShare, PeerState, PublicKeyRecord
from tests.helpers.drawn import Drawn, DrawnRoot
from tests.helpers.vectors import load, point, scalar

RFC = load("frost_ed25519_rfc9591.json")
ZCASH = load("zcash_frost/vectors-big-identifier.json")


@dataclass(frozen=True)
class Figures:
    """One set of figures; those of each signer by their names."""

    signers: tuple[int, ...]
    message: bytes
    public_key: Any
    shares: dict[int, Any]
    of: dict[int, dict[str, str]]
    signature: str

    def both(self, i: int, ending: str) -> list[str]:
        return [self.of[i][f"{kind}_{ending}"] for kind in ("hiding", "binding")]

    def randomness(self, i: int) -> list[bytes]:
        return [bytes.fromhex(text) for text in self.both(i, "nonce_randomness")]

    def nonces(self, i: int) -> steps.SigningNonces:
        return steps.SigningNonces(*map(scalar, self.both(i, "nonce")))

    @property
    def commitments(self) -> list[steps.Commitment]:
        return [
            steps.Commitment(i, *map(point, self.both(i, "nonce_commitment"))) for i in self.signers
        ]


def of_zcash() -> Figures:
    asked = ZCASH["inputs"]
    outputs = {of["identifier"]: of for of in ZCASH["round_one_outputs"]["outputs"]}
    for of in ZCASH["round_two_outputs"]["outputs"]:
        outputs[of["identifier"]] |= of
    return Figures(
        tuple(asked["participant_list"]),
        bytes.fromhex(asked["message"]),
        point(asked["verifying_key_key"]),
        {of["identifier"]: scalar(of["participant_share"]) for of in asked["participant_shares"]},
        outputs,
        ZCASH["final_output"]["sig"],
    )


FIGURES = {
    "RFC 9591": Figures(
        tuple(RFC["participant_list"]),
        bytes.fromhex(RFC["message"]),
        point(RFC["group_public_key"]),
        {int(i): scalar(text) for i, text in RFC["participant_shares"].items()},
        {int(i): of for i, of in RFC["signers"].items()},
        RFC["sig"],
    ),
    "Zcash": of_zcash(),
}
every = pytest.mark.parametrize("case", FIGURES.values(), ids=FIGURES)


def test_every_figure_is_loaded():
    rfc, zcash = FIGURES.values()
    assert RFC["SOURCE"].startswith("RFC 9591")
    assert rfc.signers == tuple(rfc.of) == (1, 3)
    assert sorted(rfc.shares) == [1, 2, 3]
    assert [len(of) for of in rfc.of.values()] == [9, 9]
    assert ZCASH["config"]["name"] == "FROST(Ed25519, SHA-512)"
    assert zcash.signers == tuple(zcash.of) == (129, 256, 257)
    assert list(zcash.shares) == list(range(1, 258))


@every
def test_commit(case):
    for i, (_, hiding, binding) in zip(case.signers, case.commitments, strict=True):
        nonce, made = steps.commit(case.shares[i], Drawn(32, case.randomness(i)))
        assert tuple(made) == (hiding, binding)
        assert nonce.take() == case.nonces(i).take()


@every
def test_binding_factors_and_shares_of_the_signature(case, monkeypatch):
    hashed, H1 = [], steps.H1
    monkeypatch.setattr(steps, "H1", lambda m: hashed.append(m.hex()) or H1(m))
    factors = steps.compute_binding_factors(case.public_key, case.commitments, case.message)
    assert hashed == [case.of[i]["binding_factor_input"] for i in case.signers]
    assert factors == {i: scalar(case.of[i]["binding_factor"]) for i in case.signers}
    bound = steps.bind(case.public_key, case.commitments, case.message)
    shares = [scalar(case.of[i]["sig_share"]) for i in case.signers]
    for i, z_i in zip(case.signers, shares, strict=True):
        Y_i = ED25519.base(case.shares[i])
        assert steps.sign(i, case.shares[i], case.nonces(i), bound) == z_i
        assert steps.verify_signature_share(i, Y_i, z_i, bound)
        assert not steps.verify_signature_share(i, Y_i, z_i + ED25519.scalar(1), bound)
        assert not steps.verify_signature_share(i, case.public_key, z_i, bound)
        other = next(j for j in case.signers if j != i)
        assert not steps.verify_signature_share(other, Y_i, z_i, bound)
    signature = steps.aggregate(bound, shares).encode()
    assert signature.hex() == case.signature
    VerifyKey(case.public_key.encode()).verify(case.message, signature)
    Ed25519PublicKey.from_public_bytes(case.public_key.encode()).verify(signature, case.message)


@every
def test_the_rounds_give_the_signature(case):
    # Keys of ours have 256 holders at most, so no other holders than these are in the record.
    Y = {i: ED25519.base(case.shares[i]) for i in case.signers}
    record = PublicKeyRecord("ed25519", 2, bytes(32), case.public_key, Y)
    parties = []
    for i in case.signers:
        peers = {j: PeerState(u32(i * j) * 8, bytes(32), None) for j in Y if j != i}
        share = KeyShare(record, i, case.shares[i], peers, None)
        agreed = frost.setup(share, case.signers, case.message)
        party = frost.party(agreed, session_id=bytes(32))
        party._root = DrawnRoot(32, case.randomness(i), party._root)
        parties.append(party)
    signatures = results(run(parties)).values()
    assert {signature.encode().hex() for signature in signatures} == {case.signature}


# ------------------------------------------------------------------ nonces


def nonces():
    return FIGURES["RFC 9591"].nonces(1)


def test_nonces_are_consumed_by_use():
    nonce = nonces()
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
        lambda nonce: nonce != nonces(),
        lambda nonce: nonce.__getstate__(),
    ],
)
def test_nonces_are_not_duplicated(duplicate):
    with pytest.raises(UsageError, match="cannot be copied"):
        duplicate(nonces())
