"""What services say to each other: every field of every body as it was reviewed, and its bounds."""

import re
from dataclasses import MISSING, replace

import pytest

from mpcsim.crypto.encoding import NO_CONTEXT, U8, Bytes, Message, Reader, Seq, Text
from mpcsim.errors import InternalError, InvalidEncoding
from mpcsim.service.rpc import activation_messages, statements, wire
from tests.helpers.repo import ROOT
from tests.helpers.reviewed import check_reviewed

REVIEWED = ROOT / "tests/service/rpc/wire_bodies.txt"


def messages():
    """Every type of message that the wire modules define, by name."""
    for module in (wire, activation_messages, statements):
        for name, kind in sorted(vars(module).items()):
            is_message = isinstance(kind, type) and issubclass(kind, Message) and kind.CODECS
            if is_message and kind.__module__ == module.__name__:
                yield name, kind


def described():
    """A line for each field, in wire order: codec, limits, default if it may be left out."""
    for name, kind in messages():
        for field, codec in kind.CODECS:
            shown = re.sub(r"<class '[\w.]+\.(\w+)'>", r"\1", repr(codec))
            default = kind.__dataclass_fields__[field].default
            yield f"{name}.{field}: {shown}" + ("" if default is MISSING else f" = {default!r}")


def test_every_field_is_as_it_was_reviewed():
    """Whoever changes a field, its limit or its default changes the reviewed list with it."""
    check_reviewed(described(), REVIEWED)


LIMITS = [
    (Bytes(3), b"abc", b"abcd"),
    (Text(3), "abc", "abcd"),
    (Text(3), "a\u00e9", "ab\u00e9"),
    (Seq(U8, 3), (1, 2, 3), (1, 2, 3, 4)),
]


@pytest.mark.parametrize(("codec", "longest", "longer"), LIMITS)
def test_a_limit_is_the_most_that_is_written_and_read(codec, longest, longer):
    for value in (longest[:-1], longest):
        data = codec.write(value, NO_CONTEXT)
        assert codec.read(Reader(data), NO_CONTEXT) == value
    with pytest.raises(InternalError, match="declared"):
        codec.write(longer, NO_CONTEXT)
    data = replace(codec, limit=4).write(longer, NO_CONTEXT)
    with pytest.raises(InvalidEncoding, match="at most 3 allowed"):
        codec.read(Reader(data), NO_CONTEXT)
