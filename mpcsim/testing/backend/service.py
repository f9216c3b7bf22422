"""Clients of the service under test: any httpx client, several requests at a time if need be."""

from __future__ import annotations

import asyncio
import json
import re
import threading
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, TypeVar

import httpx

T = TypeVar("T")

WAITING_S: Final = 120.0
"""Time after which a request counts as never answered."""


@dataclass(frozen=True)
class Request:
    """HTTP request to the service."""

    method: str
    path: str
    body: Any = field(default=None, repr=False)
    """Body, sent as JSON; None: no body."""
    token: str | None = field(default=None, repr=False)
    """Bearer token; None: no Authorization header."""

    def headers(self) -> dict[str, str]:
        return {} if self.token is None else {"Authorization": f"Bearer {self.token}"}


_SECRET_MEMBER: Final = re.compile(
    r'"(encrypted_share|secret_store|password|token)"\s*:\s*"(?:[^"\\]|\\.)*"?'
)


@dataclass(frozen=True, repr=False)
class Answer:
    """Answer to a request: a response, or the reason why there is none."""

    status: int
    """HTTP status; 0: there was no response."""
    text: str
    headers: Mapping[str, str] = field(default_factory=dict)
    masked: Callable[[str], str] = field(default=str, compare=False)
    """Function that masks the secrets known to the caller in a text; for ``str``."""

    @property
    def document(self) -> Any:
        """Body as JSON; None if it is none."""
        try:
            return json.loads(self.text)
        except ValueError:
            return None

    @property
    def error(self) -> str:
        """Text of a specified error; empty if it is none."""
        document = self.document
        found = document.get("error") if isinstance(document, dict) else None
        return found if isinstance(found, str) else ""

    def __str__(self) -> str:
        if not self.status:
            return f"no answer ({self.text})"
        text = _SECRET_MEMBER.sub(r'"\1":"..."', self.masked(self.text))
        return f"{self.status} {_short(text)}"

    def __repr__(self) -> str:
        return f"<Answer {self}>"


def _short(text: str, most: int = 300) -> str:
    return text if len(text) <= most else f"{text[:most]}... ({len(text)} characters)"


class Service(Protocol):
    """Interface of a service that answers requests."""

    def ask(self, requests: Sequence[Request]) -> list[Answer]:
        """Send all requests at the same time; return the answers in the same order."""
        ...

    def close(self) -> None: ...


class Runner(Protocol):
    """Interface of a runner of coroutines for synchronous code."""

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine to its end and return its result."""
        ...

    def close(self) -> None: ...


class ThreadedLoop:
    """Event loop in a thread of its own, which works where one is already running, too."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine to its end and return its result."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def close(self) -> None:
        self.run(self._loop.shutdown_default_executor())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class AsyncService:
    """Service behind an ``httpx.AsyncClient``: over sockets, or an ASGI application."""

    def __init__(self, client: httpx.AsyncClient, loop: Runner | None = None) -> None:
        """
        Args:
            loop: event loop of the client; by default a new one. It is closed with the service.
        """
        self.client = client
        self.loop = loop or ThreadedLoop()

    def ask(self, requests: Sequence[Request]) -> list[Answer]:
        """Send all requests at the same time; return the answers in the same order."""
        return self.loop.run(self._ask(requests))

    async def _ask(self, requests: Sequence[Request]) -> list[Answer]:
        return await asyncio.gather(*(self._send(request) for request in requests))

    async def _send(self, request: Request) -> Answer:
        sending = self.client.request(
            request.method,
            request.path,
            headers=request.headers(),
            **({} if request.body is None else {"json": request.body}),
        )
        try:
            return _answer(await asyncio.wait_for(sending, WAITING_S))
        except (httpx.HTTPError, TimeoutError) as error:
            return _no_answer(error)

    def close(self) -> None:
        """Close the client and its loop."""
        self.loop.run(self.client.aclose())
        self.loop.close()


class BlockingService:
    """Service behind an ``httpx.Client``, e.g. Starlette's test client; one thread a request."""

    def __init__(self, client: httpx.Client) -> None:
        self.client = client
        self._threads = ThreadPoolExecutor(8, thread_name_prefix="request")

    def ask(self, requests: Sequence[Request]) -> list[Answer]:
        """Send all requests at the same time; return the answers in the same order."""
        if len(requests) == 1:
            return [self._send(requests[0])]
        return list(self._threads.map(self._send, requests))

    def _send(self, request: Request) -> Answer:
        try:
            return _answer(
                self.client.request(
                    request.method,
                    request.path,
                    headers=request.headers(),
                    **({} if request.body is None else {"json": request.body}),
                )
            )
        except httpx.HTTPError as error:
            return _no_answer(error)

    def close(self) -> None:
        """Close the client."""
        self._threads.shutdown()
        self.client.close()


class AsgiService(AsyncService):
    """Service that is an ASGI application in this process, with its lifespan, without sockets."""

    def __init__(self, app: Any, loop: Runner | None = None, *, lifespan: bool = True) -> None:
        """
        Args:
            loop: event loop of the application; by default a new one. It is closed with the
                service.
            lifespan: whether to start the application up, and to shut it down at the end (of those
                made with Starlette or FastAPI).
        """
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        super().__init__(httpx.AsyncClient(transport=transport, base_url="http://service"), loop)
        context: Callable[[Any], AbstractAsyncContextManager[Any]] | None
        context = getattr(getattr(app, "router", None), "lifespan_context", None)
        self._lifespan = context(app) if context and lifespan else None
        if self._lifespan is not None:
            try:
                self.loop.run(_await(self._lifespan.__aenter__()))
            except BaseException:
                super().close()
                raise

    def close(self) -> None:
        """Shut the application down."""
        if self._lifespan is not None:
            self.loop.run(_await(self._lifespan.__aexit__(None, None, None)))
        super().close()


def service_of(where: str | httpx.Client | httpx.AsyncClient | Service) -> Service:
    """Return a service from a base address, or from a client that has one."""
    if isinstance(where, str):
        where = httpx.AsyncClient(base_url=where, trust_env=False, timeout=WAITING_S)
    if isinstance(where, httpx.AsyncClient):
        return AsyncService(where)
    if isinstance(where, httpx.Client):
        return BlockingService(where)
    return where


async def _await(work: Awaitable[T]) -> T:
    return await work


def _answer(response: httpx.Response) -> Answer:
    return Answer(response.status_code, response.text, dict(response.headers))


def _no_answer(error: Exception) -> Answer:
    return Answer(0, f"{type(error).__name__}: {error}".rstrip(": "))
