"""Names of calls, as a gateway reads them."""

import pytest
from starlette.datastructures import Headers

from mpcsim.errors import UsageError
from mpcsim.service.web.idempotency import CallName


def read(verb, *fields):
    raw = [(name.lower().encode(), value.encode("latin-1")) for name, value in fields]
    return CallName.from_headers(Headers(raw=raw), verb)


@pytest.mark.parametrize("verb", ["generate", "recover"])
@pytest.mark.parametrize("text", ["a", "x" * 255, ' "quoted" ~', "0"])
def test_a_name_is_read_as_it_was_written(verb, text):
    name = CallName(text, verb)
    assert read(verb, *name.headers().items()) == name
    assert read(verb, ("Idempotency-Key", text)) == name
    assert read(verb) is None
    assert read(verb, ("Idempotency-Verb", "anything")) is None
    generation = CallName(text, "generate")  # which may go on as a recovery
    assert read(verb, *generation.headers().items()) == generation


NO_KEYS = [
    *(
        ("generate", [("Idempotency-Key", text)], "Idempotency-Key: not 1 to 255 printable")
        for text in ("", "x" * 256, "\xe9", "a\tb", "a\n", "\x7f")
    ),
    ("recover", [("Idempotency-Key", "a"), ("Idempotency-Key", "a")], "Idempotency-Key: not"),
    ("generate", CallName("a", "recover").headers().items(), "Idempotency-Verb: not generate"),
    ("recover", CallName("a", "sign").headers().items(), "Idempotency-Verb: not recover or"),
]


@pytest.mark.parametrize(("verb", "fields", "why"), NO_KEYS)
def test_what_is_none_is_refused(verb, fields, why):
    with pytest.raises(UsageError, match=why):
        read(verb, *fields)
