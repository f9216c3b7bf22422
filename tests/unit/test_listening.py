"""Connections are bounded before anybody has said who they are: raw sockets, both servers."""

import json
import logging
import pickle
import resource
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, replace

import httpx
import pytest
import uvicorn
import uvloop

from mpcsim.listening import PIPELINED, ConnectionLimits, Connections, Limit, listen, options
from mpcsim.service import open_gateway
from mpcsim.settings import SettingsError, describe, read
from node.app import create_app
from node.settings import Settings
from tests.node.double import GatewayDouble, WalletDouble

PATIENCE_S = 30
SHORT_S = 0.3
CHUNKED = "Transfer-Encoding: chunked"
ROOMY = ConnectionLimits()
HASTY = replace(ROOMY, header_s=SHORT_S, body_s=SHORT_S)
FEW = replace(ROOMY, connections=8)


@dataclass
class Server:
    address: tuple[str, int]
    connections: Connections
    path: str
    """Answers 200 to a GET without a token."""
    post: str
    """Takes a JSON body."""
    headers: tuple[str, ...] = ()
    """With those the endpoint reads the body."""

    def connect(self) -> socket.socket:
        return socket.create_connection(self.address, PATIENCE_S)

    def ask(self, headers: str = "") -> bytes:
        return f"GET {self.path} HTTP/1.1\r\nHost: here\r\n{headers}\r\n".encode()

    def upload(self, framing: str = "Content-Length: 100") -> bytes:
        """The beginning of a request that goes on with a body."""
        return post(self.post, *self.headers, framing)

    def health(self) -> int:
        with self.connect() as connection:
            connection.sendall(self.ask())
            return answer(connection)[0]


def answer(connection: socket.socket) -> tuple[int, dict[str, str], bytes]:
    """One answer: status, headers, body."""
    with connection.makefile("rb") as file:
        status = int(file.readline().split()[1])
        headers = {}
        while line := file.readline().strip():
            name, _, value = line.decode().partition(": ")
            headers[name.lower()] = value
        return status, headers, file.read(int(headers["content-length"]))


def error(connection: socket.socket, status: int) -> str:
    """The text of an error in its one form, after which the connection ends."""
    found, headers, body = answer(connection)
    assert (found, headers["content-type"]) == (status, "application/json")
    assert headers["connection"] == "close"
    assert list(json.loads(body)) == ["error"]
    assert is_closed(connection)
    return json.loads(body)["error"]


def is_closed(connection: socket.socket) -> bool:
    try:
        return connection.recv(1) == b""
    except ConnectionError:
        return True


def wait_for(condition) -> None:
    until = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.01)


@contextmanager
def serving(app, limits: ConnectionLimits, *paths, headers=()) -> Iterator[Server]:
    """The application behind a socket, with the options of both servers."""
    uvicorn_options = options(limits)
    with listen("127.0.0.1", 0) as listening:
        server = uvicorn.Server(uvicorn.Config(app, log_config=None, **uvicorn_options))
        loop = uvloop.new_event_loop()
        work = server._serve([listening])  # without signal handlers: not the main thread
        thread = threading.Thread(target=loop.run_until_complete, args=(work,))
        thread.start()
        try:
            paths = paths or ("/", "/")
            yield Server(listening.getsockname(), uvicorn_options["http"], *paths, headers)
        finally:
            server.should_exit = True
            thread.join(PATIENCE_S)
            assert not thread.is_alive()
            loop.close()


def post(path: str, *headers: str) -> bytes:
    lines = [f"POST {path} HTTP/1.1", "Host: here", "Content-Type: application/json", *headers]
    return "\r\n".join([*lines, "", ""]).encode()


@contextmanager
def node(limits: ConnectionLimits) -> Iterator[Server]:
    gateway = GatewayDouble()
    app = create_app(Settings(waas_api_url="http://gateway"), gateway, WalletDouble())
    bearer = f"Authorization: Bearer {gateway.token()}"
    with serving(app, limits, "/", "/v3/wallet/generate", headers=(bearer,)) as server:
        yield server


@contextmanager
def gateway(limits: ConnectionLimits) -> Iterator[Server]:
    with closing(open_gateway()) as opened:
        paths = "/.well-known/jwks.json", "/member/user-management/v3/signup"
        with serving(opened.app, limits, *paths) as server:
            yield server


BOTH = pytest.mark.parametrize("start", [node, gateway], ids=lambda start: start.__name__)


# --- headers ------------------------------------------------------------------------------------


