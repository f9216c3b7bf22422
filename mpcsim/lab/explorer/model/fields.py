"""Fields of a message: their bytes, and all alterations of each.

The codecs of a message determine where each field lies in its payload. So a field is shown, and
altered, by its position in the payload, and the rest of the message stays as its sender made it.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from textwrap import dedent
from typing import Any, Final

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
from mpcsim.errors import UsageError

PREVIEW_BYTES: Final = 32
"""Bytes of a long value that are shown."""
SHOWN_ELEMENTS: Final = 3
"""Elements of a long sequence that are shown."""

WHOLE: Final = ""
"""Path of the message itself."""
WITHHOLD: Final = "withhold"
REPLACE: Final = "replace"
FLIP: Final = "flip a bit"
CUT: Final = "cut off the last byte"
APPEND: Final = "append a byte"
PLUS_ONE, NEGATE, ZERO, PLUS_G = "+ 1", "negate", "set to 0", "+ G"
FIRST_PLUS_ONE, DROP_LAST, LEAVE_OUT = "first scalar + 1", "drop the last", "leave out"


@dataclass(frozen=True)
class Field:
    """Field of a message, or an element of one."""

    path: str
    """Path: ``reply.a``, ``echo[3]``, ``coefficients[0]``; empty for the message itself."""
    name: str
    type: str
    """Type: ``point``, ``scalar``, ``32 bytes``, ..."""
    doc: str
    size: int | None
    """Bytes on the wire, length prefixes included; None if no value is at hand."""
    value: str | None
    """Value in hexadecimal or decimal, long ones shortened; None: there is none, or it is not
    shown."""
    receiver_only: bool
    """Whether it is secret from everyone but its receiver."""
    operations: tuple[str, ...]
    """Alterations of it; ``replace`` takes bytes in hexadecimal."""
    fields: tuple[Field, ...] = ()
    omitted: int = 0
    """Number of elements that are not shown."""


@dataclass(frozen=True)
class _FieldLocation:
    """Value with its position in the payload."""

    path: str
    name: str
    codec: Codec
    value: Any
    start: int
    end: int
    doc: str = ""


def message_fields(
    payload: bytes, kind: type[Message], context: WireContext, *, private: bool, reveal: bool
) -> tuple[Field, ...]:
    """Return the fields of a message.

    Args:
        private: whether it is sealed and made for one receiver. Then all of it is for the receiver
            only, except points (they hide what they commit to) and digests by party.
        reveal: show the values that are for the receiver only, too.

    Raises:
        InvalidEncoding: the payload is not a message of that kind.
    """
    message = kind.decode(payload, context)
    return tuple(_field(place, context, private, reveal) for place in _top_fields(message, context))


def schema(kind: type[Message]) -> tuple[Field, ...]:
    """Return the fields of a kind of message, without values."""
    docs = field_docs(kind)
    return tuple(
        Field(name, name, describe(codec), docs.get(name, ""), None, None, False, ())
        for name, codec in kind.CODECS
    )


def alter(
    payload: bytes,
    kind: type[Message],
    context: WireContext,
    path: str,
    operation: str,
    argument: bytes = b"",
) -> bytes | None:
    """Return a payload with one alteration.

    Args:
        path: of the field; empty for the message itself.
        operation: one of the field's ``operations``, or of ``WHOLE_OPERATIONS``.
        argument: for ``replace``: the new bytes, in place of the field's encoding.

    Returns:
        The new payload; None if the message is withheld.

    Raises:
        UsageError: there is no such field, or the operation does not apply to it.
        InvalidEncoding: the payload is not a message of that kind.
    """
    if path == WHOLE:
        changed = {
            WITHHOLD: None,
            REPLACE: argument,
            CUT: payload[:-1],
            APPEND: payload + b"\0",
        }
        if operation not in changed:
            raise UsageError(f"a whole message: cannot {operation!r} (can: {', '.join(changed)})")
        return changed[operation]
    place = _locate(kind.decode(payload, context), context, path)
    able = _operations(place.codec, place.value)
    if operation not in able:
        raise UsageError(f"field {path}: cannot {operation!r} (can: {', '.join(able)})")
    if operation == REPLACE:
        new = argument
    else:
        new = _altered_encoding(place.codec, place.value, operation, context)
    return payload[: place.start] + new + payload[place.end :]


WHOLE_OPERATIONS: Final = (WITHHOLD, CUT, APPEND, REPLACE)
"""Alterations of a message as a whole."""


# ---------------------------------------------------------------------- decoding


def _top_fields(
    message: Message, context: WireContext, path: str = "", at: int = 0
) -> Iterator[_FieldLocation]:
    docs = field_docs(type(message))
    for name, codec in message.CODECS:
        value = getattr(message, name)
        end = at + len(codec.write(value, context))
        yield _FieldLocation(f"{path}{name}", name, codec, value, at, end, docs.get(name, ""))
        at = end


def _elements(place: _FieldLocation, context: WireContext) -> Iterator[_FieldLocation]:
    """Yield the parts of a value, if it has any."""
    codec, value, at = place.codec, place.value, place.start
    match codec:
        case Nested():
            yield from _top_fields(value, context, f"{place.path}.", at)
        case Optional(element) if value is not None:
            inner = _FieldLocation(place.path, place.name, element, value, at + 1, place.end)
            yield from _elements(inner, context)
        case Seq(element):
            at += 2
            for index, item in enumerate(value):
                end = at + len(element.write(item, context))
                yield _FieldLocation(f"{place.path}[{index}]", f"[{index}]", element, item, at, end)
                at = end
        case PerParty(element):
            at += 2
            for j in sorted(value):
                start, end = at + 2, at + 2 + len(element.write(value[j], context))
                path = f"{place.path}[{j}]"
                yield _FieldLocation(path, f"of party {j}", element, value[j], start, end)
                at = end


def _locate(message: Message, context: WireContext, path: str) -> _FieldLocation:
    places = list(_top_fields(message, context))
    while places:
        place = places.pop()
        if place.path == path:
            return place
        if path.startswith((f"{place.path}.", f"{place.path}[")):
            places += _elements(place, context)
    raise UsageError(f"{type(message).__name__} has no field {path!r}")


def _field(place: _FieldLocation, context: WireContext, private: bool, reveal: bool) -> Field:
    inner = list(_elements(place, context))
    shown = inner
    if isinstance(place.codec, Seq) and len(inner) > SHOWN_ELEMENTS + 1:
        shown = inner[:SHOWN_ELEMENTS]
    hidden = private and not isinstance(place.codec, PointCodec)
    leaf = not inner
    return Field(
        place.path,
        place.name,
        describe(place.codec, place.value),
        place.doc,
        place.end - place.start,
        _text(place, context) if leaf and (reveal or not hidden) else None,
        leaf and hidden and place.value is not None,
        _operations(place.codec, place.value),
        tuple(
            _field(part, context, private and not _digests(place.codec), reveal) for part in shown
        ),
        len(inner) - len(shown),
    )


def _digests(codec: Codec) -> bool:
    """Return whether a codec is of digests by party, as in an echo, which are public."""
    return isinstance(codec, PerParty) and codec.element == Fixed(32)


def _text(place: _FieldLocation, context: WireContext) -> str | None:
    match place.codec, place.value:
        case ((Optional() | Seq() | PerParty()), _):
            return "none"
        case Unsigned(), int(number):
            return str(number)
        case Text(), str(text):
            return text
        case Bytes(), bytes(data):
            return shortened(data)
        case codec, value:
            return shortened(codec.write(value, context))


def shortened(data: bytes) -> str:
    """Return bytes in hexadecimal, the middle of long ones left out."""
    if len(data) <= PREVIEW_BYTES + 4:
        return data.hex()
    half = PREVIEW_BYTES // 2
    return f"{data[:half].hex()} … {data[-half:].hex()}"


def describe(codec: Codec, value: Any = None) -> str:
    """Return the type of a field in a word or two."""
    match codec:
        case Unsigned(width):
            return f"number of {width} bytes"
        case Fixed(length):
            return f"{length} bytes"
        case Sized() | Bytes():
            return f"{len(value):,} bytes" if isinstance(value, bytes) else "bytes"
        case Text():
            return "text"
        case ScalarCodec():
            return "scalar"
        case PointCodec():
            return "point"
        case ScalarRows(_, columns):
            rows = f"{len(value[0])} × " if value else ""
            return f"{rows}{columns} scalars"
        case Seq(element):
            count = f"{len(value)} × " if value is not None else "list of "
            return f"{count}{describe(element)}"
        case PerParty(element):
            return f"{describe(element)} by party"
        case Optional(element):
            return f"{describe(element, value)} or none"
        case Nested(type() as of):
            return of.__name__
        case Nested():
            return "multiplication message" if value is None else type(value).__name__
        case _:
            return type(codec).__name__


_DOCS: dict[str, dict[str, str]] = {}
"""Docstrings by the class's full name: classes do not change."""


