"""Transports of requests to another service: over a socket, or by a call in this process.

A transport carries bytes and knows nothing of what they mean. Any status is a reply; only a reply
that never came is an error.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Any, Final, Protocol, Self
from urllib.parse import unquote, urlsplit

import aiohttp
from starlette.datastructures import Headers
from yarl import URL

from mpcsim.errors import MpcError
from mpcsim.link_transport import Pieces
from mpcsim.service.error_codes import HEADER, RETRY_AFTER
from mpcsim.service.errors import INTERNAL_ERROR
from mpcsim.service.process import request_id
from mpcsim.service.rpc.wire import MAX_BODY_BYTES, MEDIA_TYPE
from mpcsim.service.web import meter, request_ids

KEPT_S: Final = 30.0
"""An idle connection is kept this long; less than a server should keep it."""
MAX_CONNECTIONS: Final = 512


@dataclass(frozen=True)
class Limits:
    """Time and size limits of a request."""

    connect_s: float = 3.0
    """Seconds for a new connection."""
    total_s: float = 30.0
    """Seconds for the whole reply. A key generation over slow links takes several."""
    reply_bytes: int = MAX_BODY_BYTES


DEFAULT_LIMITS: Final = Limits()


@dataclass(frozen=True)
class Reply:
    """Reply of a service."""

    status: int
    body: bytes = field(repr=False)
    code: str | None = None
    """Error's ``X-Error-Code`` header."""
    retry_after: str | None = None
    """Error's ``Retry-After`` header, in seconds also where that is a date."""

    @classmethod
    def of(cls, status: int, body: bytes, headers: Mapping[str, str]) -> Self:
        """Make a reply; of an error, with what its headers say."""
        if status < 300:
            return cls(status, body)
        after = _retry_after_seconds(headers.get(RETRY_AFTER), headers.get("Date"))
        return cls(status, body, headers.get(HEADER), after)

    @property
    def reason(self) -> str:
        """The status's standard phrase; a server may send any other, or none."""
        try:
            return HTTPStatus(self.status).phrase
        except ValueError:
            return "Unknown"


@dataclass(frozen=True)
class StreamedReply:
    """Reply of a service, while it arrives."""

    status: int
    pieces: Pieces = field(repr=False)
    """Raise ``TransportFailed``."""


class TransportFailed(MpcError):
    """No reply came."""


class ConnectFailed(TransportFailed):
    """No connection was made: the request has not arrived."""


class ConnectionLost(TransportFailed):
    """A connection broke before the reply was there; the request may or may not have arrived."""


class ReplyTooLarge(TransportFailed):
    """The reply is longer than anything that may be asked for."""


class ReplyTimeout(TransportFailed):
    """The reply was not complete in time."""


class Transport(Protocol):
    """Carries requests to one service."""

    async def request(
        self,
        method: str,
        path: str,
        *,
        token: str | None,
        body: bytes | None = None,
        headers: Mapping[str, str] = {},
    ) -> Reply:
        """Send one request.

        Args:
            path: with its query, below the service's address.
            token: bearer token.
            headers: further ones.

        Raises:
            TransportFailed: no reply came; its subclasses say why.
        """
        ...

    async def close(self) -> None: ...


class StreamingTransport(Transport, Protocol):
    """Transport that also carries bodies piece by piece."""

    def stream(
        self, method: str, path: str, *, token: str | None, body: Pieces, size: int | None
    ) -> AbstractAsyncContextManager[StreamedReply]:
        """Send one request as its body comes, and take the reply as it comes.

        If the body raises, the request is broken off, and the same is raised here.

        Args:
            size: of the body, if that is known.

        Raises:
            TransportFailed: as for ``request``.
        """
        ...


