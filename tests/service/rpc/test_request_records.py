"""What is kept of a request: when, what about, how it ended; and nothing that was said."""

import itertools
import json
from types import SimpleNamespace

import httpx
import pytest
from starlette.applications import Starlette
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from mpcsim.service.process.request_id import HEADER
from mpcsim.service.web.request_ids import RequestIds
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


ERRORS = [
    ({"error": "no such key"}, "no such key"),
    ({"code": 757, "message": "JWT_EXPIRED"}, "JWT_EXPIRED"),
    (["error"], None),
    ({"error": {"is": "secret"}}, None),
    ({"error": "x" * (MAX_ERROR_BODY - 12)}, "x" * (MAX_ERROR_BODY - 12)),
    ({"error": "x" * (MAX_ERROR_BODY - 11)}, None),  # more than is kept
]


@pytest.mark.parametrize(("said", "told"), ERRORS)
async def test_an_error_as_it_was_told(said, told):
    async def handle(request):
        return JSONResponse(said, 409, {"X-Error-Code": "busy"})

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
            for number in range(bucket.count + 100):
                request((200, 401)[number % 2], who)
            assert len(kept) - before == allowed
            now[0] += 1.0
        kept.clear()
    request(200, "carol")
    assert kept[0].to_line()["left_out"] == USER_LINES.count + 100 - 1 / USER_LINES.each_s
    request(200, path="/" + "\U0001f600" * 1000)
    assert len(json.dumps(kept[-1].to_line())) < 1000
