"""The prime-order subgroup of edwards25519 (RFC 8032, RFC 9591 section 6.1) on libsodium."""

from __future__ import annotations

from functools import lru_cache
from typing import Literal

from nacl import bindings as sodium
from nacl.exceptions import RuntimeError as SodiumError

from mpcsim.crypto.groups.group import Group, Point, Scalar, refuse
from mpcsim.errors import InternalError, InvalidEncoding

ORDER = 2**252 + 27742317777372353535851937790883648493
POINT_BYTES = 32
_IDENTITY = b"\x01" + bytes(31)


class Ed25519Point(Point):
    """A point of the prime-order subgroup, held in its RFC 8032 encoding."""

    __slots__ = ("data", "is_identity")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.is_identity = data == _IDENTITY

    def __add__(self, other: Point) -> Point:
        if not isinstance(other, Ed25519Point):
            return NotImplemented
        if self.is_identity:
            return other
        return Ed25519Point(sodium.crypto_core_ed25519_add(self.data, other.data))

    def __neg__(self) -> Point:
        if self.is_identity:
            return self
        return Ed25519Point(self.data[:31] + bytes([self.data[31] ^ 0x80]))

    def times(self, s: Scalar) -> Point:
        if s.group is not ED25519:
            refuse(s, "*", self)
        if not s.n or self.is_identity:
            return ED25519.identity
        try:
            return Ed25519Point(
                sodium.crypto_scalarmult_ed25519_noclamp(s.n.to_bytes(32, "little"), self.data)
            )
        except SodiumError as error:
            raise InternalError("multiplication of a point outside the subgroup") from error

    def encode(self) -> bytes:
        return self.data


class Ed25519Group(Group):
    name = "ed25519"
    order = ORDER
    byteorder: Literal["big", "little"] = "little"
    point_bytes = POINT_BYTES
    identity = Ed25519Point(_IDENTITY)

    def base(self, s: Scalar) -> Point:
        if not s.n:
            return self.identity
        return Ed25519Point(
            sodium.crypto_scalarmult_ed25519_base_noclamp(s.n.to_bytes(32, "little"))
        )

    def decode_point(self, data: bytes) -> Ed25519Point:
        # The check covers canonical form, the curve equation, small order (so the identity too)
        # and membership in the prime-order subgroup.
        if len(data) != POINT_BYTES:
            raise InvalidEncoding(f"ed25519 point of {len(data)} bytes")
        if not _is_valid(data):
            raise InvalidEncoding("not a point of the prime-order subgroup of edwards25519")
        return Ed25519Point(data)


@lru_cache(maxsize=4096)
def _is_valid(data: bytes) -> bool:
    """Return whether an encoding is a point of the group.

    Cached, because the check takes longer than a multiplication, and the points of a key come again
    with every share that is loaded.
    """
    return bool(sodium.crypto_core_ed25519_is_valid_point(data))


ED25519 = Ed25519Group()
Ed25519Point.group = ED25519
