"""Alterations and malformations of one field of a wire message, derived from its codecs.

``alterations`` keeps the message decodable: another scalar, a missing list element, a wrong key.
``malformations`` does not: scalars out of range, points off the curve, lying length prefixes.
Both look at a sample to see which fields there are; the functions they return work on any message
of the same kind and shape. A new message or field is covered without a word here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from nacl import bindings as sodium

from mpcsim.crypto.encoding import (
    Bytes,
    Codec,
    Fixed,
    Message,
    Nested,
    Optional,
    PerParty,
    PointCodec,
    ScalarCodec,
    ScalarRows,
    Seq,
    Sized,
    Text,
    Unsigned,
    WireContext,
)
from mpcsim.crypto.groups.group import SCALAR_BYTES
from mpcsim.errors import InternalError

Change = Callable[[Any], Any]
"""Function from a field's value to another value."""
Spoil = Callable[[Any], bytes]
"""Function from a field's value to bytes in place of its encoding."""


@dataclass(frozen=True)
class Alteration:
    """Alteration of one field; the result still decodes."""

    name: str
    apply: Callable[[Message], Message]


@dataclass(frozen=True)
class Malformation:
    """Malformation of one field or length; the result does not decode."""

    name: str
    apply: Callable[[Message], bytes]


def alterations(sample: Message, context: WireContext) -> list[Alteration]:
    """Return all alterations of a message, without two that have the same effect."""
    found: list[Alteration] = []
    encodings = {sample.encode(context)}
    for name, change in _changes(Nested(type(sample)), sample, context):
        try:
            encoding = change(sample).encode(context)
        except InternalError:
            continue  # longer than its codec can write
        if encoding not in encodings:
            encodings.add(encoding)
            found.append(Alteration(name, change))
    return found


def malformations(sample: Message, context: WireContext) -> list[Malformation]:
    """Return all malformations of a message."""
    found: list[Malformation] = []
    for name, spoil in _all_spoils(sample, context):
        try:
            type(sample).decode(spoil(sample), context)
        except Exception:  # not only InvalidEncoding: a decoder that raises another is a find
            found.append(Malformation(name, spoil))
    return found


# ---------------------------------------------------------------------- still decodable


def _changes(codec: Codec, value: Any, context: WireContext) -> Iterator[tuple[str, Change]]:
    match codec:
        case Unsigned(width):
            yield "+ 1", lambda v: (v + 1) % 256**width
            yield "= 0", lambda v: 0
        case Fixed() | Sized():
            yield from _changed_bytes()
        case Bytes():
            yield from _changed_bytes()
            yield "one byte longer", lambda v: v + b"\0"
            yield "empty", lambda v: b""
        case Text():
            yield "one letter longer", lambda v: v + "x"
            yield "empty", lambda v: ""
        case ScalarCodec():
            yield "+ 1", lambda v: v + v.group.scalar(1)
            yield "negated", lambda v: -v
            yield "= 0", lambda v: v.group.scalar(0)
        case PointCodec():
            yield "+ G", lambda v: v + v.group.base(v.group.scalar(1))
            yield "negated", lambda v: -v
            yield "= G", lambda v: v.group.base(v.group.scalar(1))
        case ScalarRows():
            yield "first scalar + 1", lambda v: _bump(v, 0, context)
            yield "last scalar + 1", lambda v: _bump(v, -1, context)
            yield "all 0", lambda v: _zero_rows(v, context)
        case Seq(element):
            yield "empty", lambda v: ()
            yield "last element dropped", lambda v: v[:-1]
            yield "last element twice", lambda v: (*v, *v[-1:])
            yield "first two swapped", lambda v: (*v[1::-1], *v[2:])
            for where, index in (("[first]", 0), ("[last]", -1)) if value else ():
                for name, change in _changes(element, value[index], context):
                    yield f"{where} {name}", _at_index(index, change)
        case PerParty(element):
            yield "empty", lambda v: {}
            yield (
                "a stranger added",
                lambda v: {**v, max(v, default=0) + 1: _any(v, element, context)},
            )
            for where, pick in (("[first]", min), ("[last]", max)) if value else ():
                yield f"{where} dropped", partial(_without_picked, pick)
                for name, change in _changes(element, value[pick(value)], context):
                    yield f"{where} {name}", _at_key(pick, change)
        case Optional(element):
            if value is None:
                some = _some(element, context)
                if some is not None:
                    yield "present", lambda v: some
            else:
                yield "absent", lambda v: None
                yield from _changes(element, value, context)
        case Nested():
            for field, inner in value.CODECS:
                for name, change in _changes(inner, getattr(value, field), context):
                    yield f".{field} {name}".replace(" .", "."), _at_field(field, change)
        case _:
            raise TypeError(f"no alterations are known for the codec {codec}")


