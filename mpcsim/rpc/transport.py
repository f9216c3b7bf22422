"""How a request reaches another service: over a socket, or by a call in this process.

A transport carries bytes and knows nothing of what they mean. Any status is a reply; only a reply
that never came is an error.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Final, Protocol
from urllib.parse import urlsplit

import aiohttp
import httpx
from yarl import URL

from mpcsim.errors import MpcError
from mpcsim.rpc import request_ids
from mpcsim.rpc.wire import MAX_BODY_BYTES, MEDIA_TYPE

KEPT_S: Final = 30.0
"""An idle connection is kept this long; less than a server should keep it."""
MAX_CONNECTIONS: Final = 512


@dataclass(frozen=True)
class Limits:
    """How long to wait, and how much to read."""

    connect_s: float = 3.0
    """For a new connection."""
    total_s: float = 30.0
    """For the whole reply. A key generation over slow links takes several seconds."""
    reply_bytes: int = MAX_BODY_BYTES


DEFAULT_LIMITS: Final = Limits()


@dataclass(frozen=True)
class Reply:
    """What the service answered."""

    status: int
    body: bytes = field(repr=False)
    retry_after: str | None = None
    """Its ``Retry-After`` header."""

    @property
    def reason(self) -> str:
        """The status's standard phrase; a server may send any other, or none."""
        try:
            return HTTPStatus(self.status).phrase
        except ValueError:
            return "Unknown"


class TransportFailed(MpcError):
    """No reply came."""


class NotReached(TransportFailed):
    """There was no connection: the request has not arrived."""


class ConnectionLost(TransportFailed):
    """A connection broke before the reply was there; the request may or may not have arrived."""


class TooLarge(TransportFailed):
    """The reply is longer than anything that may be asked for."""


class TooLate(TransportFailed):
    """The reply was not complete in time."""


class Transport(Protocol):
    """Carries requests to one service."""

    async def request(
        self, method: str, path: str, *, token: str | None, body: bytes | None = None
    ) -> Reply:
        """Send one request.

        Args:
            path: with its query, below the service's address.
            token: bearer token.

        Raises:
            TransportFailed: no reply came; its subclasses say why.
        """
        ...

    async def close(self) -> None: ...


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
        self, method: str, path: str, *, token: str | None, body: bytes | None = None
    ) -> Reply:
        """See ``Transport``."""
        if self._session is None:
            self._session = self._open()
        try:
            async with self._session.request(
                method,
                URL(self._base + path, encoded=True),
                data=body,
                headers=_headers(token, body),
                allow_redirects=False,
            ) as response:
                after = response.headers.get("Retry-After")
                return Reply(response.status, await self._read(response), after)
        except (aiohttp.ConnectionTimeoutError, aiohttp.ClientConnectorError):
            raise NotReached from None
        except TimeoutError:
            raise TooLate from None
        except (aiohttp.ClientError, OSError):
            raise ConnectionLost from None

    async def close(self) -> None:
        """Close all connections."""
        if self._session is not None:
            await self._session.close()

    def _open(self) -> aiohttp.ClientSession:
        limits = self._limits
        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=MAX_CONNECTIONS, keepalive_timeout=KEPT_S),
            timeout=aiohttp.ClientTimeout(total=limits.total_s, sock_connect=limits.connect_s),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            skip_auto_headers=("User-Agent",),
            trust_env=False,
        )

    async def _read(self, response: aiohttp.ClientResponse) -> bytes:
        most = self._limits.reply_bytes
        body = bytearray()
        async for chunk in response.content.iter_any():
            body += chunk
            if len(body) > most:
                raise TooLarge
        return bytes(body)


class AsgiTransport:
    """A service in this process: no sockets.

    As over a socket, a caller who goes away does not stop what the service has begun.
    """

    def __init__(self, app: Any, limits: Limits = DEFAULT_LIMITS) -> None:
        self._asgi = httpx.ASGITransport(app, raise_app_exceptions=False)
        self._limits = limits
        self._running: set[asyncio.Task[Reply]] = set()

    async def request(
        self, method: str, path: str, *, token: str | None, body: bytes | None = None
    ) -> Reply:
        """See ``Transport``."""
        task = asyncio.create_task(self._request(method, path, token, body))
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        try:
            async with asyncio.timeout(self._limits.total_s):
                reply = await asyncio.shield(task)
        except TimeoutError:
            raise TooLate from None
        if len(reply.body) > self._limits.reply_bytes:
            raise TooLarge
        return reply

    async def close(self) -> None:
        """Wait for what is still running."""
        await asyncio.gather(*self._running, return_exceptions=True)
        await self._asgi.aclose()

    async def _request(
        self, method: str, path: str, token: str | None, body: bytes | None
    ) -> Reply:
        request = httpx.Request(
            method, "http://service" + path, headers=_headers(token, body), content=body
        )
        response = await self._asgi.handle_async_request(request)
        after = response.headers.get("Retry-After")
        return Reply(response.status_code, await response.aread(), after)


def _headers(token: str | None, body: bytes | None) -> dict[str, str]:
    headers = {"Accept-Encoding": "identity"}
    if (request_id := request_ids.current()) is not None:
        headers[request_ids.HEADER] = request_id
    if token is not None:
        headers["Authorization"] = f"Bearer {token}"
    if body is not None:
        headers["Content-Type"] = MEDIA_TYPE
    return headers
