"""Any stream of requests means the same however it is cut, and what h11 takes it for."""

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise

import h11
import pytest
import uvicorn
from hypothesis import given
from hypothesis import strategies as st
from uvicorn.server import ServerState

from mpcsim.service.operations.serving import ErrorBoundary
from mpcsim.service.process.http_limits import ConnectionLimits, Connections
from mpcsim.service.process.http_parser import MOST_LINES, BoundedParser
from tests.helpers.tiers import examples

LIMITS = ConnectionLimits(header_bytes=1024)
BODY = b'{"a": 1}'


Request = tuple[str, bytes, list[tuple[bytes, bytes]], bytes]
"""Method, path, header fields, body."""


@dataclass
class Heard:
    """Requests that the application got, what the client got, and how it ended."""

    requests: list[Request] = field(default_factory=list)
    statuses: list[int] = field(default_factory=list)
    is_closed: bool = False


class Wire(asyncio.Transport):
    """A transport without a network: keeps what is written, and whether it is closed."""

    def __init__(self):
        super().__init__({"peername": ("127.0.0.1", 1), "sockname": ("127.0.0.1", 2)})
        self.written = bytearray()
        self.is_over = False

    def write(self, data):
        if not self.is_over:
            self.written += data

    def is_closing(self):
        return self.is_over

    def close(self):
        self.is_over = True

    abort = close

    def write_eof(self):
        """Nothing more is sent, which a test sees in ``written``."""

    def pause_reading(self):
        pass

    resume_reading = pause_reading


def answer_to(method):
    """Return the status that the application answers; no server here is a tunnel."""
    return 405 if method == "CONNECT" else 200


def served(segments):
    """Return what a server makes of a stream that comes in these segments."""
    heard = Heard()

    async def app(scope, receive, send):
        body = bytearray()
        while (message := await receive())["type"] == "http.request":
            body += message["body"]
            if not message["more_body"]:
                method = scope["method"]
                heard.requests.append((method, scope["raw_path"], scope["headers"], bytes(body)))
                head, status = [(b"content-length", b"2")], answer_to(method)
                await send({"type": "http.response.start", "status": status, "headers": head})
                await send({"type": "http.response.body", "body": b"ok"})
                return

    async def run():
        config = uvicorn.Config(app, http=Connections(LIMITS), log_config=None, ws="none")
        config.load()
        connection = config.http_protocol_class(config, ServerState(), {})
        wire = Wire()
        connection.connection_made(wire)
        for segment in segments:
            connection.data_received(segment)
            for _ in range(20):  # the application's turn
                await asyncio.sleep(0)
        heard.is_closed = wire.is_over or connection.state.name == "REFUSED"
        heard.statuses = statuses(bytes(wire.written), [name for name, *_ in heard.requests])
        connection.connection_lost(None)

    asyncio.run(run())
    return heard


def statuses(written, methods):
    """Return the statuses of the answers in what a server wrote; 100 is none."""
    found = []
    rest = written
    for method in [*methods, "GET"]:
        if not rest:
            break
        client = h11.Connection(h11.CLIENT)
        client.send(h11.Request(method=method, target="/", headers=[("host", "x")]))
        client.send(h11.EndOfMessage())
        client.receive_data(rest)
        while True:
            event = client.next_event()
            if isinstance(event, h11.Response):
                found.append(event.status_code)
            if isinstance(event, h11.EndOfMessage | h11.ConnectionClosed):
                break
            if event in (h11.NEED_DATA, h11.PAUSED):
                break
        rest = client.trailing_data[0] if isinstance(event, h11.EndOfMessage) else b""
    return found