class HttpTransport:
    """Over sockets, with connections that are kept alive.

    Nothing in the environment redirects it: no proxies, no cookies, no redirects, no .netrc; and
    replies are taken as they are, without decompression. It belongs to the event loop in which it
    is used first.
    """

    def __init__(self, address: str, limits: Limits = DEFAULT_LIMITS) -> None:
        """A transport to the service at a base address; nothing is sent yet.

        Raises:
            ValueError: not an http or https address, or one with credentials, query or fragment.
        """
        parts = urlsplit(address)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("not an http or https address")
        if "@" in parts.netloc or parts.query or parts.fragment:
            raise ValueError("an address with credentials, query or fragment")
        _ = parts.port  # raises ValueError if it is none
        self._base = address.rstrip("/")
        self._limits = limits
        self._session: aiohttp.ClientSession | None = None

    async def request(
        self,
        method: str,
        path: str,
        *,
        token: str | None,
        body: bytes | None = None,
        headers: Mapping[str, str] = {},
    ) -> Reply:
        """Implement ``Transport.request``."""
        try:
            async with self._open_session().request(
                method,
                URL(self._base + path, encoded=True),
                data=body,
                headers={**_headers(token, body), **headers},
                allow_redirects=False,
            ) as response:
                data = await self._read(response)
                reply = Reply.of(response.status, data, response.headers)
                meter.on_reply(self._base + path)
                return reply
        except _FAILURES as error:
            raise _transport_failure(error) from None

    @asynccontextmanager
    async def stream(
        self, method: str, path: str, *, token: str | None, body: Pieces, size: int | None
    ) -> AsyncIterator[StreamedReply]:
        """Implement ``StreamingTransport.stream``."""
        broken: list[Exception] = []

        async def watched() -> AsyncGenerator[bytes, None]:
            try:
                async for piece in body:
                    yield piece
            except Exception as error:
                broken.append(error)
                raise

        headers = _headers(token, b"")
        if size is not None:
            headers["Content-Length"] = str(size)
        try:
            async with self._open_session().request(
                method,
                URL(self._base + path, encoded=True),
                data=watched(),
                headers=headers,
                allow_redirects=False,
            ) as response:
                yield StreamedReply(response.status, self._pieces(response))
        except _FAILURES as error:
            if broken:
                raise broken[0] from None
            raise _transport_failure(error) from None

    async def close(self) -> None:
        """Close all connections."""
        if self._session is not None:
            await self._session.close()

    def _open_session(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = self._make_session()
        return self._session

    def _make_session(self) -> aiohttp.ClientSession:
        limits = self._limits
        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=MAX_CONNECTIONS, keepalive_timeout=KEPT_S),
            timeout=aiohttp.ClientTimeout(total=limits.total_s, sock_connect=limits.connect_s),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            skip_auto_headers=("User-Agent",),
            trust_env=False,
            trace_configs=[_meter_trace_config()] if meter.ON else [],
        )

    async def _read(self, response: aiohttp.ClientResponse) -> bytes:
        most = self._limits.reply_bytes
        body = bytearray()
        async for chunk in response.content.iter_any():
            body += chunk
            if len(body) > most:
                raise ReplyTooLarge
        return bytes(body)

    async def _pieces(self, response: aiohttp.ClientResponse) -> Pieces:
        size = 0
        try:
            async for chunk in response.content.iter_any():
                size += len(chunk)
                if size > self._limits.reply_bytes:
                    raise ReplyTooLarge
                yield chunk
        except _FAILURES as error:
            raise _transport_failure(error) from None


def _meter_trace_config() -> aiohttp.TraceConfig:
    """Tells the meter when a body is sent: headers wait for it."""

    async def sent(*_: object) -> None:
        meter.on_sent()

    config = aiohttp.TraceConfig()
    config.on_request_chunk_sent.append(sent)
    return config