def field_docs(kind: type[Message]) -> dict[str, str]:
    """Return the docstrings under the fields of a message class."""
    name = f"{kind.__module__}.{kind.__qualname__}"
    if name not in _DOCS:
        _DOCS[name] = _read_docs(kind)
    return _DOCS[name]


def _read_docs(kind: type[Message]) -> dict[str, str]:
    try:
        tree = ast.parse(dedent(inspect.getsource(kind)))
    except (OSError, TypeError):
        return {}
    found: dict[str, str] = {}
    body = tree.body[0].body if isinstance(tree.body[0], ast.ClassDef) else []
    for before, after in pairwise(body):
        if (
            isinstance(before, ast.AnnAssign)
            and isinstance(before.target, ast.Name)
            and isinstance(after, ast.Expr)
            and isinstance(after.value, ast.Constant)
            and isinstance(after.value.value, str)
        ):
            found[before.target.id] = " ".join(after.value.value.split())
    return found


# ---------------------------------------------------------------------- alteration


def _operations(codec: Codec, value: Any) -> tuple[str, ...]:
    match codec:
        case Unsigned():
            return (PLUS_ONE, REPLACE)
        case Fixed() | Sized() | Bytes() | Text():
            return (FLIP, REPLACE) if value else (REPLACE,)
        case ScalarCodec():
            return (PLUS_ONE, NEGATE, ZERO, FLIP, REPLACE)
        case PointCodec():
            return (PLUS_G, NEGATE, FLIP, REPLACE)
        case ScalarRows():
            return (FIRST_PLUS_ONE, FLIP, REPLACE)
        case Seq() | PerParty():
            return (DROP_LAST, REPLACE) if value else (REPLACE,)
        case Optional(element):
            if value is None:
                return (REPLACE,)
            return (*(o for o in _operations(element, value) if o != REPLACE), LEAVE_OUT, REPLACE)
        case _:
            return (REPLACE,)