def understood(stream):
    """Return what h11 makes of a stream, with the same application."""
    heard = Heard()
    server = h11.Connection(h11.SERVER, LIMITS.header_bytes)
    server.receive_data(stream)
    while True:
        try:
            event = server.next_event()
        except h11.RemoteProtocolError:
            heard.is_closed = True
            return heard
        match event:
            case h11.Request():
                path = event.target.removeprefix(b"http://here").partition(b"?")[0]
                request, body = event, bytearray()
                names = dict(event.headers).keys()
                is_old = event.http_version == b"1.0"
                if b"transfer-encoding" in names and (is_old or b"content-length" in names):
                    heard.is_closed = True  # RFC 9112, 6.1: a server may refuse; ours does
                    return heard
                if b" " in dict(event.headers).get(b"host", b""):  # a folded one
                    heard.is_closed = True  # RFC 9112, 3.2: no host's name
                    return heard
            case h11.Data():
                body += event.data
            case h11.EndOfMessage():
                headers = [(name.lower(), value) for name, value in request.headers]
                heard.requests.append((request.method.decode(), path, headers, bytes(body)))
                status = answer_to(request.method.decode())
                heard.statuses.append(status)
                server.send(h11.Response(status_code=status, headers=[("content-length", "2")]))
                server.send(h11.Data(data=b"" if request.method == b"HEAD" else b"ok"))
                server.send(h11.EndOfMessage())
                if server.our_state is h11.MUST_CLOSE:
                    heard.is_closed = True
                    return heard
                server.start_next_cycle()
            case _:
                return heard


# ---------------------------------------------------------------------- streams


FIELDS = st.sampled_from(
    [
        *(b"Host: here", b"Host: there", b"Expect: 100-continue", b"Trailer: Authorization"),
        b"Connection: Upgrade\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk",
        b"Connection: Upgrade\r\nUpgrade: websocket",
        *(b"Connection: close", b"Connection: keep-alive", b"Content-Length : 8"),
        *(b"Content-Length: %b" % length for length in (b"8", b"0", b"8, 8", b"+8")),
        *(b"Transfer-Encoding: %b" % c for c in (b"chunked", b"gzip, chunked", b"identity")),
        *(b"X-Long: " + b"x" * 700, b"X: a\r\n folded", b"X:\tvalue \t", b" X: leading"),
        *(b"X\xff: y", b"X: \xff", b"X: a\0b", b"X: a\rb"),
    ]
)
BODIES = st.sampled_from(
    [
        b"",
        BODY,
        b"8\r\n" + BODY + b"\r\n0\r\n\r\n",
        b"4\r\n" + BODY[:4] + b"\r\n4\r\n" + BODY[4:] + b"\r\n0\r\n\r\n",
        b"8;name=value\r\n" + BODY + b"\r\n0\r\nAuthorization: Bearer x\r\nX: y\r\n\r\n",
        b"8;" + b"x" * 900 + b"\r\n" + BODY + b"\r\n0\r\n\r\n",
        b"8;" + b"x" * 1100 + b"\r\n" + BODY + b"\r\n0\r\n\r\n",
        b"8\r\n" + BODY + b"\r\n0\r\nX: " + b"y" * 1100 + b"\r\n\r\n",
        *(size + b"\r\n" + BODY + b"\r\n0\r\n\r\n" for size in (b"08", b"0x8", b"8 ")),
        b"8\n" + BODY + b"\n0\n\n",
        b"8\r\n" + BODY + b"X\r\n0\r\n\r\n",
        b"200\r\n" + b"z" * 512 + b"\r\n0\r\n\r\n",
    ]
)
LINES = st.builds(
    lambda method, target, version: b"%b %b %b" % (method, target, version),
    st.sampled_from([b"GET", b"POST", b"HEAD", b"PUT", b"CONNECT", b"get", b"G@T", b"PRI"]),
    st.sampled_from([b"/", b"/v3?x=1", b"*", b"http://here/", b"/a b", b"/\xff", b"here:443"]),
    st.sampled_from([b"HTTP/1.1", b"HTTP/1.1", b"HTTP/1.0", b"HTTP/1.1 ", b"http/1.1", b"HTTP/11"]),
)
ENDS = st.sampled_from([b"\r\n"] * 4 + [b"\n"])