class AsgiTransport:
    """A service in this process: no sockets.

    As over a socket, a caller who goes away does not stop what the service has begun; the service
    can see it, though.
    """

    def __init__(self, app: Any, limits: Limits = DEFAULT_LIMITS) -> None:
        self._app = app
        self._limits = limits
        self._running: set[asyncio.Task[Reply]] = set()

    async def request(
        self,
        method: str,
        path: str,
        *,
        token: str | None,
        body: bytes | None = None,
        headers: Mapping[str, str] = {},
    ) -> Reply:
        """Implement ``Transport.request``."""
        left = asyncio.Event()
        all_headers = {**_headers(token, body), **headers}
        task = asyncio.create_task(self._request(method, path, all_headers, body, left))
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        try:
            async with asyncio.timeout(self._limits.total_s):
                reply = await asyncio.shield(task)
        except TimeoutError:
            raise ReplyTimeout from None
        finally:
            left.set()
        if len(reply.body) > self._limits.reply_bytes:
            raise ReplyTooLarge
        return reply

    @asynccontextmanager
    async def stream(
        self, method: str, path: str, *, token: str | None, body: Pieces, size: int | None
    ) -> AsyncIterator[StreamedReply]:
        """Implement ``StreamingTransport.stream``; here a body arrives once it is whole."""
        data = b"".join([piece async for piece in body])
        reply = await self.request(method, path, token=token, body=data)

        async def whole() -> Pieces:
            yield reply.body

        yield StreamedReply(reply.status, whole())

    async def close(self) -> None:
        """Wait for what is still running."""
        await asyncio.gather(*self._running, return_exceptions=True)

    async def _request(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str],
        body: bytes | None,
        left: asyncio.Event,
    ) -> Reply:
        exchange = _Exchange(body or b"", left)
        place, _, query = path.partition("?")
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": unquote(place),
            "raw_path": place.encode(),
            "query_string": query.encode(),
            "root_path": "",
            "headers": [
                (b"content-length", b"%d" % len(body or b"")),
                *((_IN_ASGI[name], value.encode()) for name, value in headers.items()),
            ],
            "client": None,
            "server": ("service", None),
        }
        try:
            await self._app(scope, exchange.receive, exchange.send)
        except Exception:
            # The application has answered and logged it; if not, a server would answer this.
            if exchange.status is None:
                return Reply(INTERNAL_ERROR, b"")
        if exchange.status is None or not exchange.complete:
            raise ConnectionLost
        return Reply.of(exchange.status, bytes(exchange.body), exchange.headers)


class _Exchange:
    """Request and answer between a server and an ASGI application.

    Does it bring its answer to an end? Over a socket the connection would break; as it does if the
    caller leaves.
    """

    def __init__(self, request: bytes, left: asyncio.Event) -> None:
        self.status: int | None = None
        self.body = bytearray()
        self.complete = False
        self.headers: Mapping[str, str] = {}
        """Headers of an error."""
        self._request: bytes | None = request
        self._left = left

    async def receive(self) -> dict[str, Any]:
        if (body := self._request) is None:
            await self._left.wait()
            return {"type": "http.disconnect"}
        self._request = None
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(self, message: Mapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            if message["status"] >= 300:
                self.headers = Headers(raw=[*message.get("headers", ())])
        else:
            self.body += message.get("body", b"")
            self.complete = not message.get("more_body", False)


def _retry_after_seconds(after: str | None, date: str | None) -> str | None:
    """Return a Retry-After header with a date (RFC 9110, 10.2.3) as seconds, any other as it is.

    Args:
        date: when the answer was made, by the clock of whoever has made it.
    """
    if (until := _read_date(after)) is None:
        return after
    made = _read_date(date)
    return str(max(0, math.ceil(until - (time.time() if made is None else made))))


def _read_date(text: str | None) -> float | None:
    """Return the seconds since 1970 of an HTTP date in any of its forms (RFC 9110, 5.6.7)."""
    try:
        found = parsedate_to_datetime(text or "")
    except (ValueError, OverflowError):
        return None
    return found.replace(tzinfo=found.tzinfo or UTC).timestamp()


_FAILURES: Final = (aiohttp.ClientError, OSError)


def _transport_failure(error: Exception) -> TransportFailed:
    """Return the caller's error for one of aiohttp's; a ``TimeoutError`` is an ``OSError``."""
    if isinstance(error, aiohttp.ConnectionTimeoutError | aiohttp.ClientConnectorError):
        return ConnectFailed()
    return ReplyTimeout() if isinstance(error, TimeoutError) else ConnectionLost()


class _LowerCase(dict[str, bytes]):
    """Names of fields as ASGI has them; each is made once."""

    def __missing__(self, name: str) -> bytes:
        made = self[name] = name.lower().encode()
        return made


_IN_ASGI: Final = _LowerCase()


def _headers(token: str | None, body: bytes | None) -> dict[str, str]:
    headers = {"Accept-Encoding": "identity"}
    if (current := request_ids.current_request_id()) is not None:
        headers[request_id.HEADER] = current
    if token is not None:
        headers["Authorization"] = f"Bearer {token}"
    if body is not None:
        headers["Content-Type"] = MEDIA_TYPE
    return headers