@BOTH
def test_the_length_of_headers(start):
    with start(ROOMY) as server:
        rest = ROOMY.header_bytes - len(server.ask("X: \r\n"))
        for name, status in (("X", 200), ("XX", 431)):
            with server.connect() as connection:
                connection.sendall(server.ask(f"{name}: {'x' * rest}\r\n"))
                if status == 200:
                    assert answer(connection)[0] == status
                else:
                    assert error(connection, status) == "The header has more than 32768 bytes"
        assert server.connections.closed == {Limit.LONG_HEADER: 1}


@BOTH
@pytest.mark.parametrize(
    "beginning", [b"GET /", b"GET / HTTP/1.1\r\nX", b"GET / HTTP/1.1\r\nX: ", b"GET / HTTP/1.1\r\n"]
)
def test_headers_without_an_end(start, beginning):
    """The client is told, although it goes on sending; all the while others are served."""
    with start(ROOMY) as server, server.connect() as connection:
        connection.sendall(beginning)
        filler = b"a:b\r\n" * 4000 if beginning.endswith(b"\n") else b"x" * 20_000
        for count in range(200):
            connection.sendall(filler)
            if count % 50 == 0:
                assert server.health() == 200
        connection.shutdown(socket.SHUT_WR)
        assert error(connection, 431)
        assert server.connections.closed == {Limit.LONG_HEADER: 1}


@BOTH
def test_empty_lines_without_an_end(start):
    with start(ROOMY) as server, server.connect() as connection:
        connection.sendall(b"\r\n" * ROOMY.header_bytes)
        assert error(connection, 431)


@BOTH
@pytest.mark.parametrize("drop", [b"", b"G", b"GET / HTTP/1.1\r\nHost: here\r\nX: "])
def test_headers_take_no_longer_than_they_may(start, drop):
    """Not even if something comes all the time; whoever said nothing is told nothing."""
    with start(HASTY) as server, server.connect() as connection:
        connection.sendall(drop)
        while drop and not server.connections.closed:
            time.sleep(SHORT_S / 10)
            connection.sendall(b"x" if drop != b"G" else b"")
        if drop:
            assert error(connection, 408) == "The header was not complete in time"
        assert is_closed(connection)
        assert server.connections.closed == {Limit.SLOW_HEADER: 1}


@BOTH
def test_the_second_headers_on_a_connection(start):
    with start(HASTY) as server, server.connect() as connection:
        connection.sendall(server.ask())
        assert answer(connection)[0] == 200
        time.sleep(2 * SHORT_S)  # idle; that is not limited so closely
        connection.sendall(server.ask())
        assert answer(connection)[0] == 200
        connection.sendall(server.ask()[:-2])
        assert error(connection, 408)


# --- bodies -------------------------------------------------------------------------------------


@BOTH
def test_bodies_take_no_longer_than_they_may(start):
    with start(HASTY) as server:
        for body in (b"", b"{"):
            with server.connect() as connection:
                connection.sendall(server.upload() + body)
                assert error(connection, 408) == "The body was not complete in time"
        assert server.connections.closed == {Limit.SLOW_BODY: 2}


@BOTH
def test_a_body_that_was_answered_before_it_came(start):
    with start(HASTY) as server, server.connect() as connection:
        connection.sendall(post("/nowhere", "Content-Length: 100"))
        assert answer(connection)[0] in (404, 405)
        assert is_closed(connection)
        assert server.connections.closed == {Limit.SLOW_BODY: 1}


@BOTH
@pytest.mark.parametrize("path", ["/nowhere", None])
def test_trailers_without_an_end(start, path):
    with start(ROOMY) as server, server.connect() as connection:
        server.post = path or server.post
        with suppress(ConnectionError):
            connection.sendall(server.upload(CHUNKED) + b"2\r\n{}\r\n0\r\nX: ")
            for _ in range(200):
                connection.sendall(b"x" * 20_000)
        wait_for(lambda: server.connections.closed == {Limit.LONG_HEADER: 1})


@BOTH
def test_a_body_in_many_small_chunks(start):
    """More bytes than a header may have, none of which is one."""
    with start(replace(ROOMY, header_bytes=1024)) as server, server.connect() as connection:
        connection.sendall(server.upload(CHUNKED))
        for _ in range(1000):
            connection.sendall(b"2\r\n  \r\n")
        connection.sendall(b"0\r\n\r\n")
        assert answer(connection)[0] == 400
        assert not server.connections.closed