def _changed_bytes() -> Iterator[tuple[str, Change]]:
    yield "first bit flipped", lambda v: bytes([v[0] ^ 1]) + v[1:] if v else v
    yield "last bit flipped", lambda v: v[:-1] + bytes([v[-1] ^ 0x80]) if v else v
    yield "all 0", lambda v: bytes(len(v))


def _at_field(field: str, change: Change) -> Change:
    return lambda m: replace(m, **{field: change(getattr(m, field))})


def _at_index(index: int, change: Change) -> Change:
    def apply(v: tuple[Any, ...]) -> tuple[Any, ...]:
        new = list(v)
        new[index] = change(new[index])
        return tuple(new)

    return apply


def _at_key(pick: Callable[[Any], int], change: Change) -> Change:
    return lambda v: {**v, pick(v): change(v[pick(v)])}


def _without(v: dict[int, Any], key: int) -> dict[int, Any]:
    return {j: x for j, x in v.items() if j != key}


def _without_picked(pick: Callable[[Any], int], v: dict[int, Any]) -> dict[int, Any]:
    return _without(v, pick(v))


def _any(v: dict[int, Any], element: Codec, context: WireContext) -> Any:
    return next(iter(v.values())) if v else _some(element, context)


def _bump(rows: tuple[Any, ...], index: int, context: WireContext) -> tuple[Any, ...]:
    """Add 1 to the first (0) or last (-1) scalar of the buffer."""
    data = bytearray(context.mta.kernel.join(rows))
    at = index * SCALAR_BYTES % len(data)
    n = (int.from_bytes(data[at : at + SCALAR_BYTES], "little") + 1) % context.group.order
    data[at : at + SCALAR_BYTES] = n.to_bytes(SCALAR_BYTES, "little")
    return tuple(context.mta.kernel.split(bytes(data), len(rows), context.group.order))


def _zero_rows(rows: tuple[Any, ...], context: WireContext) -> tuple[Any, ...]:
    size = len(context.mta.kernel.join(rows))
    return tuple(context.mta.kernel.split(bytes(size), len(rows), context.group.order))


def _some(codec: Codec, context: WireContext) -> Any:
    """Return any value of the codec, for optional fields the sample lacks; None if unknown."""
    match codec:
        case Unsigned():
            return 1
        case Fixed(length):
            return bytes(length)
        case ScalarCodec():
            return context.group.scalar(5)
        case PointCodec():
            return context.group.base(context.group.scalar(5))
        case Seq():
            return ()
        case PerParty():
            return {}
        case Nested() if isinstance(codec.of, type):
            made: Any = codec.of
            return made(**{field: _some(inner, context) for field, inner in made.CODECS})
        case Nested() if context.mta is not None:
            return _some(Nested(codec._type(context)), context)
        case _:
            return None


# ---------------------------------------------------------------------- no longer decodable


def _all_spoils(sample: Message, context: WireContext) -> Iterator[tuple[str, Spoil]]:
    yield "nothing at all", lambda m: b""
    yield "first half only", lambda m: _half(m.encode(context))
    yield "last byte missing", lambda m: m.encode(context)[:-1]
    yield "one byte too many", lambda m: m.encode(context) + b"\0"
    yield from _spoils(Nested(type(sample)), sample, context)


