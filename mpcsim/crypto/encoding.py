"""Wire encoding of messages: the one place where bytes become values.

A message is a frozen dataclass whose fields are annotated with a codec::

    @wire
    class Commit(Message):
        nonce: Annotated[bytes, Fixed(32)]
        points: Annotated[tuple[Point, ...], Seq(POINT)]

``encode`` and ``decode`` follow from the annotations. The encoding is canonical: a value has one
encoding and every accepted byte string is the encoding of exactly one value. ``decode`` raises
``InvalidEncoding`` and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import (
    Any,
    ClassVar,
    Protocol,
    Self,
    TypeVar,
    cast,
    dataclass_transform,
    get_type_hints,
)

from mpcsim.crypto.groups.group import SCALAR_BYTES, Group, Point, Scalar
from mpcsim.crypto.kernels import ScalarVector
from mpcsim.errors import ContractError, InternalError, InvalidEncoding
from mpcsim.ids import MAX_PARTIES, PartyId

WIRE_VERSION = 1
"""Version of the wire format: the first byte of envelopes."""
STORED_VERSION = 1
"""Version of the stored format, which outlives the wire format: the first byte of shares, public
records, presignatures and snapshots."""


@dataclass(frozen=True)
class WireContext:
    """Context that decoding takes from the session: the group and the multiplication scheme."""

    group: Group
    mta: Any = None


NO_CONTEXT: Any = None
"""Context of values that bring their own curve and scheme: they need nothing of a session."""


class Reader:
    """A cursor over untrusted bytes."""

    __slots__ = ("data", "position", "size")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.size = len(data)
        self.position = 0

    def take(self, n: int) -> bytes:
        """Return the next ``n`` bytes.

        Raises:
            InvalidEncoding: fewer are left.
        """
        start = self.position
        end = start + n
        if end > self.size:
            raise InvalidEncoding(f"truncated: {n} bytes expected at offset {start}")
        self.position = end
        return self.data[start:end]

    def number(self, width: int) -> int:
        """Return an unsigned integer of ``width`` bytes, big-endian; raises as ``take``."""
        return int.from_bytes(self.take(width), "big")

    def prefixed(self, limit: int) -> bytes:
        """Return bytes that stand behind their length, which takes four bytes.

        Raises:
            InvalidEncoding: they are more than ``limit``, or fewer than their number.
        """
        length = self.number(4)
        if length > limit:
            raise InvalidEncoding(f"field of {length} bytes, at most {limit} allowed")
        return self.take(length)

    def finish(self) -> None:
        """Check that every byte has been used.

        Raises:
            InvalidEncoding: trailing bytes.
        """
        if self.position != self.size:
            raise InvalidEncoding(f"{len(self.data) - self.position} trailing bytes")


def _prefixed(value: bytes, limit: int) -> bytes:
    if len(value) > limit:
        raise InternalError(f"field of {len(value)} bytes, at most {limit} declared")
    return len(value).to_bytes(4, "big") + value


class Codec(Protocol):
    """Encoding of one field: how it is written and read."""

    def write(self, value: Any, context: WireContext) -> bytes: ...
    def read(self, reader: Reader, context: WireContext) -> Any: ...


@dataclass(frozen=True)
class Unsigned:
    """An unsigned integer of ``width`` bytes, big-endian."""

    width: int

    def write(self, value: int, context: WireContext) -> bytes:
        return value.to_bytes(self.width, "big")

    def read(self, reader: Reader, context: WireContext) -> int:
        return reader.number(self.width)


@dataclass(frozen=True)
class Fixed:
    """Bytes of a fixed length."""

    length: int

    def write(self, value: bytes, context: WireContext) -> bytes:
        if len(value) != self.length:
            raise InternalError(f"field of {len(value)} bytes, {self.length} declared")
        return value

    def read(self, reader: Reader, context: WireContext) -> bytes:
        return reader.take(self.length)


@dataclass(frozen=True)
class Sized:
    """Bytes of a length that the session's parameters give."""

    length: Callable[[WireContext], int]

    def write(self, value: bytes, context: WireContext) -> bytes:
        return Fixed(self.length(context)).write(value, context)

    def read(self, reader: Reader, context: WireContext) -> bytes:
        return reader.take(self.length(context))


