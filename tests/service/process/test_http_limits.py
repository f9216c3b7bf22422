"""Limits of connections before a request is complete: in virtual time, then at real sockets."""

import asyncio
import json
import logging
import resource
import socket
from dataclasses import replace
from itertools import pairwise

import pytest
import uvicorn
from uvicorn.server import ServerState

from mpcsim.ids import MPC_NODES
from mpcsim.service.process.http_limits import (
    BYTES_A_CONNECTION,
    CONNECTIONS_A_TURN,
    LOG_EVERY_S,
    MOST_DROPPED_BYTES,
    OTHER_FILES,
    ConnectionLimits,
    Limit,
    fit_open_files,
    uvicorn_options,
)
from mpcsim.service.process.http_parser import MOST_TARGET_BYTES
from mpcsim.service.process.request_id import IN_SCOPE, USER_IN_SCOPE
from mpcsim.service.web.transport import MAX_CONNECTIONS
from mpcsim.sim.run.realtime.clock import VirtualLoop
from node.app import create_app
from tests.node.double import GatewayDouble, WalletDouble
from tests.node.harness import SETTINGS, running

PATIENCE_S = 30
CHUNKED = "Transfer-Encoding: chunked"
LIMITS = ConnectionLimits()
FEW = replace(LIMITS, connections=8, header_bytes=1024)
HIGH_WATER = 1 << 16


class App:
    """Answers a GET at once, or when it may; reads the body of a POST to /read."""

    def __init__(self):
        self.go = asyncio.Event()
        self.go.set()
        self.body = b"done"
        self.begun = 0
        self.asked = []

    async def __call__(self, scope, receive, send):
        self.begun += 1
        self.asked.append(scope["query_string"])
        scope[USER_IN_SCOPE] = scope["query_string"].decode() or None
        if scope["path"] == "/read":
            scope[IN_SCOPE] = b"as-logged"
            while (await receive()).get("more_body"):
                pass
        await self.go.wait()
        head = [(b"content-length", b"%d" % len(self.body))]
        await send({"type": "http.response.start", "status": 200, "headers": head})
        await send({"type": "http.response.body", "body": self.body})


class Server:
    """The protocol of both servers, in virtual time and without sockets."""

    def __init__(self, limits=LIMITS):
        self.loop = VirtualLoop()
        self.app = App()
        more = {**uvicorn_options(limits), "loop": "asyncio"}
        self.config = uvicorn.Config(self.app, log_config=None, **more)
        self.connections = more["http"]
        self.state = ServerState()

    @property
    def closed(self):
        return dict(self.connections.closed)

    def connect(self):
        return Client(self)

    def wait(self, seconds=0.0):
        for _ in range(8 if seconds == 0 else 1):
            self.loop.run_until_complete(asyncio.sleep(seconds))

    def end(self):
        for connection in list(self.state.connections):
            connection.transport.abort()
        self.app.go.set()
        self.wait(1.0)
        assert not self.state.tasks
        self.loop.close()

    def health(self):
        return self.connect().send(ask()).status()


