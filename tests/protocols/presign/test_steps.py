"""The algebra of re-randomised nonces and moved keys, on any numbers, judged by libsecp256k1."""

import hashlib

import pytest
from coincurve import PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from mpcsim.crypto.groups.secp256k1 import ORDER, SECP256K1
from mpcsim.crypto.hashing import Tag, tagged_hash
from mpcsim.errors import CheckFailed, Reason
from mpcsim.protocols.ecdsa.steps import assemble, message_scalar, verifies
from mpcsim.protocols.presign import Presignature
from mpcsim.protocols.presign.steps import check_later, commit_later
from mpcsim.protocols.presigned import steps
from mpcsim.protocols.sample_keys import presignatures
from tests.helpers.tiers import examples

SCALARS = st.integers(1, ORDER - 1).map(SECP256K1.scalar)
DIGEST, RHO = bytes(range(32)), b"\7" * 32


def split(total, parts):
    """Additive shares: the given ones and the rest."""
    return [*parts, total - sum(parts, SECP256K1.scalar(0))]


@st.composite
def dealt(draw):
    """A key, and a presignature with it as a dealer would make it."""
    sk, r, phi = draw(SCALARS), draw(SCALARS), draw(SCALARS)
    n = draw(st.integers(2, 4))
    shares = [split(x, [draw(SCALARS) for _ in range(n - 1)]) for x in (phi, r * phi, sk * phi)]
    parts = [
        Presignature(
            id=b"\1" * 32,
            holder=i,
            epoch=b"\2" * 32,
            signers=tuple(range(1, n + 1)),
            name=b"\3" * 32,
            R=SECP256K1.base(r),
            phi_i=phi_i,
            u_i=u_i,
            v_i=v_i,
            rho_i=bytes([i]) * 32,
            blinding=bytes(32),
            commitments={},
        )
        for i, (phi_i, u_i, v_i) in enumerate(zip(*shares, strict=True), 1)
    ]
    return sk, r, parts


@examples(20)
@given(dealt(), st.binary(min_size=32, max_size=32), st.integers(0, ORDER - 1))
def test_the_signature_is_the_textbooks(presigned, digest, tweak):
    """s = (m + r' (x + tau)) / (k + delta), under the key x + tau."""
    sk, r, parts = presigned
    tau = SECP256K1.scalar(tweak)
    pk = SECP256K1.base(sk + tau)
    if pk.is_identity:
        return
    request = steps.request(parts[0], 1, (4, 2), pk, digest, RHO)
    delta = steps.shift(request, {p.holder: p.rho_i for p in parts[1:]})
    R, r_x = steps.rerandomise(parts[0].R, delta)
    m = message_scalar(digest)
    shares = [steps.signature_share(p, m, r_x, delta, tau) for p in parts]
    signature = assemble(digest, pk, R, r_x, shares, [2])
    assert verifies(signature, digest, pk)
    s = (m + r_x * (sk + tau)) * (r + delta).inverse()
    assert signature.s in (s.n, ORDER - s.n)
    key = PrivateKey((sk + tau).encode())
    assert key.public_key.format() == pk.encode()


def test_delta_is_the_hash_that_is_written_down():
    """Against a computation of its own, so that two implementations agree."""
    (part,) = presignatures(2, 3, (1, 2))[1]
    pk = SECP256K1.base(SECP256K1.scalar(5))

    def framed(name, *parts):
        return b"".join(len(p).to_bytes(8, "big") + p for p in (name.encode(), *parts))

    request = hashlib.sha256(
        framed(
            "mpcsim/presigned/context/v1",
            part.epoch,
            part.id,
            part.R.encode(),
            bytes([0, 0, 0, 1, 0, 0, 0, 2]),
            bytes([0, 0, 0, 1]),
            bytes([0, 0, 0, 9]),
            pk.encode(),
            DIGEST,
            RHO,
        )
    ).digest()
    assert steps.request(part, 1, (9,), pk, DIGEST, RHO) == request
    wide = hashlib.shake_128(
        framed("mpcsim/presigned/delta/v1", request, bytes([0, 0, 0, 2]), b"\2" * 32)
    ).digest(48)
    delta = int.from_bytes(wide, "big") % ORDER
    assert steps.shift(request, {2: b"\2" * 32}).n == delta


def test_a_nonce_that_is_moved_away_is_refused():
    R = SECP256K1.base(SECP256K1.scalar(5))
    with pytest.raises(CheckFailed) as failed:
        steps.rerandomise(R, -SECP256K1.scalar(5))
    assert failed.value.reason is Reason.DEGENERATE_NONCE


def test_what_is_opened_later_is_what_was_committed_to():
    name, rho, blinding = b"\1" * 32, b"\2" * 32, b"\3" * 32
    commitment = commit_later(name, 2, blinding, rho)
    check_later(name, 2, commitment, blinding, rho)
    for arguments in (
        (bytes(32), 2, commitment, blinding, rho),
        (name, 3, commitment, blinding, rho),
        (name, 2, bytes(32), blinding, rho),
        (name, 2, commitment, bytes(32), rho),
        (name, 2, commitment, blinding, bytes(32)),
    ):
        with pytest.raises(CheckFailed) as failed:
            check_later(*arguments)
        assert failed.value.reason is Reason.COMMITMENT_OPENING
        assert failed.value.culprits == {arguments[1]}
    assert commitment == tagged_hash(Tag.COMMITMENT, name, (2).to_bytes(4, "big"), blinding, rho)