# --- the number of connections --------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize("beginning", ["", "GET", "upload"])
def test_half_sent_requests_lock_nobody_out(start, beginning):
    """Neither newcomers nor whoever holds a connection already."""
    with start(FEW) as server, ExitStack() as stack:
        held = stack.enter_context(server.connect())
        held.sendall(server.ask())
        assert answer(held)[0] == 200
        said = server.upload() if beginning == "upload" else beginning.encode()
        half = []
        for _ in range(5 * FEW.connections):
            half.append(stack.enter_context(server.connect()))
            half[-1].sendall(said)
        assert server.health() == 200
        held.sendall(server.ask())
        assert answer(held)[0] == 200
        assert is_closed(half[0])
        assert set(server.connections.closed) == {Limit.DISPLACED}
        assert server.connections.closed[Limit.DISPLACED] >= 4 * FEW.connections


@BOTH
def test_idle_connections_lock_nobody_out(start):
    with start(FEW) as server, ExitStack() as stack:
        for _ in range(3 * FEW.connections):
            idle = stack.enter_context(server.connect())
            idle.sendall(server.ask())
            assert answer(idle)[0] == 200
        # Three that have not said anything yet are not displaced by each other.
        new = [stack.enter_context(server.connect()) for _ in range(3)]
        for connection in new:
            connection.sendall(server.ask())
        assert [answer(connection)[0] for connection in new] == [200] * 3


@BOTH
def test_more_half_sent_requests_than_the_default_allows(start):
    with start(ROOMY) as server, ExitStack() as stack:
        for _ in range(1100):
            stack.enter_context(server.connect()).sendall(b"GET / HTTP/1.1\r\n")
        assert server.health() == 200
        assert server.connections.closed[Limit.DISPLACED] >= 100


class Slow:
    """Answers when it is told to."""

    def __init__(self) -> None:
        self.begun = threading.Semaphore(0)
        self.go = threading.Event()

    async def __call__(self, scope, receive, send) -> None:
        if scope["type"] == "lifespan":
            return
        self.begun.release()
        while not self.go.is_set():
            await uvicorn.server.asyncio.sleep(0.01)
        await send({"type": "http.response.start", "status": 200, "headers": [LENGTH]})
        await send({"type": "http.response.body", "body": b"done"})


LENGTH = (b"content-length", b"4")


def test_when_all_are_busy():
    app = Slow()
    with serving(app, FEW) as server, ExitStack() as stack:
        busy = [stack.enter_context(server.connect()) for _ in range(FEW.connections)]
        for connection in busy:
            connection.sendall(server.ask())
            assert app.begun.acquire(timeout=PATIENCE_S)
        for _ in range(3):
            with server.connect() as connection:
                assert error(connection, 503) == "Too many connections"
        assert server.connections.closed == {Limit.REFUSED: 3}
        app.go.set()
        assert [answer(connection)[0] for connection in busy] == [200] * len(busy)
        assert server.health() == 200


def test_whoever_sends_many_requests_at_once_makes_room():
    """They may never leave a moment between two answers."""
    app = Slow()
    with serving(app, FEW) as server, ExitStack() as stack:
        for _ in range(FEW.connections):
            connection = stack.enter_context(server.connect())
            connection.sendall(server.ask() * 3)
            assert app.begun.acquire(timeout=PATIENCE_S)
        wait_for(lambda: len(server.connections.pipelining) == FEW.connections)
        app.go.set()
        app.go = threading.Event()  # those are at their second request
        honest = stack.enter_context(server.connect())
        honest.sendall(server.ask())
        wait_for(lambda: server.connections.closed == {Limit.DISPLACED: 1})
        app.go.set()
        assert answer(honest)[0] == 200


def test_what_follows_a_request_does_not_cost_its_answer():
    """Some clients end a body with an empty line too many."""
    for more, closed in (
        (b"\r\n", {}),
        (b"GET / HTTP/1.1\r\nX: ", {Limit.SLOW_HEADER: 1}),
        (post("/", "Content-Length: 3"), {Limit.SLOW_BODY: 1}),
    ):
        app = Slow()
        with serving(app, HASTY) as server, server.connect() as connection:
            connection.sendall(server.ask() + more[:1])
            assert app.begun.acquire(timeout=PATIENCE_S)
            connection.sendall(more[1:])
            time.sleep(3 * SHORT_S)
            app.go.set()
            assert answer(connection)[2] == b"done"
            wait_for(lambda server=server, closed=closed: server.connections.closed == closed)


# --- answers, pipelines, idleness -----------------------------------------------------------------


class Lavish:
    """Answers a mebibyte."""

    async def __call__(self, scope, receive, send) -> None:
        if scope["type"] == "lifespan":
            return
        head = [(b"content-length", b"%d" % (1 << 20))]
        await send({"type": "http.response.start", "status": 200, "headers": head})
        for _ in range(16):
            await send({"type": "http.response.body", "body": bytes(1 << 16), "more_body": True})
        await send({"type": "http.response.body", "body": b""})