@st.composite
def requests(draw):
    """A request, valid or nearly so."""
    if draw(st.integers(0, 3)):
        line = draw(st.sampled_from([b"GET / HTTP/1.1", b"POST /v3?x=1 HTTP/1.1"]))
    else:
        line = draw(LINES)
    fields = draw(st.lists(FIELDS, max_size=4))
    if draw(st.integers(0, 4)):
        fields = [b"Host: here", *(each for each in fields if not each.startswith(b"Host"))]
    end = draw(ENDS)
    return end.join([line, *fields, b"", b""]) + draw(BODIES)


STREAMS = st.lists(
    requests() | st.sampled_from([b"\r\n", b"\0", b"x"]), min_size=1, max_size=4
).map(b"".join)


def cut(stream, places):
    """Return a stream in segments."""
    at = sorted({place % (len(stream) + 1) for place in places} | {0, len(stream)})
    return [stream[a:b] for a, b in pairwise(at) if a < b]


@examples(120)
@given(STREAMS, st.lists(st.integers(0, 1 << 16), max_size=6))
def test_the_same_in_any_segments_and_as_h11_takes_it(stream, places):
    whole = served([stream])
    assert served(cut(stream, places)) == whole
    expected = understood(stream)
    answered = len(whole.requests)
    assert whole.statuses[:answered] == expected.statuses[:answered]
    assert whole.requests == expected.requests[: len(whole.requests)]
    # Our limit on what comes in one piece, and the versions, are stricter than h11's.
    stricter = whole.statuses[-1:] in ([431], [505])
    assert len(whole.requests) == len(expected.requests) or stricter
    assert whole.is_closed == expected.is_closed or stricter


@examples(20)
@given(STREAMS)
def test_the_same_byte_by_byte(stream):
    assert served(cut(stream, range(len(stream)))) == served([stream])


HEAD = b"POST / HTTP/1.1\r\nHost: here\r\n"
LENGTH = b"Content-Length: 8\r\n\r\n"
NEXT = b"GET /next HTTP/1.1\r\nHost: here\r\n\r\n"
NOWHERE = (b"http:///next", b"http://:80/next", b"https://a@here/next", b"HTTP://[/next")


@pytest.mark.parametrize("upgrade", [b"h2c", b"websocket", b"TLS/1.0"])
def test_an_upgrade_is_ignored(upgrade):
    """RFC 9110, 7.8: the body is still the request's, and what follows it the next request."""
    upgraded = HEAD + b"Connection: Upgrade\r\nUpgrade: " + upgrade + b"\r\n" + LENGTH
    for segments in ([upgraded, BODY + NEXT], [upgraded + BODY + NEXT], [upgraded + BODY, NEXT]):
        heard = served(segments)
        found = [(name, path, body) for name, path, _, body in heard.requests]
        assert found == [("POST", b"/", BODY), ("GET", b"/next", b"")]
        assert heard.statuses == [200, 200]


def test_as_many_lines_as_there_may_be():
    assert served([HEAD + b"X:\n" * (MOST_LINES - 2) + b"\n"]).statuses == [200]


def test_trailer_fields_are_no_header_fields():
    """RFC 9110, 6.5.1."""
    chunked = HEAD + b"Transfer-Encoding: chunked\r\n\r\n8\r\n" + BODY + b"\r\n0\r\n"
    [(_, _, headers, body)] = served([chunked + b"Authorization: Bearer x\r\n\r\n"]).requests
    assert body == BODY
    assert b"authorization" not in dict(headers)


