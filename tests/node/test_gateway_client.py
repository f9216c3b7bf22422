"""The gateway's client: what it makes of answers, and how its transports behave."""

from __future__ import annotations

import asyncio
import gzip
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import uvicorn

from mpcsim.ids import INSTITUTION, MPC_NODES, OPERATOR
from mpcsim.rpc import wire
from mpcsim.service import OpenGateway, open_gateway
from node.errors import (
    ApiError,
    BadRequest,
    Conflict,
    NotFound,
    Unauthorized,
    Unreachable,
    Upstream,
    UpstreamTimeout,
)
from node.gateway import GatewayClient
from node.transport import (
    AsgiTransport,
    ConnectionLost,
    HttpTransport,
    Limits,
    Reply,
    TooLarge,
    Transport,
)
from node.wallet import Wallet
from tests.node.wallets import CHEAP, House

KEY_ID = bytes(32)
LOOPBACK = "127.0.0.1"


# ---------------------------------------------------------------------- what answers mean


class Canned:
    """A transport with the answers given; it notes what it was asked."""

    def __init__(self, *replies: Reply | Exception) -> None:
        self.replies = list(replies)
        self.asked: list[tuple[str, str, str | None, bytes | None]] = []

    async def request(
        self, method: str, path: str, *, token: str | None, body: bytes | None = None
    ) -> Reply:
        self.asked.append((method, path, token, body))
        reply = self.replies.pop(0)
        if isinstance(reply, Exception):
            raise reply
        return reply

    async def close(self) -> None:
        pass


def sign(client: GatewayClient) -> Awaitable[object]:
    return client.sign("token", bytes(32), KEY_ID, OPERATOR, b"m", (b"x",))


def ask(reply: Reply | Exception, call: Callable[[GatewayClient], Awaitable[Any]] = sign) -> Any:
    async def run() -> Any:
        return await call(GatewayClient(Canned(reply)))

    return asyncio.run(run())  # type: ignore[arg-type]


def refusal(status: int, body: object, call: Any = sign) -> ApiError:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    with pytest.raises(ApiError) as caught:
        ask(Reply(status, data), call)
    return caught.value


@pytest.mark.parametrize(
    ("status", "body", "kind", "answer", "message"),
    [
        (
            401,
            {"code": 757, "message": "JWT_EXPIRED"},
            Unauthorized,
            401,
            'Authentication failed: {"code":757,"message":"JWT_EXPIRED"}',
        ),
        (404, {"error": "no such key"}, NotFound, 404, "no such key"),
        (
            409,
            {"error": "secp256k1 key already exists for this user"},
            Conflict,
            409,
            "secp256k1 key already exists for this user",
        ),
        (409, {"error": "busy"}, Upstream, 500, "Upstream returned 409 Conflict: busy"),
        (410, {"error": "expired"}, Upstream, 500, "Upstream returned 410 Gone: expired"),
        (400, {"error": "bad"}, Upstream, 500, "Upstream returned 400 Bad Request: bad"),
        (500, {"error": "bug"}, Upstream, 500, "Upstream returned 500 Internal Server Error: bug"),
        (
            503,
            {"error": "the operator's MPC node cannot be reached", "party": 2},
            Upstream,
            500,
            "Upstream returned 503 Service Unavailable: the operator's MPC node cannot be reached",
        ),
    ],
)
def test_errors_of_the_gateway(status, body, kind, answer, message):
    error = refusal(status, body)
    assert type(error) is kind
    assert error.status == answer
    assert error.message == message
    if isinstance(error, Upstream):
        assert error.upstream_status == status
        assert error.party == body.get("party")


@pytest.mark.parametrize("party", [1, 4, "2", None, True, [2]])
def test_only_mpc_nodes_are_named(party):
    error = refusal(503, {"error": "down", "party": party})
    assert isinstance(error, Upstream)
    assert error.party is None