@dataclass(frozen=True)
class Bytes:
    """Length-prefixed bytes, at most ``limit`` of them."""

    limit: int

    def write(self, value: bytes, context: WireContext) -> bytes:
        return _prefixed(value, self.limit)

    def read(self, reader: Reader, context: WireContext) -> bytes:
        return reader.prefixed(self.limit)


@dataclass(frozen=True)
class Text:
    """Length-prefixed UTF-8."""

    limit: int

    def write(self, value: str, context: WireContext) -> bytes:
        return _prefixed(value.encode(), self.limit)

    def read(self, reader: Reader, context: WireContext) -> str:
        try:
            return reader.prefixed(self.limit).decode()
        except UnicodeDecodeError as error:
            raise InvalidEncoding("text is not UTF-8") from error


@dataclass(frozen=True)
class ScalarCodec:
    """A canonical scalar of the session's group."""

    def write(self, value: Scalar, context: WireContext) -> bytes:
        return value.encode()

    def read(self, reader: Reader, context: WireContext) -> Scalar:
        return context.group.decode_scalar(reader.take(SCALAR_BYTES))


@dataclass(frozen=True)
class PointCodec:
    """A point of the session's group, never the identity."""

    def write(self, value: Point, context: WireContext) -> bytes:
        return value.encode()

    def read(self, reader: Reader, context: WireContext) -> Point:
        return context.group.decode_point(reader.take(context.group.point_bytes))


@dataclass(frozen=True)
class ScalarRows:
    """A matrix of canonical scalars, ``rows`` x ``columns``, as one little-endian buffer.

    Read as ``columns`` vectors of ``rows`` elements.
    """

    rows: Callable[[WireContext], int]
    columns: int

    def write(self, value: tuple[ScalarVector, ...], context: WireContext) -> bytes:
        data: bytes = context.mta.kernel.join(value)
        return data

    def read(self, reader: Reader, context: WireContext) -> tuple[ScalarVector, ...]:
        data = reader.take(self.rows(context) * self.columns * SCALAR_BYTES)
        try:
            vectors = context.mta.kernel.split_checked(data, self.columns, context.group.order)
        except ValueError as error:
            raise InvalidEncoding(str(error)) from error
        return tuple(vectors)


@dataclass(frozen=True)
class Seq:
    """A sequence; its exact length, where one is known, is checked by the protocol step."""

    element: Codec
    limit: int = MAX_PARTIES

    def write(self, value: tuple[Any, ...], context: WireContext) -> bytes:
        if len(value) > self.limit:
            raise InternalError(f"sequence of {len(value)}, at most {self.limit} declared")
        write = self.element.write
        return len(value).to_bytes(2, "big") + b"".join([write(v, context) for v in value])

    def read(self, reader: Reader, context: WireContext) -> tuple[Any, ...]:
        count = reader.number(2)
        if count > self.limit:
            raise InvalidEncoding(f"sequence of {count}, at most {self.limit} allowed")
        read = self.element.read
        return tuple([read(reader, context) for _ in range(count)])


@dataclass(frozen=True)
class PerParty:
    """A mapping from party to value, in strictly increasing order of party."""

    element: Codec

    def write(self, value: Mapping[PartyId, Any], context: WireContext) -> bytes:
        return len(value).to_bytes(2, "big") + b"".join(
            [j.to_bytes(2, "big") + self.element.write(value[j], context) for j in sorted(value)]
        )

    def read(self, reader: Reader, context: WireContext) -> dict[PartyId, Any]:
        count = reader.number(2)
        if count > MAX_PARTIES:
            raise InvalidEncoding(f"mapping of {count} parties, at most {MAX_PARTIES} allowed")
        found: dict[PartyId, Any] = {}
        last = 0
        for _ in range(count):
            j = reader.number(2)
            if j <= last:
                raise InvalidEncoding("party ids are not strictly increasing")
            last = j
            found[PartyId(j)] = self.element.read(reader, context)
        return found