def _half(data: bytes) -> bytes:
    return data[: len(data) // 2]


def _spoils(codec: Codec, value: Any, context: WireContext) -> Iterator[tuple[str, Spoil]]:
    match codec:
        case Unsigned() | Fixed() | Sized():
            pass  # every string of the right length is a value
        case Bytes() | Text():
            yield "length too large", lambda v: _longer(codec.write(v, context), 1)
            yield "length enormous", lambda v: b"\xff\xff\xff\xff" + codec.write(v, context)[4:]
            if isinstance(codec, Text):
                yield "not UTF-8", lambda v: b"\0\0\0\1\xff"
        case ScalarCodec():
            for name, n in (("= q", context.group.order), ("= 2^256 - 1", 2**256 - 1)):
                yield name, partial(_always, n.to_bytes(SCALAR_BYTES, context.group.byteorder))
        case PointCodec():
            yield from _bad_points(context)
        case ScalarRows():
            for name, index in (("first scalar = q", 0), ("last scalar = q", -1)):
                yield name, partial(_row_of_q, index=index, context=context)
        case Seq(element):
            yield "count too large", lambda v: _counted(len(v) + 1, codec.write(v, context))
            yield "count enormous", lambda v: _counted(0xFFFF, codec.write(v, context))
            for where, index in (("[first]", 0), ("[last]", -1)) if value else ():
                for name, spoil in _spoils(element, value[index], context):
                    yield f"{where} {name}", _spoil_index(element, index, spoil, context)
        case PerParty(element):
            yield "count too large", lambda v: _counted(len(v) + 1, codec.write(v, context))
            yield "count enormous", lambda v: _counted(0xFFFF, codec.write(v, context))
            if value:
                yield "party 0", lambda v: _pairs([(0, v[min(v)])], element, context)
                yield (
                    "first twice",
                    lambda v: _pairs([(min(v), v[min(v)]), *sorted(v.items())], element, context),
                )
            if len(value) > 1:
                yield (
                    "descending",
                    lambda v: _pairs(sorted(v.items(), reverse=True), element, context),
                )
        case Optional(element):
            yield "flag 2", lambda v: b"\2" + codec.write(v, context)[1:]
            if value is None:
                yield "flag without a value", lambda v: b"\1"
            else:
                yield "value without its flag", lambda v: b"\0" + codec.write(v, context)[1:]
                for name, spoil in _spoils(element, value, context):
                    yield name, partial(_present, spoil)
        case Nested():
            for field, inner in value.CODECS:
                for name, spoil in _spoils(inner, getattr(value, field), context):
                    yield f".{field} {name}".replace(" .", "."), _spoil_field(field, spoil, context)
        case _:
            raise TypeError(f"no malformations are known for the codec {codec}")


def _always(encoded: bytes, value: Any) -> bytes:
    return encoded


def _present(spoil: Spoil, value: Any) -> bytes:
    return b"\1" + spoil(value)


def _longer(encoded: bytes, by: int) -> bytes:
    return (int.from_bytes(encoded[:4], "big") + by).to_bytes(4, "big") + encoded[4:]


def _counted(count: int, encoded: bytes) -> bytes:
    return count.to_bytes(2, "big") + encoded[2:]


def _pairs(pairs: list[tuple[int, Any]], element: Codec, context: WireContext) -> bytes:
    body = b"".join(j.to_bytes(2, "big") + element.write(x, context) for j, x in pairs)
    return len(pairs).to_bytes(2, "big") + body


def _spoil_index(element: Codec, index: int, spoil: Spoil, context: WireContext) -> Spoil:
    def apply(v: tuple[Any, ...]) -> bytes:
        parts = [element.write(x, context) for x in v]
        parts[index] = spoil(v[index])
        return len(v).to_bytes(2, "big") + b"".join(parts)

    return apply


def _spoil_field(field: str, spoil: Spoil, context: WireContext) -> Spoil:
    def apply(m: Message) -> bytes:
        return b"".join(
            spoil(getattr(m, name)) if name == field else codec.write(getattr(m, name), context)
            for name, codec in m.CODECS
        )

    return apply


def _row_of_q(rows: tuple[Any, ...], index: int, context: WireContext) -> bytes:
    data = bytearray(context.mta.kernel.join(rows))
    at = index * SCALAR_BYTES % len(data)
    data[at : at + SCALAR_BYTES] = context.group.order.to_bytes(SCALAR_BYTES, "little")
    return bytes(data)


ED25519_ORDER_8 = bytes.fromhex("c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a")
"""A point of order 8 (one of the small-order points of RFC 7748 and libsodium's blocklist)."""


def _bad_points(context: WireContext) -> Iterator[tuple[str, Spoil]]:
    size = context.group.point_bytes
    yield "all 0", lambda v: bytes(size)
    yield "all FF", lambda v: b"\xff" * size
    if context.group.name == "ed25519":
        identity = b"\1" + bytes(31)
        yield "the identity", lambda v: identity
        yield "the identity, not canonical", lambda v: b"\xee" + b"\xff" * 30 + b"\x7f"
        yield "of order 2", lambda v: b"\xec" + b"\xff" * 30 + b"\x7f"
        yield "of order 8", lambda v: ED25519_ORDER_8
        yield "+ torsion", lambda v: sodium.crypto_core_ed25519_add(v.encode(), ED25519_ORDER_8)
        off_curve = next(
            y
            for n in range(2, 100)
            if not sodium.crypto_core_ed25519_is_valid_point(y := n.to_bytes(32, "little"))
        )
        yield "off the curve", lambda v: off_curve
    else:
        yield "x off the curve", lambda v: b"\2" + (5).to_bytes(32, "big")
        yield "uncompressed prefix", lambda v: b"\4" + v.encode()[1:]
        yield "prefix 0", lambda v: b"\0" + v.encode()[1:]
