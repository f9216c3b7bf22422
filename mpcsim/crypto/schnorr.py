"""Schnorr's proof of knowledge of a discrete logarithm, made non-interactive.

Statement: Y in G. Witness: x with Y = x*G. The challenge binds the session and the prover: a
proof recorded in one session or made by one party is worthless in another (CVE-2022-47930).
"""

from __future__ import annotations

from typing import Annotated

from mpcsim.crypto.encoding import POINT, SCALAR, Message, wire
from mpcsim.crypto.groups.group import Point, Scalar
from mpcsim.crypto.hashing import Tag, u32
from mpcsim.crypto.rng import Rng


@wire
class Proof(Message):
    """A proof (R, z) with z*G = R + e*Y."""

    R: Annotated[Point, POINT]
    z: Annotated[Scalar, SCALAR]


def _challenge(sid: bytes, prover: int, Y: Point, R: Point) -> Scalar:
    return Y.group.hash_to_scalar(
        Tag.SCHNORR, sid, u32(prover), Y.group.name.encode(), Y.encode(), R.encode()
    )


def prove(sid: bytes, prover: int, x: Scalar, Y: Point, rng: Rng) -> Proof:
    """Prove knowledge of ``x`` with ``Y = x*G``."""
    k = Y.group.random_scalar(rng)
    R = Y.group.base(k)
    return Proof(R, k + _challenge(sid, prover, Y, R) * x)


def verify(sid: bytes, prover: int, Y: Point, proof: Proof) -> bool:
    """Accept iff z*G = R + e*Y."""
    e = _challenge(sid, prover, Y, proof.R)
    return Y.group.base(proof.z) == proof.R + e * Y