@pytest.mark.parametrize("status", [302, 401, 404, 409, 502, 599])
@pytest.mark.parametrize(
    "body",
    [
        *(b"", b"<h1>secret</h1>", b"[]", b'{"error": 1}', b"\xff"),
        *(b"[" * 100_000, b'{"error": "busy", "error": "secret"}'),
    ],
    ids=range(7),
)
def test_answers_of_something_else_are_not_passed_on(status, body):
    error = refusal(status, body)
    assert type(error) is Upstream
    assert error.message.startswith(f"Upstream returned {status} ")
    assert error.message.endswith(": no explanation")


@pytest.mark.parametrize(
    "call",
    [
        lambda c: c.nodes(),
        lambda c: c.user("token"),
        lambda c: c.keys("token"),
        lambda c: c.wallet("token"),
        lambda c: c.key_token("token", KEY_ID.hex()),
        lambda c: c.open("token", KEY_ID, bytes(32), {OPERATOR: b"", INSTITUTION: b""}),
        lambda c: c.generate("token", KEY_ID, "ed25519", ()),
        lambda c: c.recover("token", KEY_ID, "ed25519"),
        sign,
        lambda c: c.exchange("token", KEY_ID, ()),
    ],
)
@pytest.mark.parametrize("body", [b"", b"{}", b"[]", b"null", b"\x00\x00\x00\x01"])
def test_answers_that_make_no_sense(call, body):
    error = refusal(200, body, call)
    assert type(error) is Upstream
    assert error.message.startswith("Upstream returned 200 OK: the answer is not ")


@pytest.mark.parametrize("body", [b"", b"[]", b"null", b"no", b'{"keys":' * 100_000])
def test_keys_of_tokens_that_make_no_sense(body):
    assert ask(Reply(200, b'{"keys": []}'), lambda c: c.jwks()) == {"keys": []}
    error = refusal(200, body, lambda c: c.jwks())
    assert error.message == "Upstream returned 200 OK: the answer is not a JSON object"


@pytest.mark.parametrize(
    "change",
    [
        {"operator": None},
        {"operator": {"identifier": 3, "seal_key": 64 * "0"}},
        {"operator": {"identifier": 2}},
        {"operator": {"identifier": 2, "seal_key": 62 * "0"}},
        {"operator": {"identifier": 2, "seal_key": "zz"}},
        {"operator": {"identifier": 2, "seal_key": 3}},
    ],
)
def test_seal_keys_that_are_none(change):
    said = {
        "operator": {"identifier": 2, "seal_key": 64 * "1"},
        "institution": {"identifier": 3, "seal_key": 64 * "2"},
    }
    found = ask(Reply(200, json.dumps(said).encode()), lambda c: c.nodes())
    assert found == {OPERATOR: b"\x11" * 32, INSTITUTION: b'"' * 32}
    assert type(refusal(200, said | change, lambda c: c.nodes())) is Upstream


def test_a_store_that_the_mpc_nodes_refuse():
    halves = {OPERATOR: b"", INSTITUTION: b""}
    error = refusal(
        400, {"error": "Invalid secret_store"}, lambda c: c.open("t", KEY_ID, KEY_ID, halves)
    )
    assert type(error) is BadRequest
    assert error.message == "Invalid secret_store"


def test_what_may_be_sent_twice_is_when_the_connection_breaks():
    async def run() -> None:
        halves = {OPERATOR: b"a", INSTITUTION: b"b"}
        opened = Reply(200, wire.VaultOpened(halves).to_bytes())
        transport = Canned(ConnectionLost(), opened)
        client = GatewayClient(transport)
        assert await client.open("t", KEY_ID, KEY_ID, halves) == halves
        assert transport.asked[0] == transport.asked[1]
        assert client.requests == {"POST /mpc/v1/open": 2}

        transport.replies = [ConnectionLost(), ConnectionLost()]
        with pytest.raises(Unreachable):
            await client.suspend("t", KEY_ID, 2)
        for call in (
            lambda: client.generate("t", KEY_ID, "ed25519", ()),
            lambda: client.activate("t", KEY_ID, KEY_ID, 10.0),
            lambda: sign(client),
        ):
            transport.replies = [ConnectionLost()]
            with pytest.raises(Unreachable):
                await call()
        assert transport.replies == []

    asyncio.run(run())


