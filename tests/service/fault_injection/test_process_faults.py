"""What is switched on in a process: around an application, over a line, without processes."""

import asyncio
import json
import logging
import socket
import threading
import time
from contextlib import contextmanager
from dataclasses import replace
from functools import wraps
from inspect import Signature, signature

import pytest

from mpcsim.cli.service.controlled import _let_network_change  # a process of its own would call it
from mpcsim.service.fault_injection import process_faults
from mpcsim.service.fault_injection.conditions import command_line
from mpcsim.service.operations import open_gateway
from mpcsim.sim import Network, Scenario
from mpcsim.sim.run.faults import drop

USUAL = {"ahead_s": 0.0, "scenario": None, "delay_ms": 0.0, "cut": False}
SIGN = ("POST", "/v3/wallet/sign")


class Line:
    """The other end."""

    def __init__(self, end):
        self._end = end
        self._file = end.makefile("rwb")
        self._number = 0

    def tell(self, do, **what):
        self._number += 1
        self._file.write(command_line(self._number, do, what))
        self._file.flush()
        answer = json.loads(self._file.readline())
        assert answer.pop("number") == self._number
        return answer

    def put(self, **what):
        return self.tell("set", **{**USUAL, **what})

    def close(self):
        self._file.close()
        self._end.close()


@contextmanager
def controlled(**first):
    """A child that listens, and the line to it."""
    ours, its = socket.socketpair()
    ours.sendall(command_line(0, "set", {**USUAL, **first}))
    child = process_faults.ProcessFaults(its)
    other = Line(ours)
    assert json.loads(other._file.readline()) == {"number": 0, "said": None}
    listening = threading.Thread(target=child.listen)
    listening.start()
    try:
        yield child, other
    finally:
        other.close()
        listening.join()  # it ends with the line
        its.close()


class App:
    """Answers 200, and remembers what it was asked."""

    def __init__(self):
        self.asked = []

    async def __call__(self, scope, receive, send):
        body = b""
        while (message := await receive()).get("more_body"):
            body += message["body"]
        self.asked.append((scope["method"], scope["path"], body + message.get("body", b"")))
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"as before"})


def in_child(test):
    """Have a test run with a child, the line to it, and an application; others are pytest's."""

    @wraps(test)
    def run(**arguments):
        with controlled() as (child, line):
            asyncio.run(test(child, line, App(), **arguments))

    run.__signature__ = Signature([*signature(test).parameters.values()][3:])
    return run


def answers(scope, endpoint, answer):
    async def app(scope, receive, send):
        await send({"type": "http.response.start", "status": int(answer), "headers": []})
        await send({"type": "http.response.body", "body": endpoint.encode()})

    return app


class Call:
    """A request under way."""

    def __init__(self, app, method="POST", path="/x"):
        self._messages = asyncio.Queue()
        for body, more in ((b"a", True), (b"b", False)):
            message = {"type": "http.request", "body": body, "more_body": more}
            self._messages.put_nowait(message)
        self.sent = []
        scope = {"type": "http", "method": method, "path": path}
        self.task = asyncio.ensure_future(app(scope, self._messages.get, self._send))

    async def _send(self, message):
        self.sent.append(message)

    def hang_up(self):
        self._messages.put_nowait({"type": "http.disconnect"})

    @property
    def status(self):
        return self.sent[0]["status"] if self.sent else None


async def settled():
    for _ in range(20):
        await asyncio.sleep(0)


async def told(line, do, **what):
    """While the event loop goes on."""
    return await asyncio.to_thread(line.tell, do, **what)


def around(app, child, answers=answers):
    child.attach_loop()
    return process_faults.FaultMiddleware(app, child, answers)


# ---------------------------------------------------------------------- the line


def test_the_first_line_counts_before_anything_else():
    with controlled(ahead_s=3600.0) as (child, _):
        assert abs(child.now() - time.time() - 3600) < 60


def test_the_clock_is_set_and_set_back(caplog):
    with controlled() as (child, line):
        assert line.put(ahead_s=-7200.0) == {"said": None}
        assert abs(child.now() - time.time() + 7200) < 60
        line.put()
        assert abs(child.now() - time.time()) < 60
    loud = [(record.levelno, record.message) for record in caplog.records]
    assert loud == [
        (logging.WARNING, "control: the clock is -7200 s ahead"),
        (logging.WARNING, "control: as it was started"),
    ]


def test_a_switch_that_fails_is_said_and_the_line_goes_on():
    with controlled() as (_, line):
        assert line.tell("expire", often=1)["refused"].startswith("expire has failed: TypeError")
        assert line.tell("nonsense")["refused"].startswith("nonsense has failed: Attribute")
        assert line.tell("tell") == {"said": {"fail": {}, "expire": 0}}