def test_answers_that_nobody_reads():
    with serving(Lavish(), HASTY) as server, server.connect() as connection:
        connection.sendall(server.ask() * 20)
        wait_for(lambda: server.connections.closed == {Limit.UNREAD: 1})


def test_answers_that_are_read_slowly():
    with serving(Lavish(), HASTY) as server, server.connect() as connection:
        connection.sendall(server.ask() * 20)
        read = 0
        while read < 20 << 20:
            read += len(connection.recv(1 << 20))
            time.sleep(SHORT_S / 50)
        assert not server.connections.closed


@BOTH
def test_requests_before_the_first_is_answered(start):
    with start(ROOMY) as server, ExitStack() as stack:
        connection = stack.enter_context(server.connect())
        connection.sendall(server.ask() * PIPELINED)
        for _ in range(PIPELINED):
            assert connection.recv(1)  # in whatever pieces
        connection = stack.enter_context(server.connect())
        connection.sendall(server.ask() * 20 * PIPELINED)
        wait_for(lambda: server.connections.closed == {Limit.PIPELINED: 1})
        assert server.health() == 200


@BOTH
def test_idle_connections_are_closed(start):
    with start(replace(ROOMY, idle_s=SHORT_S)) as server, server.connect() as connection:
        connection.sendall(server.ask())
        assert answer(connection)[0] == 200
        assert is_closed(connection)
        assert server.connections.closed == {Limit.IDLE: 1}


# --- what is said of it ---------------------------------------------------------------------------


@BOTH
def test_the_log_says_it_and_cannot_be_filled(start, caplog, monkeypatch):
    monkeypatch.setattr("mpcsim.listening.LOG_EVERY_S", 0.5)
    with caplog.at_level(logging.INFO, "mpcsim.listening"), start(FEW) as server:
        for _ in range(100):
            with server.connect() as connection:
                connection.sendall(server.ask(f"X: {'x' * FEW.header_bytes}\r\n"))
                assert error(connection, 431)
        wait_for(lambda: caplog.records and caplog.records[-1].fields["in_all"] == 100)
        lines = [record for record in caplog.records if record.name == "mpcsim.listening"]
        assert len(lines) < 50
        assert sum(record.fields["closed"] for record in lines) == 100
        assert {record.fields["limit"] for record in lines} == {"LONG_HEADER"}
        first = lines[0].getMessage()
        assert first == "1 closed, 1 in all, the last from 127.0.0.1: header too long"


# --- settings -------------------------------------------------------------------------------------


def test_limits_are_settings():
    given = {
        "MAX_CONNECTIONS": "5",
        "MAX_HEADER_BYTES": "2048",
        "HEADER_TIMEOUT_S": "1.5",
        "BODY_TIMEOUT_S": "2",
        "IDLE_TIMEOUT_S": "3",
    }
    assert read(ConnectionLimits, given) == ConnectionLimits(5, 2048, 1.5, 2.0, 3.0)
    assert Settings.from_environment(given).limits == ConnectionLimits(5, 2048, 1.5, 2.0, 3.0)
    for name in given:
        assert f"  {name}: " in describe(ConnectionLimits)
        for text in ("0", "-1", "x", "nan", "1e9"):
            with pytest.raises(SettingsError, match=f"^{name} must be "):
                read(ConnectionLimits, {name: text})


def test_workers_get_the_limits():
    copy = pickle.loads(pickle.dumps(Connections(FEW)))
    assert copy.limits == FEW


def test_no_more_connections_than_open_files():
    program = """
import resource
from mpcsim.listening import ConnectionLimits, affordable
for soft, hard in ((300, {hard}), (300, 500), (100, 100)):
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    print(affordable(ConnectionLimits()).connections, resource.getrlimit(resource.RLIMIT_NOFILE)[0])
"""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    run = [sys.executable, "-c", program.format(hard=hard)]
    ended = subprocess.run(run, capture_output=True, text=True, check=True, timeout=PATIENCE_S)
    assert ended.stdout.split() == ["1000", "1256", "244", "500", "1", "100"]
    assert "MAX_CONNECTIONS is 244" in ended.stderr


def test_clients_notice_nothing():
    """A client of every day: kept connections, bodies, answers of all kinds."""
    with node(ROOMY) as server:
        url = f"http://127.0.0.1:{server.address[1]}"
        with httpx.Client(base_url=url, trust_env=False) as client:
            for _ in range(3):
                assert client.get("/").status_code == 200
                upgrade = {"Connection": "Upgrade", "Upgrade": "h2c"}
                assert client.get("/", headers=upgrade).status_code == 200
                assert client.post("/v3/wallet/sign", content=b"x" * 300_000).status_code == 401
        assert not server.connections.closed