def _altered_encoding(codec: Codec, value: Any, operation: str, context: WireContext) -> bytes:
    """Return the new encoding of a field."""
    match codec, operation:
        case Optional(), "leave out":
            return b"\0"
        case Optional(element), _:
            return b"\1" + _altered_encoding(element, value, operation, context)
        case _, "flip a bit":
            data = bytearray(codec.write(value, context))
            data[4 if isinstance(codec, Bytes | Text) else 0] ^= 1
            return bytes(data)
        case Unsigned(width), "+ 1":
            return int((value + 1) % 256**width).to_bytes(width, "big")
        case ScalarCodec(), "+ 1":
            return codec.write(value + context.group.scalar(1), context)
        case ScalarCodec(), "set to 0":
            return codec.write(context.group.scalar(0), context)
        case ((ScalarCodec() | PointCodec()), "negate"):
            return codec.write(-value, context)
        case PointCodec(), "+ G":
            return codec.write(value + context.group.base(context.group.scalar(1)), context)
        case ScalarRows(), "first scalar + 1":
            data = bytearray(codec.write(value, context))
            first = int.from_bytes(data[:32], "little") + 1
            data[:32] = (first % context.group.order).to_bytes(32, "little")
            return bytes(data)
        case Seq(), "drop the last":
            return codec.write(value[:-1], context)
        case PerParty(), "drop the last":
            last = max(value)
            return codec.write({j: v for j, v in value.items() if j != last}, context)
        case _:
            raise UsageError(f"cannot {operation!r} a {describe(codec)}")