class Client(asyncio.Transport):
    """One connection: the server's transport, and the client at its other end."""

    def __init__(self, server):
        super().__init__({"peername": ("127.0.0.1", 1)})
        self.server = server
        self.got = b""
        self.reads = True
        self.ended = self.closing = False
        self._waiting, self._paused = b"", False
        self.protocol = server.connections(server.config, server.state, {}, server.loop)
        self.protocol.connection_made(self)

    # the client

    def send(self, data):
        self._waiting += data
        self._hand_over()
        self.server.wait()
        return self

    def read(self, count):
        """Take bytes of the answer."""
        taken = len(self.got[:count])
        self.got = self.got[count:]
        if len(self.got) <= HIGH_WATER // 4:
            self.protocol.resume_writing()
        self.server.wait()
        return taken

    def answer(self):
        head, _, rest = self.got.partition(b"\r\n\r\n")
        first, *lines = head.decode().split("\r\n")
        headers = dict(line.lower().split(": ", 1) for line in lines)
        length = int(headers["content-length"])
        self.got = rest[length:]
        return int(first.split()[1]), headers, rest[:length]

    def status(self):
        return self.answer()[0]

    def error(self, status):
        """The text of an error in its one form, after which the connection ends."""
        found, headers, body = self.answer()
        assert (found, headers["content-type"]) == (status, "application/json")
        assert headers["connection"] == "close"
        self.request_id = headers["x-request-id"]
        assert list(json.loads(body)) == ["error"]
        assert self.ended
        assert not self.got
        return json.loads(body)["error"]

    # the transport

    def write(self, data):
        self.got += data
        if not self.reads and len(self.got) > HIGH_WATER:
            self.protocol.pause_writing()

    def write_eof(self):
        self.ended = True

    def close(self):
        if not self.closing:
            self.closing = True
            if self.reads or not self.got:
                self.abort()

    def abort(self):
        if not self.ended or not self.closing:
            self.closing = self.ended = True
            self.server.loop.call_soon(self.protocol.connection_lost, None)

    def is_closing(self):
        return self.closing

    def pause_reading(self):
        self._paused = True

    def resume_reading(self):
        self._paused = False
        self.server.loop.call_soon(self._hand_over)

    def _hand_over(self):
        while self._waiting and not self._paused and not self.closing:
            data, self._waiting = self._waiting[:HIGH_WATER], self._waiting[HIGH_WATER:]
            self.protocol.data_received(data)


def ask(headers=""):
    return f"GET / HTTP/1.1\r\nHost: here\r\n{headers}\r\n".encode()


def upload(framing="Content-Length: 100", path="/read"):
    """The beginning of a request that goes on with a body."""
    return f"POST {path} HTTP/1.1\r\nHost: here\r\n{framing}\r\n\r\n".encode()


def served(limits):
    server = Server(limits)
    yield server
    server.end()


server = pytest.fixture(lambda: (yield from served(LIMITS)))
few = pytest.fixture(lambda: (yield from served(FEW)))


# --- turns --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("times", "field", "most"),
    [(3, "", CONNECTIONS_A_TURN), (1, f"X: {'x' * 7 * BYTES_A_CONNECTION}\r\n", 1)],
    ids=["pipelined", "long"],
)
def test_few_requests_begin_in_a_turn_of_the_loop(server, times, field, most):
    """However many connections pipeline theirs, and fewer of long ones: what is being computed gets
    its turns between them, and each connection in its order."""
    clients = [server.connect() for _ in range(5 * CONNECTIONS_A_TURN)]
    for client in clients:
        client.protocol.data_received(times * ask(field))

    async def watch():
        counts = [0]
        while counts[-1] < times * len(clients):
            await asyncio.sleep(0)
            counts.append(server.app.begun)
            if counts[-1] <= len(clients):
                assert not any(b"done" in client.got.partition(b"done")[2] for client in clients)
        return counts

    counts = server.loop.run_until_complete(watch())
    assert max(b - a for a, b in pairwise(counts)) == most
    assert {client.got.count(b"done") for client in clients} == {times}


def test_nobody_waits_for_all_that_one_user_asks(server):
    """Connections that are busy with one user's requests stand in one line, also those with more to
    come of a body; each line has its turn."""
    alice = ask().replace(b"/", b"/?alice", 1)
    slow = alice.replace(b"GET", b"POST").replace(b"\r\n\r\n", b"\r\nContent-Length: 2\r\n\r\n")
    crowd = [server.connect().send(alice) for _ in range(5 * CONNECTIONS_A_TURN)]
    bob = server.connect().send(ask().replace(b"/", b"/?bob", 1))
    server.app.asked.clear()
    for data in (slow, b"xx", alice):
        for client in crowd:
            client.protocol.data_received(data)
    bob.send(ask().replace(b"/", b"/?bob", 1))
    server.wait(1.0)
    assert len(server.app.asked) == 2 * len(crowd) + 1
    assert server.app.asked.index(b"bob") <= 2 * CONNECTIONS_A_TURN


