"""How bytes get to another service: over sockets that break, stall and say anything; in process."""

import asyncio

import pytest

from mpcsim.service.web import transport as transport_module
from mpcsim.service.web.transport import (
    AsgiTransport,
    ConnectionLost,
    HttpTransport,
    Limits,
    Reply,
    ReplyTooLarge,
)

LOOPBACK = "127.0.0.1"


# ---------------------------------------------------------------------- sockets


class Server:
    """Speaks HTTP by hand, with one function for every connection."""

    def __init__(self, talk):
        self.talk = talk
        self.connections = 0
        self.requests = []
        self.ended = asyncio.Semaphore(0)

    async def head(self, reader):
        """The next request's head; its body is read, too."""
        head = await reader.readuntil(b"\r\n\r\n")
        for line in head.lower().split(b"\r\n"):
            if line.startswith(b"content-length:"):
                await reader.readexactly(int(line.split(b":")[1]))
        self.requests.append(head)
        return head

    async def __call__(self, reader, writer):
        self.connections += 1
        try:
            await self.talk(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()
            self.ended.release()


def answer(writer, body, *headers, status="200 OK"):
    lines = [f"HTTP/1.1 {status}", f"content-length: {len(body)}", *headers]
    writer.write("\r\n".join([*lines, "", ""]).encode() + body)


def against(talk, test, limits=None, host=LOOPBACK):
    """Run a test against a hand-made server."""

    async def run():
        server = Server(lambda reader, writer: asyncio.sleep(0))
        server.talk = talk(server)
        listening = await asyncio.start_server(server, LOOPBACK, 0)
        port = listening.sockets[0].getsockname()[1]
        transport = HttpTransport(f"http://{host}:{port}", limits or Limits(total_s=10))
        try:
            await test(transport, server)
        finally:
            await transport.close()
            assert transport._session is None or transport._session.closed
            listening.close()
            await asyncio.sleep(0)

    asyncio.run(run())


def test_what_was_never_used_is_closed_too():
    asyncio.run(HttpTransport("http://127.0.0.1:1").close())


def saying(body, *headers, status="200 OK"):
    """A server that answers every request the same."""

    def make(server):
        async def talk(reader, writer):
            while True:
                await server.head(reader)
                answer(writer, body, *headers, status=status)

        return talk

    return make


def raw(data):
    """A server that answers the first request with these bytes and hangs up."""

    def make(server):
        async def talk(reader, writer):
            await server.head(reader)
            writer.write(data)
            await writer.drain()

        return talk

    return make


async def nothing():
    """A body without a byte."""
    for piece in ():
        yield piece


def test_connections_are_kept():
    async def test(transport, server):
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


RETRY_AFTER = [
    *(("7", "7"), ("soon", "soon"), (None, None), ("Fri, 99 Nov 2026 10:00:00 GMT",) * 2),
    ("Fri, 27 Nov 99999999999 10:00:00 GMT",) * 2,
    ("Fri, 27 Nov 2026 10:00:30 GMT", "30"),
    ("Friday, 27-Nov-26 10:00:30 GMT", "30"),
    ("Fri Nov 27 10:00:30 2026", "30"),
    ("Fri, 27 Nov 2026 09:00:00 GMT", "0"),
]


@pytest.mark.parametrize(("after", "seconds"), RETRY_AFTER)
def test_when_to_retry_may_be_a_date(after, seconds):
    """By the clock of whoever answers, where it is shown."""
    headers = {} if after is None else {"Retry-After": after}
    made = {"Date": "Fri, 27 Nov 2026 10:00:00 GMT"}
    assert Reply.of(503, b"", headers | made).retry_after == seconds
    assert Reply.of(200, b"", headers | made).retry_after is None
    assert Reply.of(503, b"", {"Retry-After": "Fri, 27 Nov 2020 10:00:00 GMT"}).retry_after == "0"


def test_nothing_is_remembered_and_nothing_followed(monkeypatch):
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "HTTPS_PROXY"):
        monkeypatch.setenv(name, f"http://{LOOPBACK}:1")

    async def test(transport, server):
        for _ in range(2):
            reply = await transport.request("GET", "/x", token="abc")
            assert (reply.status, reply.reason) == (302, "Found")
        assert len(server.requests) == 2
        assert all(b"cookie" not in head.lower() for head in server.requests)

    answer = saying(b"", "set-cookie: a=b", "location: /elsewhere", status="302 Moved")
    against(answer, test, host="localhost")  # cookies are never kept for a number


