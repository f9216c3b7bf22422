"""Messages taken apart and altered."""

import pytest

from mpcsim.crypto.encoding import NO_CONTEXT, U8, Seq
from mpcsim.errors import InvalidEncoding, UsageError
from mpcsim.lab.explorer.model import fields
from mpcsim.lab.explorer.model.fields import REPLACE, WHOLE, Field, alter, message_fields


def leaves(found):
    for field in found:
        yield from leaves(field.fields) if field.fields else [field]


def all_fields(found):
    for field in found:
        yield field
        yield from all_fields(field.fields)


def flows(session):
    for flow in session.recording.sent:
        yield flow, session.recording.first_message(flow)


def taken_apart(opened, *, reveal=True, private=True) -> tuple[Field, ...]:
    return message_fields(
        opened.payload, opened.kind, opened.context, private=private, reveal=reveal
    )


def test_the_fields_fill_the_payload(session):
    for _, opened in flows(session):
        found = taken_apart(opened)
        assert [f.name for f in found] == [name for name, _ in opened.kind.CODECS]
        assert sum(f.size for f in found) == len(opened.payload)
        for field in all_fields(found):
            parts = sum(inner.size for inner in field.fields)
            assert parts <= field.size


@pytest.mark.parametrize(("count", "shown"), [(4, 4), (5, 3)])
def test_three_elements_of_a_long_sequence_are_shown(count, shown):
    """One more takes no more room than saying that there is one."""
    place = fields._FieldLocation("path", "name", Seq(U8), bytes(count), 0, 2 + count)
    found = fields._field(place, NO_CONTEXT, private=False, reveal=True)
    assert (len(found.fields), found.omitted) == (shown, count - shown)


def test_private_values_show_only_on_request(session):
    for _, opened in flows(session):
        shown = list(leaves(taken_apart(opened, reveal=True)))
        hidden = list(leaves(taken_apart(opened, reveal=False)))
        public = list(leaves(taken_apart(opened, reveal=False, private=False)))
        assert [f.path for f in shown] == [f.path for f in hidden]
        assert all(f.value is None for f in hidden if f.receiver_only)
        assert all(f.type == "point" or not f.value or f.value == "none" or "[" in f.path
                   for f in hidden)  # fmt: skip
        assert not any(f.receiver_only for f in public)
        assert [f.value for f in shown] == [f.value for f in public]


@pytest.mark.few(4)
def test_every_operation_alters_its_field_and_nothing_else(session):
    for _, opened in flows(session):
        found = list(all_fields(taken_apart(opened)))
        for field in found:
            for operation in field.operations:
                changed = alter(
                    opened.payload, opened.kind, opened.context, field.path, operation, b"\x17"
                )
                assert changed != opened.payload or field.value == "none", (field, operation)
                same = [a == b for a, b in zip(changed, opened.payload, strict=False)]
                assert sum(not s for s in same) <= field.size or len(changed) != len(opened.payload)


@pytest.mark.few(4)
def test_altered_values_still_decode_where_they_promise_to(session):
    promised = {fields.PLUS_ONE, fields.NEGATE, fields.ZERO, fields.PLUS_G, fields.DROP_LAST}
    promised |= {fields.LEAVE_OUT, fields.FIRST_PLUS_ONE}
    for _, opened in flows(session):
        for field in all_fields(taken_apart(opened)):
            for operation in promised & set(field.operations):
                changed = alter(opened.payload, opened.kind, opened.context, field.path, operation)
                opened.kind.decode(changed, opened.context)
                if operation == fields.DROP_LAST:
                    now = message_fields(
                        changed, opened.kind, opened.context, private=True, reveal=True
                    )
                    (left,) = (f for f in all_fields(now) if f.path == field.path)
                    kept = field.fields[:-1]  # of a long list the first few are shown
                    assert [f.value for f in leaves(left.fields[: len(kept)])] == [
                        f.value for f in leaves(kept)
                    ]


def test_whole_messages(session):
    _, opened = next(flows(session))
    payload, rest = opened.payload, (opened.kind, opened.context, WHOLE)
    assert alter(payload, *rest, fields.WITHHOLD) is None
    assert alter(payload, *rest, fields.CUT) == payload[:-1]
    assert alter(payload, *rest, fields.APPEND) == payload + b"\0"
    assert alter(payload, *rest, REPLACE, b"new") == b"new"


def test_what_cannot_be_done_is_said(session):
    _, opened = next(flows(session))
    payload, kind, context = opened.payload, opened.kind, opened.context
    with pytest.raises(UsageError, match="no field 'nothing'"):
        alter(payload, kind, context, "nothing", REPLACE)
    with pytest.raises(UsageError, match="cannot 'sing'"):
        alter(payload, kind, context, kind.CODECS[0][0], "sing")
    with pytest.raises(UsageError, match="cannot 'sing'"):
        alter(payload, kind, context, WHOLE, "sing")
    with pytest.raises(InvalidEncoding):
        alter(payload[:-1], kind, context, kind.CODECS[0][0], REPLACE)
