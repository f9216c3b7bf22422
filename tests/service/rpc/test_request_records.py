"""A request's name, and what is kept: when, what about, how it ended; nothing that was said."""

import asyncio
import io
import itertools
import json
import logging
from pathlib import Path
from types import SimpleNamespace

import httpx
import pytest
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from mpcsim.service.errors import Refused
from mpcsim.service.process.request_id import HEADER, IN_SCOPE
from mpcsim.service.web.http import StreamedResponse
from mpcsim.service.web.logs import TextLines
from mpcsim.service.web.request_ids import RequestIds, current_request_id
from mpcsim.service.web.request_records import (
    ANONYMOUS_LINES,
    MAX_ERROR_BODY,
    USER_LINES,
    Call,
    RequestRecorder,
    annotate_request,
)
from mpcsim.service.web.threads import in_thread

NOON = 1_800_000_000.25


class Kept(list):
    """A log in memory."""

    put = list.append

    def flush(self):
        pass


async def handled(handle):
    """What is kept of a request."""
    kept, ticks = Kept(), itertools.count()
    recorder = RequestRecorder("gateway", kept, clock=lambda: next(ticks) / 1e3, now=lambda: NOON)
    app = RequestIds(Starlette(routes=[Route("/{rest:path}", handle, methods=["GET"])]), recorder)

    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://x") as client:
        await client.get("/some/where?token=secret", headers={HEADER: "order-7"})
    (entry,) = kept
    return entry.to_line()


async def test_what_is_known_and_no_more():
    async def handle(request):
        return Response(b"secret")

    assert await handled(handle) == {
        "time": "2027-01-15T08:00:00.250000+00:00",
        "role": "gateway",
        "event": "request",
        "request_id": "order-7",
        "method": "GET",
        "path": "/some/where",
        "status": 200,
        "ms": 1.0,
    }


async def test_what_it_turns_out_to_be_about():
    async def handle(request):
        annotate_request("alice", "ab" * 32)
        await in_thread(annotate_request, None, None, b"\x01" * 32)
        annotate_request(key_id=b"\xcd" * 32, spans=[("vault", 0.002, 0.005)])
        call = Call("operator", "POST", "/sign", 100)
        call.finish(200, 50)
        Call("institution", "POST", "/open", 10).finish()
        Call("institution", "POST", "/close", 10)
        return Response()

    line = await handled(handle)
    assert (line["user_id"], line["key_id"]) == ("alice", "cd" * 32)
    assert line["session_id"] == "01" * 32
    assert line["spans"] == [["vault", 2.0, 5.0]]
    assert line["calls"] == [
        ["operator", "POST", "/sign", 1.0, 2.0, 200, 100, 50],
        ["institution", "POST", "/open", 3.0, 4.0, 0, 10, 0],
        ["institution", "POST", "/close", 5.0, None, 0, 10, 0],
    ]
    assert line["ms"] == 6.0


DEEP = "[" * (MAX_ERROR_BODY - 1)
ERRORS = [
    ({"error": "no such key"}, "no such key"),
    ({"code": 757, "message": "JWT_EXPIRED"}, "JWT_EXPIRED"),
    (["error"], None),
    ({"error": {"is": "secret"}}, None),
    (DEEP, None),
    ({"error": "x" * (MAX_ERROR_BODY - 12)}, "x" * (MAX_ERROR_BODY - 12)),
    ({"error": "x" * (MAX_ERROR_BODY - 11)}, None),  # more than is kept
]


@pytest.mark.parametrize(("said", "told"), ERRORS)
async def test_an_error_as_it_was_told(said, told):
    async def handle(request):
        text = said if said == DEEP else json.dumps(said, separators=(",", ":"))
        return Response(text, 409, {"X-Error-Code": "busy"}, "application/json")

    line = await handled(handle)
    assert (line["status"], line["code"], line.get("error")) == (409, "busy", told)


async def test_one_that_nobody_foresaw():
    async def handle(request):
        raise ValueError("secret")

    line = await handled(handle)
    assert line["status"] == 500
    assert "secret" not in str(line)


async def test_an_answer_that_breaks_off():
    async def pieces():
        yield b"a"
        raise ValueError("secret")

    async def handle(request):
        return StreamingResponse(pieces())

    line = await handled(handle)
    assert (line["status"], line["broken_off"]) == (200, True)
    assert "secret" not in str(line)


async def test_a_reply_that_is_refused_in_the_middle_is_never_complete():
    sent = []

    async def pieces():
        yield b"one"
        raise Refused(409, "no more")

    async def send(message):
        sent.append((message["type"].split(".")[-1], message.get("more_body")))

    reply = StreamedResponse(pieces(), {}, "text/plain")
    await reply({"method": "GET", "path": "/"}, None, send)
    assert sent == [("start", None), ("body", True)]


