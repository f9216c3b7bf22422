"""Arithmetic on all of edwards25519, points of small order included, as a careless library offers
it.

It takes points that libsodium refuses: of small order, with a torsion component, not canonical.
For attackers and for the naive side of a research build; slow, and nothing in it is checked.
"""

from __future__ import annotations

import hashlib

from mpcsim.crypto.encoding import WireContext
from mpcsim.crypto.groups.ed25519 import ED25519, Ed25519Group, Ed25519Point
from mpcsim.crypto.groups.group import Group, Point, Scalar
from mpcsim.errors import InvalidEncoding

P = 2**255 - 19
L = ED25519.order
D = -121665 * pow(121666, -1, P) % P
_ROOT = pow(2, (P - 1) // 4, P)

ORDER_2 = (P - 1).to_bytes(32, "little")
"""(0, -1): the point of order two."""
ORDER_8 = bytes.fromhex("26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05")
"""A point of order eight."""

Affine = tuple[int, int]


def decode(data: bytes) -> Affine:
    """Return the point of an encoding (RFC 8032, section 5.1.3), of any order; y is reduced.

    Raises:
        InvalidEncoding: not on the curve.
    """
    n = int.from_bytes(data, "little")
    y, sign = (n & (1 << 255) - 1) % P, n >> 255
    square = (y * y - 1) * pow(D * y * y + 1, -1, P) % P
    x = pow(square, (P + 3) // 8, P)
    if x * x % P != square:
        x = x * _ROOT % P
    if x * x % P != square:
        raise InvalidEncoding("not on the curve")
    return (P - x if x & 1 != sign else x) % P, y


def encode(point: Affine) -> bytes:
    """Return the encoding of RFC 8032."""
    x, y = point
    return (y | (x & 1) << 255).to_bytes(32, "little")


def add(a: Affine, b: Affine) -> Affine:
    """Return the sum, by the complete addition law."""
    (x1, y1), (x2, y2) = a, b
    product = D * x1 * x2 * y1 * y2 % P
    x = (x1 * y2 + x2 * y1) * pow(1 + product, -1, P)
    y = (y1 * y2 + x1 * x2) * pow(1 - product, -1, P)
    return x % P, y % P


def times(n: int, point: Affine) -> Affine:
    """n times the point."""
    total = (0, 1)
    while n:
        if n & 1:
            total = add(total, point)
        point, n = add(point, point), n >> 1
    return total


class LaxPoint(Ed25519Point):
    """Any point of the curve, passed off as one of the prime-order group."""

    __slots__ = ()

    def __add__(self, other: Point) -> Point:
        return LaxPoint(encode(add(decode(self.data), decode(other.encode()))))

    __radd__ = __add__

    def __neg__(self) -> Point:
        x, y = decode(self.data)
        return LaxPoint(encode((-x % P, y)))

    def times(self, s: Scalar) -> Point:
        return LaxPoint(encode(times(s.n, decode(self.data))))


class LaxGroup(Ed25519Group):
    """The group, with decoders that take what comes."""

    def decode_point(self, data: bytes) -> Ed25519Point:
        return LaxPoint(encode(decode(data)))

    def decode_scalar(self, data: bytes) -> Scalar:
        return ED25519.scalar(int.from_bytes(data, "little"))


LAX: Group = LaxGroup()


def accept_small_order(context: WireContext) -> WireContext:
    """Decode without checking that points and scalars are canonical and of the group."""
    return WireContext(LAX, context.mta)


def verify_with_cofactor(signature: bytes, public_key: bytes, message: bytes) -> bool:
    """[8] S B = [8] R + [8] k A: the other equation of RFC 8032, section 5.1.7; takes any S."""
    R, S = signature[:32], int.from_bytes(signature[32:], "little")
    digest = hashlib.sha512(R + public_key + message).digest()
    k = int.from_bytes(digest, "little") % L
    base = decode(ED25519.base(ED25519.scalar(1)).encode())
    right = add(decode(R), times(k, decode(public_key)))
    return times(8 * (S % L), base) == times(8, right)
