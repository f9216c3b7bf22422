"""The meter: what a request costs, by what made it go on. Clocks go as far as work says."""

import asyncio
import json
import threading
import time
from collections import Counter
from types import SimpleNamespace

import coincurve
import pytest

from mpcsim.service.web import meter, request_ids
from mpcsim.service.web.threads import in_thread

REQUEST = {
    "type": "http",
    "method": "POST",
    "path": "/sign",
    "query_string": b"",
    "headers": [(b"x-request-id", b"one")],
}
BODY = {"type": "http.response.body", "body": b""}
NAMES = ("loop", "after", "later", "thread", "free", "loop_disk", "thread_disk")
CURVES = ("loop_curve", "thread_curve")
CPU: Counter[int] = Counter()
"""What each thread has computed."""
WAITED: Counter[int] = Counter()
CLOCKS = SimpleNamespace(
    thread_time_ns=lambda: CPU[threading.get_ident()],
    perf_counter_ns=lambda: CPU[threading.get_ident()] + WAITED[threading.get_ident()],
    monotonic=lambda: 0.0,
)


def busy(ns: int = 10) -> None:
    CPU[threading.get_ident()] += ns


def waits(ns: int) -> None:
    WAITED[threading.get_ident()] += ns


async def child():
    busy()


async def nothing(*_):
    return {"type": "http.disconnect"}


@pytest.fixture
def parts(tmp_path, monkeypatch):
    """Runs an application once; what the meter says of the request, and is not 0."""
    monkeypatch.setenv(meter.VARIABLE, str(tmp_path))
    monkeypatch.setattr(meter, "ON", True)
    monkeypatch.setattr(meter.atexit, "register", lambda *_: None)
    monkeypatch.setattr(meter, "_ENDED", [])  # of this process: nothing of other tests
    monkeypatch.setattr(meter, "time", CLOCKS)

    def run(app):
        made = request_ids.RequestIds(meter.MeterMiddleware(app))

        async def main():
            await made({"type": "lifespan"}, nothing, nothing)  # no request
            await made(REQUEST, nothing, nothing)  # the first installs the task factory
            await asyncio.create_task(made(REQUEST, nothing, nothing))

        asyncio.run(main())
        meter.write_costs(tmp_path / "1.jsonl")
        *_, last = (tmp_path / "1.jsonl").read_text().splitlines()
        call, path, _, found = json.loads(last)
        assert (call, path) == ("one", "/sign")
        names = (*NAMES, *CURVES, "turns")
        return [
            (what, {n: ns for n, ns in zip(names, spent, strict=True) if ns})
            for what, *spent in found
        ]

    return run


async def answered(scope, receive, send):
    busy()
    await asyncio.sleep(0)
    meter.on_reply("http://operator/sign")
    busy()
    await asyncio.create_task(child())


async def turns(scope, receive, send):
    busy(1)
    await asyncio.create_task(child())
    busy(2)


async def same_turn(scope, receive, send):
    await asyncio.wait([asyncio.create_task(child()) for _ in range(3)])
    busy(1)


async def sends(scope, receive, send):
    await send(BODY)
    busy(1)
    await send(BODY)
    busy(2)
    await asyncio.sleep(0)
    busy(3)


async def sends_again(scope, receive, send):
    busy(1)
    await asyncio.sleep(0)
    await send(BODY)
    busy(2)
    await asyncio.sleep(0)
    await send(BODY)
    busy(4)


async def threads(scope, receive, send):
    busy(1)
    await in_thread(lambda: busy(2))
    busy(3)
    await asyncio.sleep(0)
    busy(4)
    await asyncio.sleep(0)
    meter.on_reply("http://operator/sign")
    busy(5)


async def free_thread(scope, receive, send):
    await asyncio.to_thread(meter.time_in_thread(busy, locks=False))


async def disk(scope, receive, send):
    def stored():
        with meter.time_disk_wait():
            busy(1)
            waits(20)

    await in_thread(stored)
    with meter.time_disk_wait():
        waits(30)


@pytest.mark.parametrize(
    ("app", "found"),
    [
        # A step counts for what has made it go on by its end.
        (
            answered,
            [
                ("request", {"loop": 10, "turns": [10]}),
                ("http://operator/sign", {"loop": 20, "turns": [10, 10]}),
            ],
        ),
        (turns, [("request", {"loop": 13, "turns": [1, 10, 2]})]),
        (same_turn, [("request", {"loop": 31, "turns": [30, 1]})]),
        (sends, [("request", {"loop": 1, "later": 5, "turns": [1]})]),
        (sends_again, [("request", {"loop": 3, "later": 4, "turns": [3]})]),
        (
            threads,
            [
                ("request", {"loop": 1, "turns": [1], "thread": 2, "after": 7}),
                ("http://operator/sign", {"loop": 5, "turns": [5]}),
            ],
        ),
        (free_thread, [("request", {"free": 10})]),
        (disk, [("request", {"loop_disk": 30, "thread_disk": 20, "thread": 1})]),
    ],
)
def test_what_a_request_costs(parts, app, found):
    assert parts(app) == found


def curves() -> None:
    point = coincurve.PublicKey.from_secret(bytes([1]) * 32)
    for _ in range(30):
        point.multiply(bytes([2]) * 32)


def test_curve_arithmetic_is_told_apart_if_asked_for(parts, monkeypatch):
    async def app(scope, receive, send):
        curves()
        await in_thread(curves)

    monkeypatch.setattr(meter, "time", time)  # libraries know no other
    ((_, spent),) = parts(app)
    assert not spent.keys() & set(CURVES)
    monkeypatch.setattr(meter, "CURVES", True)
    try:
        ((_, spent),) = parts(app)
    finally:
        meter.sys.setprofile(None)
    assert 0 < spent["loop_curve"] < spent["loop"]
    assert 0 < spent["thread_curve"] < spent["thread"]


def test_outside_of_requests_nothing_is_kept():
    assert meter.time_in_thread(busy) is busy
    meter.on_reply("http://operator/sign")
    with meter.time_disk_wait():
        pass
