"""Steps of signing with a presignature.

Symbols as in ``ecdsa.steps``, and

==============  ===================================================================
rho_i           random bytes of signer i: committed to in presigning, or fresh
delta           shift of the nonce: a hash of everything, all rho_i included
tau             shift of the key: the tweak of a derived key; 0 for the key itself
R', r', r'_x    the nonce point R + delta * G, its discrete log, its x coordinate
u', v'          r' * phi and (sk + tau) * phi
==============  ===================================================================

so that s = w / u' = (SHA2(m) + r'_x * (sk + tau)) / r'.
"""

from __future__ import annotations

from collections.abc import Mapping

from mpcsim.crypto.bip32 import Path, path_bytes
from mpcsim.crypto.groups.group import Point, Scalar
from mpcsim.crypto.groups.secp256k1 import SECP256K1, Secp256k1Point
from mpcsim.crypto.hashing import Tag, tagged_hash, u32
from mpcsim.ids import PartyId
from mpcsim.protocols.ecdsa.steps import combine_nonce, numerator
from mpcsim.protocols.presign import Presignature


def request(
    presignature: Presignature,
    finisher: PartyId,
    path: Path,
    pk: Point,
    message_hash: bytes,
    rho: bytes,
) -> bytes:
    """Return the digest of all that was agreed before any signer answered.

    Args:
        path: path of the derived key; empty for the key itself.
        pk: key that the signature is to be valid under: the derived key.
        rho: random bytes of the signer that finishes.
    """
    return tagged_hash(
        Tag.PRESIGNED,
        presignature.epoch,
        presignature.id,
        presignature.R.encode(),
        b"".join(u32(i) for i in presignature.signers),
        u32(finisher),
        path_bytes(path),
        pk.encode(),
        message_hash,
        rho,
    )


def shift(request: bytes, opened: Mapping[PartyId, bytes]) -> Scalar:
    """Return delta, the shift of the nonce.

    Args:
        request: digest that ``request`` returns.
        opened: rho_j of all signers that answer.

    Spec: GS21 | re-randomised presignatures | delta
    Differs: the paper draws delta once the request is there; here it is a random oracle's answer on
    the request, with a part that each signer was bound to before.
    """
    return SECP256K1.hash_to_scalar(
        Tag.RERANDOMISE,
        request,
        *(part for j in sorted(opened) for part in (u32(j), opened[j])),
    )


def rerandomise(R: Point, delta: Scalar) -> tuple[Secp256k1Point, Scalar]:
    """R' = R + delta * G, and r'_x.

    Raises:
        CheckFailed: DEGENERATE_NONCE.

    Spec: GS21 | re-randomised presignatures | R'
    """
    return combine_nonce((R, SECP256K1.base(delta)))


def signature_share(
    presignature: Presignature, m: Scalar, r_x: Scalar, delta: Scalar, tau: Scalar
) -> tuple[Scalar, Scalar]:
    """(w_i, u'_i): u'_i = u_i + delta * phi_i, v'_i = v_i + tau * phi_i, w_i from these.

    u_i and v_i are linear in r and sk, so shifting r and sk takes no other signer.

    Args:
        m: the hash of the message, as a scalar.
        r_x: r'_x.
    """
    phi_i = presignature.phi_i
    u_i = presignature.u_i + delta * phi_i
    return numerator(m, r_x, phi_i, presignature.v_i, tau), u_i