def test_seal_keys_are_asked_for_once():
    async def run() -> None:
        async with House() as house:
            known = await house.client.nodes()
            assert await house.client.nodes() == known
            assert set(known) == set(MPC_NODES)
            await house.client.nodes(fresh=True)
            assert house.client.requests == {"GET /mpc/v1/nodes": 2}

    asyncio.run(run())


def test_a_key_id_is_quoted():
    async def run() -> None:
        transport = Canned(Reply(404, b'{"error": "no such key"}'))
        client = GatewayClient(transport)
        with pytest.raises(NotFound):
            await client.key_token("t", "a&b=c/?#")
        assert transport.asked[0][1] == "/wallet/v1/token?id=a%26b%3Dc%2F%3F%23"
        assert list(client.requests) == ["GET /wallet/v1/token"]

    asyncio.run(run())


def test_reprs_show_no_bodies():
    assert "secret" not in repr(Reply(200, b"secret"))
    assert Reply(799, b"").reason == "Unknown"


# ---------------------------------------------------------------------- the real gateway


@asynccontextmanager
async def serving(gateway: OpenGateway) -> AsyncIterator[str]:
    """The gateway on a port of the system's choice; its address."""
    listening = socket.create_server((LOOPBACK, 0))
    # asyncio sees to it only where a socket names its protocol, which this one does not.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    config = uvicorn.Config(gateway.app, ws="none", log_config=None, access_log=False)
    server = uvicorn.Server(config)
    task = asyncio.create_task(server._serve([listening]))
    try:
        yield f"http://{LOOPBACK}:{listening.getsockname()[1]}"
    finally:
        server.should_exit = True
        await task
        listening.close()


@pytest.mark.parametrize("place", ["in process", "over a socket"])
def test_a_whole_life_of_a_key(place):
    async def live(house: House, transport: Transport) -> None:
        house.client = GatewayClient(transport)
        house.wallet = Wallet(house.client, cost=CHEAP)
        with pytest.raises(NotFound):
            await house.recover("ed25519")
        for curve in ("secp256k1", "ed25519"):
            record = await house.generate(curve)
            await house.sign(record)
            recovered = await house.recover(curve)
            assert recovered.public_key == record.public_key
            await house.sign(recovered, signer="institution")
            with pytest.raises(NotFound):
                await house.sign(record)
        found = await house.wallet.wallet_info(house.caller())
        assert len(found.wallets) == 2
        with pytest.raises(Unauthorized) as caught:
            await house.client.user(house.gateway.token("alice", 0.001)[:-4])
        assert caught.value.message == (
            'Authentication failed: {"code":756,"message":"JWT_INVALID"}'
        )
        await house.wallet.close()
        await house.client.close()

    async def run() -> None:
        house = House()
        if place == "in process":
            await live(house, AsgiTransport(house.gateway.app))
        else:
            async with serving(house.gateway) as address:
                await live(house, HttpTransport(address + "/"))
        house.gateway.close()

    asyncio.run(run())