# --- headers ------------------------------------------------------------------------------------


def test_the_length_of_headers(server):
    room = LIMITS.header_bytes - len(ask("X: \r\n"))
    assert server.connect().send(ask(f"X: {'x' * room}\r\n")).status() == 200
    said = server.connect().send(ask(f"XX: {'x' * room}\r\n")).error(431)
    assert said == "The header has more than 32768 bytes"
    said = server.connect().send(ask("X:\r\n" * 99)).error(431)
    assert said == "The header has more than 100 lines"
    assert server.closed == {Limit.LONG_HEADER: 2}


def test_the_length_of_targets(server):
    longest = b"/" * MOST_TARGET_BYTES
    assert server.connect().send(ask().replace(b"/", longest, 1)).status() == 200
    said = server.connect().send(ask().replace(b"/", longest + b"/", 1)).error(414)
    assert said == "The target has more than 8000 bytes"


@pytest.mark.parametrize("drop", [b"", b"G", b"GET / HTTP/1.1\r\nHost: here\r\nX: "])
def test_headers_take_no_longer_than_they_may(server, drop):
    """Not even if something comes all the time; whoever said nothing is told nothing."""
    connection = server.connect().send(drop)
    for _ in range(9):
        server.wait(LIMITS.header_s / 10)
        connection.send(b"x" if drop.endswith(b" ") else b"")
    assert not connection.ended
    server.wait(LIMITS.header_s / 10 + 1e-6)
    if drop:
        assert connection.error(408) == "The header was not complete in time"
        assert len(connection.request_id) == 16
    assert connection.ended
    assert not connection.got
    assert server.closed == {Limit.SLOW_HEADER: 1}


# --- bodies -------------------------------------------------------------------------------------


@pytest.mark.parametrize("body", [b"", b"{"])
def test_bodies_take_no_longer_than_they_may(server, body):
    connection = server.connect().send(upload() + body)
    server.wait(LIMITS.body_s - 1e-3)
    assert not connection.ended
    server.wait(1e-2)
    assert connection.error(408) == "The body was not complete in time"
    assert connection.request_id == "as-logged"
    assert server.closed == {Limit.SLOW_BODY: 1}


@pytest.mark.parametrize("path", ["/", "/read"])
def test_trailers_without_an_end(server, path):
    connection = server.connect().send(upload(CHUNKED, path) + b"2\r\n{}\r\n0\r\nX: ")
    connection.send(b"x" * LIMITS.header_bytes)
    assert connection.ended
    assert server.closed == {Limit.LONG_HEADER: 1}