def test_a_network_is_put_in_force_and_taken_back():
    scenario = Scenario(Network.star(3.0), faults=(drop("Commit"),), seed=5)
    gateway = open_gateway()
    network = gateway.network
    with controlled() as (child, line):
        _let_network_change(gateway, child)
        assert line.put(scenario=scenario.dumps()) == {"said": None}
        assert network.model == scenario.network
        assert (network.faults, network.seed) == (scenario.faults, scenario.seed)
        sites = scenario.network.sites.items()
        busy = {name: replace(site, cpu_factor=2.0) for name, site in sites}
        other = Scenario(replace(scenario.network, sites=busy))
        assert "cpu_factor" in line.put(scenario=other.dumps())["refused"]
        assert network.model == scenario.network
        assert child.conditions.scenario == scenario.dumps()
        line.put()
        assert network.model is None
        assert network.faults == ()
    with controlled(scenario=scenario.dumps()) as (child, _):  # a gateway that is started again
        _let_network_change(gateway, child)
        assert network.model == scenario.network
    gateway.close()


# ---------------------------------------------------------------------- calls


@in_child
async def test_who_is_cut_off_hears_and_says_nothing_until_mended(child, line, app):
    cut = around(app, child)
    await asyncio.to_thread(line.put, cut=True)
    waiting, gone = Call(cut, path="/waiting"), Call(cut, path="/gone")
    await settled()
    gone.hang_up()
    await gone.task
    assert (gone.sent, app.asked) == ([], [])
    await asyncio.to_thread(line.put, cut=True, delay_ms=1.0)  # is it still
    await settled()
    assert not waiting.task.done()
    await asyncio.to_thread(line.put)
    await waiting.task
    assert waiting.status == 200
    assert app.asked == [("POST", "/waiting", b"ab")]


@in_child
async def test_calls_fail_as_often_as_they_are_to(child, line, app):
    failing = around(app, child)
    fail = {"endpoint": "sign", "answer": "504", "done": False}
    await told(line, "fail", **fail, times=2)
    assert (await told(line, "tell"))["said"]["fail"] == {
        "sign": {"answer": "504", "times": 2, "done": False}
    }
    statuses = []
    for method, path in (SIGN, ("GET", SIGN[1]), ("POST", "/v3/wallet/presign"), SIGN, SIGN):
        call = Call(failing, method, path)
        await call.task
        statuses.append(call.status)
    assert statuses == [504, 200, 200, 504, 200]
    assert len(app.asked) == 3
    assert (await told(line, "tell"))["said"]["fail"] == {}
    await told(line, "fail", **fail, times=2)
    await told(line, "fail", **fail, times=0)
    call = Call(failing, *SIGN)
    await call.task
    assert call.status == 200


@in_child
async def test_a_call_is_carried_out_and_its_answer_lost(child, line, app):
    await told(line, "fail", endpoint="sign", answer="502", times=1, done=True)
    call = Call(around(app, child), *SIGN)
    await call.task
    assert (call.status, call.sent[1]["body"]) == (502, b"sign")
    assert app.asked == [(*SIGN, b"ab")]


@pytest.mark.parametrize("undo", ["fail", "clear"])
@pytest.mark.parametrize("done", [False, True])
@in_child
async def test_a_call_hangs_until_that_is_undone(child, line, app, done, undo):
    hanging = around(app, child)
    fail = {"endpoint": "sign", "answer": "hang", "done": done}
    await told(line, "fail", **fail, times=2)
    call, gone = Call(hanging, *SIGN), Call(hanging, *SIGN)
    await settled()
    assert call.sent == gone.sent == []
    assert len(app.asked) == (2 if done else 0)
    gone.hang_up()
    await settled()
    assert gone.task.done() == (not done)
    await told(line, undo, **({**fail, "times": 0} if undo == "fail" else {}))
    await call.task
    assert call.status == 200
    await gone.task
    assert len(app.asked) == (2 if done else 1)


def test_tokens_are_issued_long_ago_if_they_are_to_have_expired():
    issued, status = [], 200
    login = ("POST", "/auth/auth-service/v3/login")

    async def run(child, line):
        async def app(scope, receive, send):
            issued.append(time.time() - child.now())
            await send({"type": "http.response.start", "status": status, "headers": []})

        expiry = process_faults.TokenExpiry(app, child, 60.0)

        async def call(method, path):
            await Call(expiry, method, path).task

        nonlocal status
        await told(line, "expire", times=1)
        await call("POST", "/member/user-management/v3/signup")
        status = 401
        await call(*login)  # nothing was issued
        status = 200
        await call(*login)
        await call(*login)

    with controlled() as (child, line):
        asyncio.run(run(child, line))
        assert line.tell("tell")["said"]["expire"] == 0
    ago = 60 + process_faults.EXPIRED_S
    assert [round(each / ago) for each in issued] == [0, 1, 1, 0]