# ---------------------------------------------------------------------- sockets


Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Server:
    """Speaks HTTP by hand, with one function for every connection."""

    def __init__(self, talk: Talk) -> None:
        self.talk = talk
        self.connections = 0
        self.requests: list[bytes] = []

    async def head(self, reader: asyncio.StreamReader) -> bytes:
        """The next request's head; its body is read, too."""
        head = await reader.readuntil(b"\r\n\r\n")
        for line in head.lower().split(b"\r\n"):
            if line.startswith(b"content-length:"):
                await reader.readexactly(int(line.split(b":")[1]))
        self.requests.append(head)
        return head

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            await self.talk(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


def answer(
    writer: asyncio.StreamWriter, body: bytes, *headers: str, status: str = "200 OK"
) -> None:
    lines = [f"HTTP/1.1 {status}", f"content-length: {len(body)}", *headers]
    writer.write("\r\n".join([*lines, "", ""]).encode() + body)


def against(
    talk: Callable[[Server], Talk],
    test: Callable[[HttpTransport, Server], Awaitable[None]],
    limits: Limits | None = None,
    host: str = LOOPBACK,
) -> None:
    """Run a test against a hand-made server."""

    async def run() -> None:
        server = Server(lambda reader, writer: asyncio.sleep(0))
        server.talk = talk(server)
        listening = await asyncio.start_server(server, LOOPBACK, 0)
        port = listening.sockets[0].getsockname()[1]
        transport = HttpTransport(f"http://{host}:{port}", limits or Limits(total_s=10))
        try:
            await test(transport, server)
        finally:
            await transport.close()
            listening.close()
            await asyncio.sleep(0)

    asyncio.run(run())


def saying(body: bytes, *headers: str, status: str = "200 OK") -> Callable[[Server], Talk]:
    """A server that answers every request the same."""

    def make(server: Server) -> Talk:
        async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while True:
                await server.head(reader)
                answer(writer, body, *headers, status=status)

        return talk

    return make


def raw(data: bytes) -> Callable[[Server], Talk]:
    """A server that answers the first request with these bytes and hangs up."""

    def make(server: Server) -> Talk:
        async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await server.head(reader)
            writer.write(data)
            await writer.drain()

        return talk

    return make


def test_connections_are_kept():
    async def test(transport: HttpTransport, server: Server) -> None:
        for _ in range(5):
            reply = await transport.request("POST", "/x?y=%2F", token="abc", body=b"12")
            assert reply == Reply(200, b"hello")
        await transport.request("GET", "/y", token=None)
        assert server.connections == 1
        head = server.requests[0].decode().lower()
        assert head.startswith("post /x?y=%2f http/1.1\r\n")
        for line in (
            "authorization: bearer abc",
            "content-type: application/octet-stream",
            "content-length: 2",
            "accept-encoding: identity",
        ):
            assert f"\r\n{line}\r\n" in head
        assert "authorization" not in server.requests[-1].decode().lower()

    against(saying(b"hello"), test)


def test_nothing_is_remembered_and_nothing_followed(monkeypatch):
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "HTTPS_PROXY"):
        monkeypatch.setenv(name, f"http://{LOOPBACK}:1")

    async def test(transport: HttpTransport, server: Server) -> None:
        for _ in range(2):
            reply = await transport.request("GET", "/x", token="abc")
            assert (reply.status, reply.reason) == (302, "Found")
        assert len(server.requests) == 2
        assert all(b"cookie" not in head.lower() for head in server.requests)

    answer = saying(b"", "set-cookie: a=b", "location: /elsewhere", status="302 Moved")
    against(answer, test, host="localhost")  # cookies are never kept for a number


def test_compressed_answers_are_left_alone():
    packed = gzip.compress(bytes(10_000_000))

    async def test(transport: HttpTransport, server: Server) -> None:
        assert (await transport.request("GET", "/", token=None)).body == packed

    against(saying(packed, "content-encoding: gzip"), test)


@pytest.mark.parametrize("chunked", [False, True])
def test_answers_that_are_too_long(chunked):
    long = b"x" * 2001
    packed = b"%x\r\n%b\r\n0\r\n\r\n" % (len(long), long)
    head = b"HTTP/1.1 200 OK\r\n"
    head += b"transfer-encoding: chunked" if chunked else b"content-length: 2001"

    async def test(transport: HttpTransport, server: Server) -> None:
        with pytest.raises(TooLarge) as caught:
            await transport.request("GET", "/", token=None)
        assert caught.value.status == 502
        with pytest.raises(TooLarge):
            await transport.request("GET", "/", token=None)
        assert server.connections == 2  # the rest of the first answer is nobody's

    against(raw(head + b"\r\n\r\n" + (packed if chunked else long)), test, Limits(reply_bytes=2000))
    against(
        raw(head + b"\r\n\r\n" + (packed if chunked else long)),
        lambda transport, server: transport.request("GET", "/", token=None),  # type: ignore[arg-type, return-value]
        Limits(reply_bytes=2001),
    )


