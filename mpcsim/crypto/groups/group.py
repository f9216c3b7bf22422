"""Interface of a prime-order group: its scalars, points and canonical encodings.

Curve arithmetic itself is libsecp256k1's and libsodium's; the classes here give it operators, so
that a step of a paper reads like the paper: ``R_i = r_i * G``, ``z_i = d_i + rho_i * e_i``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from numbers import Number
from typing import Any, Final, Literal, overload

from mpcsim.crypto.hashing import HashTag, tagged_xof
from mpcsim.crypto.rng import Rng
from mpcsim.errors import InternalError, InvalidEncoding

SCALAR_BYTES: Final = 32


class Scalar:
    """A residue modulo the group order q. Immutable; the repr never shows the value."""

    __slots__ = ("group", "n")

    def __init__(self, n: int, group: Group) -> None:
        """``n`` must already be in [0, q); use ``Group.scalar`` to reduce."""
        self.n = n
        self.group = group

    # What the operands are is asked only after it has gone wrong: to ask first takes as long as to
    # add.

    def __add__(self, other: Scalar) -> Scalar:
        group = self.group
        try:
            if other.group is group:
                return Scalar((self.n + other.n) % group.order, group)
        except AttributeError:
            pass
        refuse(self, "+", other)
        return NotImplemented

    def __sub__(self, other: Scalar) -> Scalar:
        group = self.group
        try:
            if other.group is group:
                return Scalar((self.n - other.n) % group.order, group)
        except AttributeError:
            pass
        refuse(self, "-", other)
        return NotImplemented

    def __neg__(self) -> Scalar:
        return Scalar(-self.n % self.group.order, self.group)

    @overload
    def __mul__(self, other: Scalar) -> Scalar: ...
    @overload
    def __mul__(self, other: Point) -> Point: ...
    def __mul__(self, other: Any) -> Any:
        if isinstance(other, Scalar):
            group = self.group
            if other.group is group:
                return Scalar(self.n * other.n % group.order, group)
        else:
            try:
                return other.times(self)
            except AttributeError:
                if isinstance(other, Point):
                    raise
        refuse(self, "*", other)
        return NotImplemented

    def inverse(self) -> Scalar:
        """Multiplicative inverse.

        Raises:
            InternalError: the scalar is zero (callers check data from peers first).
        """
        if not self.n:
            raise InternalError("inverse of zero")
        return Scalar(pow(self.n, -1, self.group.order), self.group)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Scalar) and self.n == other.n and self.group is other.group

    def __hash__(self) -> int:
        return hash((self.n, self.group.name))

    def __bool__(self) -> bool:
        return self.n != 0

    def encode(self) -> bytes:
        """Canonical 32 bytes, in the byte order of the group's standard."""
        return self.n.to_bytes(SCALAR_BYTES, self.group.byteorder)

    def __repr__(self) -> str:
        return f"Scalar<{self.group.name}, redacted>"


def refuse(one: Scalar, sign: str, other: object) -> None:
    """Raise a TypeError that says what is wrong with an operand, where Python's would not help.

    Raises:
        TypeError: a number, or something of another group.
    """
    if isinstance(other, Number):
        wanted = "a scalar or a point" if sign == "*" else "a scalar"
        raise TypeError(
            f"scalar {sign} {type(other).__name__}: the right operand must be {wanted}; "
            "group.scalar(n) makes a scalar of a number"
        )
    if isinstance(other, Scalar | Point) and other.group is not one.group:
        raise TypeError(f"{one.group} {sign} {other.group}: operands of different groups")


class Point(ABC):
    """An element of the prime-order group. Immutable."""

    __slots__ = ()
    group: Group
    is_identity: bool

    @abstractmethod
    def __add__(self, other: Point) -> Point: ...
    @abstractmethod
    def __neg__(self) -> Point: ...
    @abstractmethod
    def times(self, s: Scalar) -> Point:
        """``s * self``.

        Raises:
            TypeError: a scalar of another group.
        """

    @abstractmethod
    def encode(self) -> bytes:
        """Canonical compressed encoding.

        Raises:
            InternalError: the point is the identity of a group whose standard has no encoding
                for it (secp256k1).
        """

    def __sub__(self, other: Point) -> Point:
        try:
            return self + (-other)
        except TypeError:
            return NotImplemented

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Point) or self.group is not other.group:
            return False
        if self.is_identity or other.is_identity:
            return self.is_identity and other.is_identity
        return self.encode() == other.encode()

    def __hash__(self) -> int:
        return hash((self.group.name, b"" if self.is_identity else self.encode()))

    def __reduce__(self) -> tuple[object, ...]:
        if self.is_identity:
            return getattr, (self.group, "identity")
        return self.group.decode_point, (self.encode(),)

    def __repr__(self) -> str:
        text = "identity" if self.is_identity else self.encode().hex()
        return f"Point<{self.group.name}, {text}>"


class Group(ABC):
    """A prime-order group with a canonical encoding."""

    name: str
    order: int
    """Order q, the number of elements."""
    byteorder: Literal["big", "little"]
    point_bytes: int
    identity: Point

    def scalar(self, n: int) -> Scalar:
        """Return the residue of ``n``, reduced modulo the order."""
        return Scalar(n % self.order, self)

    def decode_scalar(self, data: bytes) -> Scalar:
        """Strict inverse of ``Scalar.encode``.

        Raises:
            InvalidEncoding: wrong length, or not below q.
        """
        if len(data) != SCALAR_BYTES:
            raise InvalidEncoding(f"scalar of {len(data)} bytes")
        n = int.from_bytes(data, self.byteorder)
        if n >= self.order:
            raise InvalidEncoding("scalar is not canonical (not below the group order)")
        return Scalar(n, self)

    def random_scalar(self, rng: Rng) -> Scalar:
        """Uniform in [1, q): 48 random bytes reduced, bias below 2^-127."""
        return Scalar(1 + int.from_bytes(rng.bytes(48), "big") % (self.order - 1), self)

    def hash_to_scalar(self, tag: HashTag, *parts: bytes) -> Scalar:
        """Random oracle into Z_q, bias below 2^-127."""
        return Scalar(int.from_bytes(tagged_xof(tag, 48, *parts), "big") % self.order, self)

    @abstractmethod
    def base(self, s: Scalar) -> Point:
        """``s * G`` for the standard generator G."""

    @abstractmethod
    def decode_point(self, data: bytes) -> Point:
        """Strict inverse of ``Point.encode``.

        Raises:
            InvalidEncoding: wrong length, not canonical, not on the curve, outside the
                prime-order subgroup, or the identity.
        """

    def sum(self, points: Iterable[Point]) -> Point:
        """Sum of any number of points."""
        total = self.identity
        for point in points:
            total = total + point
        return total

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self) -> str:
        return self.name.upper()  # the name of the only instance, in the class's module