def test_nobody_pushes_anybodys_lines_out():
    """Strangers together, and each user, have so many lines, whatever is answered; the next says
    how many have none."""
    kept, now = [], [100.0]
    log = SimpleNamespace(put=kept.append, flush=lambda: None)
    recorder = RequestRecorder("gateway", log, clock=lambda: now[0])

    def request(status, user_id=None, path="/"):
        entry = recorder.open("id", "GET", path)
        entry.status, entry.user_id = status, user_id
        recorder.close(entry)

    for who, bucket in ((None, ANONYMOUS_LINES), ("alice", USER_LINES), ("bob", USER_LINES)):
        for allowed in (bucket.count, 1 / bucket.each_s):
            before = len(kept)
            for number in range(int(allowed) + 100):
                request((200, 401)[number % 2], who)
            assert len(kept) - before == allowed
            now[0] += 1.0
        kept.clear()
    request(200, "carol")
    assert kept[0].to_line()["left_out"] == 100
    request(200, path="/" + "\U0001f600" * 1000)
    assert len(json.dumps(kept[-1].to_line())) < 1000


# ---------------------------------------------------------------------- its name


def client(routes):
    app = RequestIds(Starlette(routes=[Route(path, handle) for path, handle in routes.items()]))
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://x")


@pytest.fixture
def log():
    """What is logged, as a server writes it, without the time."""
    written = io.StringIO()
    handler, logger = logging.StreamHandler(written), logging.getLogger("test of names")
    handler.setFormatter(TextLines())
    logger.addHandler(handler)
    yield logger, lambda: [line.split(" ", 1)[1] for line in written.getvalue().splitlines()]
    logger.removeHandler(handler)


async def test_tasks_and_threads_have_it_and_others_have_theirs(log):
    logger, lines = log

    async def handle(request):
        await asyncio.sleep(0)
        await in_thread(logger.warning, "in a thread of %s", request.url.path)
        await asyncio.create_task(asyncio.to_thread(logger.warning, "of %s", request.url.path))
        return PlainTextResponse(current_request_id() or "")

    async with client({"/{number}": handle}) as http:
        asked = [http.get(f"/{i}", headers={HEADER: f"order-{i}"}) for i in range(5)]
        answers = await asyncio.gather(*asked)
    for i, answer in enumerate(answers):
        assert answer.text == answer.headers[HEADER] == f"order-{i}"
        assert f"WARNING test of names [order-{i}]: in a thread of /{i}" in lines()
        assert f"WARNING test of names [order-{i}]: of /{i}" in lines()
    logger.warning("nobody's")
    assert lines()[10:] == ["WARNING test of names: nobody's"]


async def named(request):
    """Answer with the name, which is in the scope as well."""
    assert request.scope[IN_SCOPE].decode() == current_request_id()
    return PlainTextResponse(current_request_id())


async def test_a_name_is_put_back():
    """An application that is called in its caller's task leaves the caller's name alone."""

    async def outer(request):
        async with client({"/": named}) as http:
            answer = await http.get("/", headers={HEADER: "inner"})
        return PlainTextResponse(f"{answer.text} {current_request_id()}")

    async with client({"/": outer}) as http:
        assert (await http.get("/", headers={HEADER: "outer"})).text == "inner outer"
    assert current_request_id() is None


@pytest.mark.parametrize("name", ["", "x" * 65, "with space", "new\tline", 'quo"te', "[x]", "a/b"])
async def test_names_that_are_not_taken(name):
    async with client({"/": named}) as http:
        answers = [await http.get("/", headers={HEADER: name}) for _ in range(2)]
    made = [answer.headers[HEADER] for answer in answers]
    assert [answer.text for answer in answers] == made
    assert name not in made
    assert len({*made}) == 2
    assert {len(found) for found in made} == {16}


SINGLE = ["Authorization", "Content-Type", "Idempotency-Key", "Session-Proof", HEADER]


@pytest.mark.parametrize("name", SINGLE)
async def test_a_field_that_must_be_single_is_refused_if_it_is_repeated(name):
    """Otherwise a proxy may go by one of them, and this process by the other."""

    async def handle(request):
        return PlainTextResponse(request.headers[name])

    async with client({"/": handle}) as http:
        fields = [("Accept", "a"), ("Accept", "b"), (name, "same")]
        once = await http.get("/", headers=fields)
        twice = await http.get("/", headers=[*fields, (name.upper(), "same")])
    assert once.text == "same"
    assert (twice.status_code, twice.headers["X-Error-Code"]) == (400, "bad-request")
    assert twice.json() == {"error": f"Invalid {name}: there are several"}
    assert twice.headers[HEADER]


READ_IN_TWO_WAYS = Path(__file__).with_name("targets.txt").read_text("utf-8").splitlines()


@pytest.mark.parametrize("line", READ_IN_TWO_WAYS)
async def test_what_may_be_read_in_two_ways_is_not_guessed_at(line):
    """A member there are two of is neither, and an encoded slash separates nothing."""

    async def handle(request):
        return PlainTextResponse(f"{request.url.path} {request.query_params.get('id')}")

    async with client({"/key": handle, "/of/{name}": handle}) as http:
        target, _, said = line.partition(" -> ")
        answer = await http.get(httpx.URL("http://x", raw_path=target.encode()))
    text = answer.json()["error"] if answer.status_code == 400 else answer.text
    assert f"{answer.status_code} {text}" == said