def test_a_gateway_that_is_not_there():
    async def run() -> None:
        with socket.create_server((LOOPBACK, 0)) as taken:
            port = taken.getsockname()[1]
        transport = HttpTransport(f"http://{LOOPBACK}:{port}")
        with pytest.raises(Unreachable) as caught:
            await transport.request("GET", "/", token="abc")
        assert type(caught.value) is Unreachable
        assert caught.value.status == 502
        assert caught.value.__cause__ is None
        await transport.close()

    asyncio.run(run())


def test_a_gateway_that_does_not_answer():
    def silent(server: Server) -> Talk:
        async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await server.head(reader)
            await reader.read()

        return talk

    async def test(transport: HttpTransport, server: Server) -> None:
        with pytest.raises(UpstreamTimeout) as caught:
            await transport.request("GET", "/", token=None)
        assert caught.value.status == 504

    against(silent, test, Limits(total_s=0.2))


@pytest.mark.parametrize(
    "data",
    [b"", b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nabc", b"HTTP/1.1 200 OK\r\ncontent"],
)
def test_a_connection_that_breaks(data):
    async def test(transport: HttpTransport, server: Server) -> None:
        with pytest.raises(ConnectionLost):
            await transport.request("POST", "/", token=None, body=b"")
        assert len(server.requests) == 1

    against(raw(data), test)


def test_something_that_is_no_gateway():
    async def test(transport: HttpTransport, server: Server) -> None:
        with pytest.raises(Unreachable):
            await transport.request("POST", "/", token=None, body=b"")

    against(raw(b"SSH-2.0-OpenSSH_9.6\r\n"), test)


def test_a_kept_connection_that_has_ended_is_replaced():
    def short(server: Server) -> Talk:
        async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await server.head(reader)
            answer(writer, b"")
            await writer.drain()

        return talk

    async def test(transport: HttpTransport, server: Server) -> None:
        for _ in range(3):
            assert (await transport.request("POST", "/", token=None, body=b"")).status == 200
            await asyncio.sleep(0.02)
        assert server.connections == 3

    against(short, test)


@pytest.mark.parametrize(
    "address",
    [
        "",
        "gateway",
        "ftp://gateway",
        "http://",
        "http://user:password@gateway",
        "http://gateway?x=y",
        "http://gateway#x",
        "http://gateway:x",
        "http://gateway:70000",
    ],
)
def test_addresses_that_are_none(address):
    with pytest.raises(ValueError):
        HttpTransport(address)


# ---------------------------------------------------------------------- in process


def app(answer: Callable[[], Awaitable[bytes]]) -> Any:
    async def asgi(scope: Any, receive: Any, send: Any) -> None:
        body = await answer()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": body})

    return asgi


def test_the_gateway_in_process_goes_on_without_the_caller():
    async def run() -> None:
        done: list[bool] = []

        async def slow() -> bytes:
            await asyncio.sleep(0.1)
            done.append(True)
            return b""

        transport = AsgiTransport(app(slow))
        task = asyncio.create_task(transport.request("GET", "/", token=None))
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not done
        await transport.close()
        assert done

        transport = AsgiTransport(app(slow), Limits(total_s=0.01))
        with pytest.raises(UpstreamTimeout):
            await transport.request("GET", "/", token=None)
        await transport.close()

    asyncio.run(run())


def test_limits_in_process():
    async def run() -> None:
        async def long() -> bytes:
            return b"x" * 11

        async def broken() -> bytes:
            raise ZeroDivisionError

        transport = AsgiTransport(app(long), Limits(reply_bytes=10))
        with pytest.raises(TooLarge):
            await transport.request("GET", "/", token=None)
        transport = AsgiTransport(app(broken))
        assert (await transport.request("GET", "/", token=None)).status == 500

    asyncio.run(run())


def test_a_gateway_in_a_folder_keeps_its_seal_keys(tmp_path):
    async def keys() -> Any:
        gateway = open_gateway(tmp_path)
        client = GatewayClient(AsgiTransport(gateway.app))
        found = await client.nodes()
        await client.close()
        gateway.close()
        return found

    assert asyncio.run(keys()) == asyncio.run(keys())
