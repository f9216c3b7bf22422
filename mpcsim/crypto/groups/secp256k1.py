"""secp256k1 (SEC 2, section 2.4.1) on libsecp256k1, through coincurve.

Scalars are often secret (nonces, chi, exponents of base OTs), so that both multiplications take
libsecp256k1's constant-time functions: ``base`` that of key generation, ``times`` that of ECDH,
with the point itself as its output. ``PublicKey.multiply`` (``secp256k1_ec_pubkey_tweak_mul``) is
variable-time; it takes 44 us where ECDH takes 60. What Python does with the scalar's integer is not
constant-time, and cannot be.
"""

from __future__ import annotations

from typing import Any, Literal

from coincurve import PublicKey
from coincurve._libsecp256k1 import ffi, lib  # type: ignore[import-not-found]
from coincurve.context import GLOBAL_CONTEXT

from mpcsim.crypto.groups.group import Group, Point, Scalar, refuse
from mpcsim.crypto.hashing import HashTag, tagged_xof, u32
from mpcsim.errors import InternalError, InvalidEncoding

ORDER = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141
POINT_BYTES = 33


@ffi.callback("int(unsigned char *, const unsigned char *, const unsigned char *, void *)")  # type: ignore[untyped-decorator]
def _coordinates(output: Any, x: Any, y: Any, data: Any) -> int:
    """Take the place of ECDH's hash function: put out the point itself."""
    ffi.memmove(output, x, 32)
    ffi.memmove(output + 32, y, 32)
    return 1


def _times(point: PublicKey, scalar: bytes) -> PublicKey:
    """Return scalar * point, for a scalar from 1 to n - 1."""
    output = ffi.new("unsigned char[64]")
    lib.secp256k1_ecdh(GLOBAL_CONTEXT.ctx, output, point.public_key, scalar, _coordinates, ffi.NULL)
    return PublicKey(b"\4" + bytes(output))


class Secp256k1Point(Point):
    """A point; ``key`` is None for the identity, which libsecp256k1 does not represent."""

    __slots__ = ("_encoded", "is_identity", "key")

    def __init__(self, key: PublicKey | None, encoded: bytes | None = None) -> None:
        """``encoded``: its encoding, where it is known already."""
        self.key = key
        self.is_identity = key is None
        self._encoded = encoded

    def __add__(self, other: Point) -> Point:
        if not isinstance(other, Secp256k1Point):
            return NotImplemented
        if self.key is None:
            return other
        if other.key is None:
            return self
        try:
            return Secp256k1Point(PublicKey.combine_keys([self.key, other.key]))
        except ValueError:  # libsecp256k1's word for a sum at infinity
            return SECP256K1.identity

    def __neg__(self) -> Point:
        if self.key is None:
            return self
        data = self.encode()
        return Secp256k1Point(PublicKey(bytes([data[0] ^ 1]) + data[1:]))

    def times(self, s: Scalar) -> Point:
        if s.group is not SECP256K1:
            refuse(s, "*", self)
        if self.key is None or not s.n:
            return SECP256K1.identity
        return Secp256k1Point(_times(self.key, s.n.to_bytes(32, "big")))

    def encode(self) -> bytes:
        if self._encoded is None:
            if self.key is None:
                raise InternalError("the identity of secp256k1 has no SEC 1 compressed encoding")
            self._encoded = self.key.format()
        return self._encoded

    def x(self) -> int:
        """Affine x coordinate."""
        return int.from_bytes(self.encode()[1:], "big")

    def y_is_odd(self) -> bool:
        """Parity of the affine y coordinate."""
        return self.encode()[0] == 3


class Secp256k1Group(Group):
    name = "secp256k1"
    order = ORDER
    byteorder: Literal["big", "little"] = "big"
    point_bytes = POINT_BYTES
    identity = Secp256k1Point(None)

    def base(self, s: Scalar) -> Point:
        if not s.n:
            return self.identity
        return Secp256k1Point(PublicKey.from_valid_secret(s.n.to_bytes(32, "big")))

    def decode_point(self, data: bytes) -> Secp256k1Point:
        # libsecp256k1 also takes 65-byte encodings; only the compressed form is canonical here.
        if len(data) != POINT_BYTES:
            raise InvalidEncoding(f"secp256k1 point of {len(data)} bytes")
        try:
            return Secp256k1Point(PublicKey(data), data)
        except ValueError as error:
            raise InvalidEncoding("not a compressed secp256k1 point") from error

    def hash_to_point(self, tag: HashTag, *parts: bytes) -> Point:
        """Random oracle onto the curve, by try-and-increment: nobody knows the discrete log.

        Uniform over the points: x is a fresh hash at each try and the sign of y is hashed too.
        The running time depends on the input: on data of this side, a caller sees to it that it
        does not depend on a secret (in ``ot_base`` both sides hash the same points).
        """
        for counter in range(256):
            digest = tagged_xof(tag, 33, *parts, u32(counter))
            try:
                return Secp256k1Point(PublicKey(bytes([2 + (digest[0] & 1)]) + digest[1:]))
            except ValueError:
                continue
        raise InternalError("hash_to_point found no point in 256 tries (probability 2^-256)")

    def sum(self, points: object) -> Point:
        keys = [p.key for p in points if p.key is not None]  # type: ignore[attr-defined]
        if not keys:
            return self.identity
        try:
            return Secp256k1Point(PublicKey.combine_keys(keys))
        except ValueError:
            return self.identity


SECP256K1 = Secp256k1Group()
Secp256k1Point.group = SECP256K1
