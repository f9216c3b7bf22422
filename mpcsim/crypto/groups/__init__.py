"""Groups, scalars and polynomials: the arithmetic every protocol is written in."""

from mpcsim.crypto.groups.ed25519 import ED25519
from mpcsim.crypto.groups.group import Point, Scalar
from mpcsim.crypto.groups.polynomial import evaluate, lagrange_coefficient
from mpcsim.crypto.groups.secp256k1 import SECP256K1

__all__ = [
    "ED25519",
    "SECP256K1",
    "Point",
    "Scalar",
    "evaluate",
    "lagrange_coefficient",
]
