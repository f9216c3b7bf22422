"""The meter: what a request costs, by what made it go on."""

import asyncio
import json

import coincurve
import pytest

from mpcsim.rpc import meter, request_ids
from mpcsim.rpc.threads import in_thread

REQUEST = {
    "type": "http",
    "method": "POST",
    "path": "/sign",
    "headers": [(b"x-request-id", b"one")],
}


def busy(count: int = 20_000) -> int:
    return sum(n * n for n in range(count))


def curves(count: int = 30) -> None:
    point = coincurve.PublicKey.from_secret(bytes([1]) * 32)
    for _ in range(count):
        point.multiply(bytes([2]) * 32)


async def nothing(*_):
    return {"type": "http.disconnect"}


@pytest.fixture
def parts(tmp_path, monkeypatch):
    """Runs an application once; what the meter says of the request."""
    monkeypatch.setenv(meter.VARIABLE, str(tmp_path))
    monkeypatch.setattr(meter, "ON", True)
    monkeypatch.setattr(meter.atexit, "register", lambda *_: None)
    monkeypatch.setattr(meter, "_ENDED", [])

    def run(app):
        made = request_ids.RequestIds(meter.Metered(app))

        async def main():
            await made({"type": "lifespan"}, nothing, nothing)  # no request
            await made(REQUEST, nothing, nothing)  # the first installs the task factory
            await asyncio.create_task(made(REQUEST, nothing, nothing))

        asyncio.run(main())
        meter.write(tmp_path / "1.jsonl")
        *_, last = (tmp_path / "1.jsonl").read_text().splitlines()
        call, path, _, found = json.loads(last)
        assert (call, path) == ("one", "/sign")
        names = (
            "loop",
            "after",
            "later",
            "thread",
            "free",
            "loop_disk",
            "thread_disk",
            *CURVES,
            "turns",
        )
        return [(what, dict(zip(names, spent, strict=True))) for what, *spent in found]

    return run


CURVES = ("loop_curve", "thread_curve")


def test_steps_count_for_what_made_them_go_on(parts):
    async def app(scope, receive, send):
        busy()
        await asyncio.sleep(0)
        meter.arrived("http://operator/sign")
        busy()
        await asyncio.create_task(child())

    async def child():
        busy()

    request, answer = parts(app)
    assert (request[0], answer[0]) == ("request", "http://operator/sign")
    assert request[1]["loop"] > 0
    assert answer[1]["loop"] > 1.5 * request[1]["loop"]  # twice as much
    assert answer[1]["after"] == answer[1]["thread"] == 0


BODY = {"type": "http.response.body", "body": b""}


def test_turns_of_the_event_loop_are_told_apart(parts):
    async def app(scope, receive, send):
        busy()
        await asyncio.create_task(child())
        busy()

    async def child():
        busy()

    ((_, spent),) = parts(app)
    assert len(spent["turns"]) == 3
    assert sum(spent["turns"]) == spent["loop"]
    assert spent["later"] == 0


def test_steps_in_the_same_turn_are_one(parts):
    async def app(scope, receive, send):
        children = [asyncio.create_task(child()) for _ in range(3)]
        await asyncio.wait(children)

    async def child():
        busy()

    ((_, spent),) = parts(app)
    first, children, last = spent["turns"]
    assert children > first + last


def test_what_comes_after_the_last_thing_that_was_sent_is_later(parts):
    async def app(scope, receive, send):
        await send(BODY)
        busy()
        await send(BODY)
        busy(60_000)
        await asyncio.sleep(0)
        busy(60_000)

    ((_, spent),) = parts(app)
    assert len(spent["turns"]) == 1
    assert spent["later"] > 3 * spent["loop"]  # six times, if clocks were exact


def test_threads_count_apart_and_the_loop_after_them(parts):
    async def app(scope, receive, send):
        busy()
        await in_thread(busy)
        busy()
        meter.arrived("http://operator/sign")

    (_, spent), (_, later) = parts(app)
    assert spent["loop"] > 0
    assert spent["thread"] > 0
    assert later["loop"] > 0
    assert spent["free"] == 0


def test_what_goes_on_in_the_loop_after_a_thread(parts):
    async def app(scope, receive, send):
        await in_thread(busy)
        busy(200_000)
        await asyncio.sleep(0)

    ((_, spent),) = parts(app)
    assert spent["after"] > spent["loop"]


def test_threads_without_the_interpreter_lock(parts):
    async def app(scope, receive, send):
        await asyncio.to_thread(meter.in_thread(busy, locks=False))

    ((_, spent),) = parts(app)
    assert spent["free"] > 0 == spent["thread"]


def test_the_disk_counts_where_it_is_waited_for(parts):
    def stored():
        with meter.disk():
            asyncio.run(asyncio.sleep(0.01))

    async def app(scope, receive, send):
        await in_thread(stored)
        with meter.disk():
            pass

    ((_, spent),) = parts(app)
    assert spent["thread_disk"] > 1e6
    assert spent["loop_disk"] < spent["thread_disk"]


def test_curve_arithmetic_is_told_apart_if_asked_for(parts, monkeypatch):
    async def app(scope, receive, send):
        curves()
        await in_thread(curves)

    ((_, spent),) = parts(app)
    assert spent["loop_curve"] == spent["thread_curve"] == 0
    monkeypatch.setattr(meter, "CURVES", True)
    try:
        ((_, spent),) = parts(app)
    finally:
        meter.sys.setprofile(None)
    assert 0 < spent["loop_curve"] < spent["loop"]
    assert 0 < spent["thread_curve"] < spent["thread"]


def test_outside_of_requests_nothing_is_kept():
    assert meter.in_thread(busy) is busy
    meter.arrived("http://operator/sign")
    with meter.disk():
        pass
