"""Names of calls, as a gateway reads them."""

import asyncio
from contextlib import closing

import pytest
from starlette.datastructures import Headers

from mpcsim.errors import UsageError
from mpcsim.service.rpc import wire
from mpcsim.service.web.idempotency import CallName
from tests.helpers.gateway import Client, open_with


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


def test_a_generation_may_go_on_as_a_recovery():
    assert read("recover", *CallName("a", "generate").headers().items()) == CallName(
        "a", "generate"
    )


@pytest.mark.parametrize(
    ("verb", "fields", "why"),
    [
        *(
            ("generate", [("Idempotency-Key", text)], "Idempotency-Key: not 1 to 255 printable")
            for text in ("", "x" * 256, "\xe9", "a\tb", "a\n", "\x7f")
        ),
        ("recover", [("Idempotency-Key", "a"), ("Idempotency-Key", "a")], "Idempotency-Key: not"),
        ("generate", CallName("a", "recover").headers().items(), "Idempotency-Verb: not generate"),
        (
            "recover",
            CallName("a", "sign").headers().items(),
            "Idempotency-Verb: not recover or gen",
        ),
    ],
)
def test_what_is_none_is_refused(verb, fields, why):
    with pytest.raises(UsageError, match=why):
        read(verb, *fields)


def test_the_gateway_refuses_it_before_anything_is_done():
    async def work():
        with closing(open_with()) as gateway:
            client = Client.of(gateway)
            client.http.headers["Idempotency-Key"] = ""
            for verb, body in (
                ("generate", wire.Generate(bytes(32), "ed25519", ())),
                ("recover", wire.Recover(bytes(32), "ed25519")),
            ):
                response = await client.post(verb, body)
                assert response.status_code == 400
                said = "Idempotency-Key: not 1 to 255 printable ASCII characters"
                assert response.json() == {"error": said}
            del client.http.headers["Idempotency-Key"]
            await client.generate("ed25519")

    asyncio.run(work())