@pytest.mark.parametrize("chunked", [False, True])
def test_answers_that_are_too_long(chunked):
    long = b"x" * 2001
    packed = b"%x\r\n%b\r\n0\r\n\r\n" % (len(long), long)
    head = b"HTTP/1.1 200 OK\r\n"
    head += b"transfer-encoding: chunked" if chunked else b"content-length: 2001"

    async def test(transport, server):
        with pytest.raises(ReplyTooLarge):
            await transport.request("GET", "/", token=None)
        with pytest.raises(ReplyTooLarge):
            await transport.request("GET", "/", token=None)
        assert server.connections == 2  # the rest of the first answer is nobody's

    async def streamed(transport, server):
        async with transport.stream("POST", "/", token=None, body=nothing(), size=0) as arriving:
            got = b"".join([piece async for piece in arriving.pieces])
        assert got == long

    async def too_long(transport, server):
        with pytest.raises(ReplyTooLarge):
            await streamed(transport, server)

    answer = raw(head + b"\r\n\r\n" + (packed if chunked else long))
    for limited in (test, too_long):
        against(answer, limited, Limits(reply_bytes=2000))
    against(answer, streamed, Limits(reply_bytes=2001))
    against(
        answer,
        lambda transport, server: transport.request("GET", "/", token=None),
        Limits(reply_bytes=2001),
    )


def test_no_more_connections_than_there_may_be(monkeypatch):
    """The server answers two requests once both are there: with one connection it would hang."""
    monkeypatch.setattr(transport_module, "MAX_CONNECTIONS", 2)

    def in_pairs(server):
        both = asyncio.Barrier(2)

        async def talk(reader, writer):
            while True:
                await server.head(reader)
                await both.wait()
                answer(writer, b"")

        return talk

    async def test(transport, server):
        await asyncio.gather(*(transport.request("GET", "/", token=None) for _ in range(6)))
        assert (server.connections, len(server.requests)) == (2, 6)

    against(in_pairs, test)


BROKEN_OFF = [
    b"",
    b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nabc",
    b"HTTP/1.1 200 OK\r\ncontent",
    b"SSH-2.0-OpenSSH_9.6\r\n",
]


@pytest.mark.parametrize("data", BROKEN_OFF)
def test_a_connection_that_breaks(data):
    async def test(transport, server):
        with pytest.raises(ConnectionLost):
            await transport.request("POST", "/", token=None, body=b"")
        assert len(server.requests) == 1

    against(raw(data), test)


def test_a_kept_connection_that_has_ended_is_replaced():
    async def test(transport, server):
        for _ in range(3):
            assert (await transport.request("POST", "/", token=None, body=b"")).status == 200
            await server.ended.acquire()
            for _ in range(10):  # whoever has the other end hears of it
                await asyncio.sleep(0)
        assert server.connections == 3

    against(raw(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"), test)


ANY = "://gateway"


NO_ADDRESSES = [
    *("", "gateway", f"ftp{ANY}", "http://", "http://user:password@gateway"),
    *(f"http{ANY}{more}" for more in ("?x=y", "#x", ":x", ":70000")),
]


@pytest.mark.parametrize("address", NO_ADDRESSES)
def test_addresses_that_are_none(address):
    with pytest.raises(ValueError):
        HttpTransport(address)


# ---------------------------------------------------------------------- in process


def app(answer):
    async def asgi(scope, receive, send):
        body = await answer()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": body})

    return asgi


async def test_the_gateway_in_process_goes_on_without_the_caller():
    done = []
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def slow():
        begun.set()
        await go_on.wait()
        done.append(True)
        return b""

    transport = AsgiTransport(app(slow))
    task = asyncio.create_task(transport.request("GET", "/", token=None))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not done
    go_on.set()
    await transport.close()
    assert done


@pytest.mark.parametrize(("bound", "fits"), [(11, True), (10, False)])
def test_limits_in_process(bound, fits):
    async def long():
        return b"x" * 11

    transport = AsgiTransport(app(long), Limits(reply_bytes=bound))
    asking = transport.request("GET", "/", token=None)
    if fits:
        assert asyncio.run(asking).body == b"x" * 11
    else:
        with pytest.raises(ReplyTooLarge):
            asyncio.run(asking)