def test_a_body_in_many_small_chunks(few):
    """More bytes than a header may have, none of which is one."""
    connection = few.connect().send(upload(CHUNKED))
    for _ in range(FEW.header_bytes // 4):
        connection.send(b"8\r\n        \r\n")
    assert connection.send(b"0\r\n\r\n").status() == 200
    assert not few.closed


def test_a_body_that_is_mostly_sizes_of_chunks(few):
    """Each byte of such a body takes as long to read as kilobytes of another."""
    connection = few.connect()
    connection.send(upload(CHUNKED) + b"1\r\na\r\n" * FEW.header_bytes)
    few.wait(1.0)
    assert connection.error(431) == "The header has more than 1024 bytes"
    assert few.closed == {Limit.LONG_HEADER: 1}


def test_what_comes_at_once_is_handled_in_turns(server):
    """Thousands of chunks in one read hold up nobody else; nothing more is read meanwhile."""
    connection = server.connect()
    connection.send(upload(CHUNKED))
    connection.protocol.data_received(b"8\r\n        \r\n" * 2_000 + b"0\r\n\r\n")
    assert connection.protocol.conn.buffered_bytes > 20_000
    assert connection._paused
    assert server.health() == 200
    while connection.protocol.conn.buffered_bytes:
        server.wait()
    server.wait()
    assert connection.status() == 200
    assert not server.closed


def test_a_request_of_two_lengths(server):
    """Whoever is in between may go by the other one (RFC 9112, 6.1)."""
    for length in ("Content-Length: 4\r\n", "content-length : 4\r\n", "CONTENT-LENGTH:\t4\r\n"):
        connection = server.connect().send(upload(length + CHUNKED) + b"0\r\n\r\n")
        connection.error(400)


# --- the number of connections --------------------------------------------------------------------


@pytest.mark.parametrize("beginning", [b"", b"GET", upload()])
def test_half_sent_requests_lock_nobody_out(few, beginning):
    """Neither newcomers nor whoever holds a connection already."""
    held = few.connect().send(ask())
    half = [few.connect().send(beginning) for _ in range(5 * FEW.connections)]
    assert few.health() == 200
    held.send(ask())
    assert [held.status(), held.status()] == [200, 200]
    assert half[0].ended
    assert set(few.closed) == {Limit.DISPLACED}
    assert few.closed[Limit.DISPLACED] >= 4 * FEW.connections


def test_when_all_are_busy(few):
    few.app.go.clear()
    busy = [few.connect().send(ask()) for _ in range(FEW.connections)]
    for _ in range(3):
        assert few.connect().error(503) == "Too many connections"
    assert few.closed == {Limit.REFUSED: 3}
    few.wait(10 * LIMITS.body_s)  # it is the server that takes its time
    few.app.go.set()
    few.wait()
    assert [connection.status() for connection in busy] == [200] * len(busy)
    assert few.health() == 200


def test_whoever_sends_many_requests_at_once_makes_room(few):
    """They may never leave a moment between two answers."""
    few.app.go.clear()
    for _ in range(FEW.connections):
        few.connect().send(ask() * 3)
    assert len(few.connections.pipelining) == FEW.connections
    honest = few.connect().send(ask())
    assert few.closed == {Limit.DISPLACED: 1}
    few.app.go.set()
    few.wait()
    assert honest.status() == 200


@pytest.mark.parametrize(
    ("more", "limit"),
    [(b"GET / HTTP/1.1\r\nX: ", Limit.SLOW_HEADER), (upload("Content-Length: 3"), Limit.SLOW_BODY)],
)
def test_what_follows_a_request_does_not_cost_its_answer(server, more, limit):
    server.app.go.clear()
    connection = server.connect().send(ask() + more[:1]).send(more[1:])
    server.wait(3 * LIMITS.body_s)
    server.app.go.set()
    server.wait()
    assert connection.answer()[2] == b"done"
    assert not server.closed
    server.wait(LIMITS.body_s + 1e-6)
    assert server.closed == {limit: 1}


# --- answers, pipelines, idleness -----------------------------------------------------------------


def test_answers_that_are_read_slowly_and_not_at_all(server):
    server.app.body = bytes(1 << 20)
    connection = server.connect()
    connection.reads = False
    connection.send(ask() * 3)
    for _ in range(3):
        while connection.read(1 << 18):
            server.wait(LIMITS.body_s / 10)
    assert not server.closed
    connection.send(ask() * 2)
    server.wait(LIMITS.body_s + 1e-6)
    assert server.closed == {Limit.UNREAD: 1}


BROKEN = [
    (b"GET / HTTP/0.9\r\nHost: x\r\n\r\n", 505, "unsupported", "1.0 and 1.1"),
    (upload("Transfer-Encoding: gzip, chunked"), 501, "unsupported", "is chunked"),
    (ask("Secret : hush\r\n"), 400, "bad-request", "RFC 9112"),
    *(
        (b"GET / HTTP/1.1\r\n" + fields + b"Secret: hush\r\n\r\n", 400, "bad-request", "Host")
        for fields in (
            *(b"", b"Host: here\r\nhost: here\r\n", b"Host: hush @here\r\n"),
            *(b"Host: here:hush\r\n", b"Host: [hush/]\r\n", b"Host: here, hush\r\n"),
        )
    ),
]


@pytest.mark.parametrize(("request_text", "status", "code", "says"), BROKEN)
def test_broken_requests_are_told_what_is_wrong(server, request_text, status, code, says):
    """And no value of a header, which may be a token."""
    connection = server.connect().send(request_text)
    assert f"x-error-code: {code}\r\n".encode() in connection.got
    said = connection.error(status)
    assert says in said
    assert "hush" not in said


@pytest.mark.parametrize("host", ["", "here:", "a_b.example:80", "[::1]:9091", "192.0.2.1", "%41"])
def test_hosts(server, host):
    request = f"GET / HTTP/1.1\r\nHost: {host}\r\n\r\n"
    assert server.connect().send(request.encode()).status() == 200


def test_whoever_goes_on_sending_after_a_refusal_is_cut_off(server):
    connection = server.connect().send(b"x" * MOST_DROPPED_BYTES)
    assert connection.ended
    assert not connection.closing
    connection.send(b"x" * MOST_DROPPED_BYTES)
    assert connection.closing


def test_idle_connections_are_closed(server):
    connection = server.connect().send(ask())
    server.wait(LIMITS.idle_s - 1e-3)
    assert not connection.ended
    server.wait(1e-2)
    assert connection.ended
    assert server.closed == {Limit.IDLE: 1}


# --- what is said of it ---------------------------------------------------------------------------


def test_the_log_says_it_and_cannot_be_filled(server, caplog):
    with caplog.at_level(logging.INFO, "mpcsim.service.process.http_limits"):
        for _ in range(100):
            assert server.connect().send(ask(f"X: {'x' * LIMITS.header_bytes}\r\n")).ended
        server.wait(2 * LOG_EVERY_S)
    lines = [
        record for record in caplog.records if record.name == "mpcsim.service.process.http_limits"
    ]
    assert [(line.fields["closed"], line.fields["in_all"]) for line in lines] == [(1, 1), (99, 100)]
    first = lines[0].getMessage()
    assert first == "1 closed, 1 in all, the last from 127.0.0.1: header too long"


# --- settings -------------------------------------------------------------------------------------


def test_no_more_connections_than_open_files(monkeypatch, caplog):
    for limits, expected in (
        ([(300, 1 << 20)], (1000, 2280)),
        ([(300, 500)], (250, 500)),
        ([(100, 100)], (50, 100)),
    ):
        monkeypatch.setattr(resource, "getrlimit", lambda which, limits=limits: limits[-1])
        monkeypatch.setattr(
            resource, "setrlimit", lambda which, new, limits=limits: limits.append(new)
        )
        assert (fit_open_files(LIMITS).connections, limits[-1][0]) == expected
    assert "MAX_CONNECTIONS is 250" in caplog.text
    assert len(MPC_NODES) * MAX_CONNECTIONS < OTHER_FILES  # the gateway's own, to MPC nodes


# --- at sockets -----------------------------------------------------------------------------------


def test_a_client_that_goes_on_sending_gets_its_answer():
    app = create_app(SETTINGS, GatewayDouble(), WalletDouble())
    with running(app) as api:
        address = ("127.0.0.1", api.client.base_url.port)
        connection = socket.create_connection(address, PATIENCE_S)
        connection.sendall(b"GET / HTTP/1.1\r\nX: ")
        for _ in range(40):
            connection.sendall(b"x" * 20_000)
        connection.shutdown(socket.SHUT_WR)
        with connection, connection.makefile("rb") as file:
            assert file.read().startswith(b"HTTP/1.1 431 ")