REFUSED = [
    (b"GET / HTTP/2.0\r\nHost: here\r\n\r\n", 505),
    (HEAD.replace(b"1.1", b"1.0") + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
    (HEAD + b"Content-Length: 8\r\nContent-Length: 9\r\n\r\n" + BODY, 400),
    (HEAD + b"X: " + b"x" * LIMITS.header_bytes + b"\r\n\r\n", 431),
    (HEAD + b"X:\n" * (MOST_LINES - 1) + b"\n", 431),  # each costs as much as many bytes
    (HEAD + b"X:\n" + b" \n" * MOST_LINES + b"\n", 431),
    (HEAD + b"Transfer-Encoding: chunked\r\n\r\n0\r\n" + b"X:\n" * 101 + b"\n", 431),
    *((b"GET %b HTTP/1.1\r\nHost: here\r\n\r\n" % target, 400) for target in NOWHERE),
]


@pytest.mark.parametrize(("stream", "status"), REFUSED)
def test_refused_in_any_segments(stream, status):
    for segments in ([stream], cut(stream, range(len(stream))), [stream[:60], stream[60:]]):
        heard = served(segments)
        assert (heard.requests, heard.statuses, heard.is_closed) == ([], [status], True)


CODED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    "line",
    [
        HEAD + b"X:%b\r\n\r\n",
        HEAD + b"X:\r\n%b\r\n\r\n",
        CODED + b"1;%b\r\n",
        CODED + b"0\r\nX:%b\n\n",
    ],
    ids=["field", "folded", "chunk size", "trailer"],
)
def test_no_pattern_of_h11s_refuses_a_byte_behind_spaces(monkeypatch, line):
    """It would take time in the square of their number, and before that is limited."""
    failed, validate = [], h11._readers.validate

    def watched(pattern, data, *text):
        try:
            return validate(pattern, data, *text)
        except h11.LocalProtocolError:
            failed.append(bytes(data))
            raise

    monkeypatch.setattr(h11._readers, "validate", watched)
    for byte in range(256):
        parser = BoundedParser(LIMITS.header_bytes)
        parser.receive_data(line % (b"  %c" % byte))
        with suppress(h11.RemoteProtocolError):
            while parser.next_event() not in (h11.NEED_DATA, h11.PAUSED):
                pass
    assert failed == []


@pytest.mark.parametrize("end", [b"/next", b"/next?x=http://there/", b"", b"?x=1"])
def test_a_target_in_absolute_form_is_its_path(end):
    """RFC 9112, 3.2.2: whatever host it names, and whatever ``Host`` says."""
    for origin in (b"http://here", b"HTTPS://there:443"):
        [(_, path, _, _)] = served(
            [b"GET %b%b HTTP/1.1\r\nHost: x\r\n\r\n" % (origin, end)]
        ).requests
        assert path == (end.partition(b"?")[0] or b"/")


def test_a_long_chunk_behind_its_size_line_is_no_header():
    data = b"x" * 40_000
    chunked = HEAD + b"Transfer-Encoding: chunked\r\n\r\n%x\r\n" % len(data)
    [(_, _, _, body)] = served([chunked, data + b"\r\n0\r\n\r\n"]).requests
    assert body == data


def test_a_header_in_the_segment_of_the_request_before_it_is_counted():
    head = b"GET /next HTTP/1.1\r\nHost: here\r\nX: "
    long = head + b"x" * (LIMITS.header_bytes + 1 - len(head) - 4) + b"\r\n\r\n"
    assert len(long) == LIMITS.header_bytes + 1
    assert served([NEXT + long.replace(b"xx", b"x", 1)]).statuses == [200, 200]
    assert served([NEXT + long]).statuses == [200, 431]
    assert served([NEXT + long[:500], long[500:]]).statuses == [200, 431]


def test_the_server_hears_of_no_bug_in_a_request():
    """It would log what the error says."""

    async def broken(scope, receive, send):
        raise ValueError("/secret/place")

    asyncio.run(ErrorBoundary(broken)({"type": "http"}, None, None))
    with pytest.raises(ValueError, match="place"):
        asyncio.run(ErrorBoundary(broken)({"type": "lifespan"}, None, None))