@dataclass(frozen=True)
class Optional:
    """A value or None."""

    element: Codec

    def write(self, value: Any, context: WireContext) -> bytes:
        return b"\0" if value is None else b"\1" + self.element.write(value, context)

    def read(self, reader: Reader, context: WireContext) -> Any:
        flag = reader.number(1)
        if flag > 1:
            raise InvalidEncoding(f"presence flag {flag}")
        return self.element.read(reader, context) if flag else None


@dataclass(frozen=True)
class Added:
    """A value or None, in front of fields that begin with a zero byte, as a text's length does:
    None takes no room."""

    element: Codec

    def write(self, value: Any, context: WireContext) -> bytes:
        return b"" if value is None else b"\1" + self.element.write(value, context)

    def read(self, reader: Reader, context: WireContext) -> Any:
        if reader.data[reader.position : reader.position + 1] != b"\1":
            return None
        reader.take(1)
        return self.element.read(reader, context)


@dataclass(frozen=True)
class Nested:
    """Another wire type, possibly chosen by the session (the multiplication scheme's messages)."""

    of: type[Message] | Callable[[WireContext], type[Message]]

    def _type(self, context: WireContext) -> type[Message]:
        if isinstance(self.of, type):
            return self.of
        if context.mta is None:
            raise InvalidEncoding("a multiplication message in a session without multiplication")
        return self.of(context)

    def write(self, value: Message, context: WireContext) -> bytes:
        return value.encode(context)

    def read(self, reader: Reader, context: WireContext) -> Message:
        return self._type(context).read(reader, context)


U8, U16, U32, U64 = Unsigned(1), Unsigned(2), Unsigned(4), Unsigned(8)
SCALAR, POINT = ScalarCodec(), PointCodec()
BYTES32 = Fixed(32)


def needs_session(codec: Codec) -> bool:
    """Return whether a field is read with what a session brings: its group or its scheme."""
    match codec:
        case ScalarCodec() | PointCodec() | ScalarRows() | Sized():
            return True
        case Seq() | PerParty() | Optional() | Added():
            return needs_session(codec.element)
        case Nested():
            if not isinstance(codec.of, type):
                return True
            nested: type[Message] = codec.of
            return any(needs_session(each) for _, each in nested.CODECS)
    return False


class Message:
    """Base of all values that have a wire encoding. Subclasses are made by ``wire``."""

    CODECS: ClassVar[tuple[tuple[str, Codec], ...]] = ()

    def encode(self, context: WireContext) -> bytes:
        """Encode it canonically."""
        values = self.__dict__
        return b"".join([codec.write(values[name], context) for name, codec in self.CODECS])

    @classmethod
    def read(cls, reader: Reader, context: WireContext) -> Self:
        """Read one value and leave the cursor behind it.

        Raises:
            InvalidEncoding: the bytes are not a canonical encoding.
        """
        return cls(**{name: codec.read(reader, context) for name, codec in cls.CODECS})

    @classmethod
    def decode(cls, data: bytes, context: WireContext) -> Self:
        """Decode it, strictly.

        Raises:
            InvalidEncoding: the bytes are not a canonical encoding, or more follow.
        """
        reader = Reader(data)
        value = cls.read(reader, context)
        reader.finish()
        return value


M = TypeVar("M", bound=Message)


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def wire(cls: type[M]) -> type[M]:
    """Turn an annotated class into a frozen dataclass with an encoding.

    Raises:
        ContractError: a field has no codec in its annotation, or several.
    """
    made = dataclass(frozen=True)(cls)
    hints = get_type_hints(made, include_extras=True)
    codecs: list[tuple[str, Codec]] = []
    for f in fields(cast(Any, made)):
        metadata = getattr(hints[f.name], "__metadata__", None)
        if metadata is None or len(metadata) != 1:
            raise ContractError(
                f"field {f.name!r} of {cls.__name__} has no codec, or several: "
                f"{f.name}: Annotated[int, U32]"
            )
        codecs.append((f.name, metadata[0]))
    made.CODECS = tuple(codecs)
    return made
