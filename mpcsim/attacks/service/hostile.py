"""Corrupt components: each wraps the honest one, records everything, and by default answers
honestly.

The modules of attacks change their answers.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import httpx
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mpcsim.service.rpc.tokens import TokenError, bearer
from mpcsim.service.rpc.wire import Hello


@dataclass(frozen=True)
class RecordedRequest:
    """Request to a corrupt MPC node, with the reply."""

    verb: str
    credential: Any
    """Grant or token that came with it."""
    body: bytes
    reply: bytes | None = None


class HostileNode:
    """Corrupt MPC node: the honest one inside, with a record of all requests."""

    def __init__(self, honest: Any) -> None:
        self.honest = honest
        self.requests: list[RecordedRequest] = []
        """All requests, in order."""
        self.lies: dict[str, bytes] = {}
        """False replies, by verb."""

    def handle(self, verb: str, credential: Any, body: bytes) -> bytes:
        """Record a request and its reply."""
        self.requests.append(RecordedRequest(verb, credential, body))
        reply = self.answer(verb, credential, body)
        self.requests[-1] = RecordedRequest(verb, credential, body, reply)
        return reply

    def hello(self) -> Hello:
        """Return the node's identity, by default the true one."""
        found: Hello = self.honest.hello()
        return found

    def answer(self, verb: str, credential: Any, body: bytes) -> bytes:
        """Return the reply: a lie for this verb, if there is one, or the honest one."""
        if verb in self.lies:
            return self.lies[verb]
        reply: bytes = self.honest.handle(verb, credential, body)
        return reply

    def __getattr__(self, name: str) -> Any:
        return getattr(self.honest, name)


@dataclass
class Call:
    """HTTP request to the gateway, with its answer."""

    method: str
    path: str
    """Path with query."""
    headers: Mapping[str, str]
    body: bytes
    status: int = 0
    reply: bytes = b""
    app: ASGIApp | None = None
    """Application that answers instead of the honest gateway."""

    @property
    def verb(self) -> str:
        """MPC verb; empty if it is none."""
        path = self.path.partition("?")[0]
        return path.removeprefix("/mpc/v1/") if path.startswith("/mpc/v1/") else ""

    @property
    def token(self) -> str | None:
        """Bearer token, if there is a valid one."""
        try:
            return bearer(self.headers.get("authorization"))
        except TokenError:
            return None


@dataclass
class InterceptingProxy:
    """Corrupt gateway, or an attacker in front of it: an ASGI application around the honest one
    that sees every request and answer, and may change both.

    ``before`` may change a request, answer it (status not 0), or set the application that does;
    ``after`` may change an answer. Either may be a coroutine function, and take its time.
    """

    honest: ASGIApp
    before: Callable[[Call], Any] = field(default=lambda call: None)
    after: Callable[[Call], Any] = field(default=lambda call: None)
    calls: list[Call] = field(default_factory=list)
    """All requests with their answers, in order."""
    _application: Any = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.honest(scope, receive, send)
            return
        self._application = scope.get("app")
        call = await _read(scope, receive)
        self.calls.append(call)
        await _await_if_coroutine(self.before(call))
        if not call.status:
            await self.forward(call)
        await _await_if_coroutine(self.after(call))
        await _answer(call, send)

    async def forward(self, call: Call) -> None:
        """Forward a call to the application that answers it."""
        await forward_to(call.app or self._within_application, call)

    async def _within_application(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Call the honest one; inside an application of Starlette it knows which one that is."""
        await self.honest({**scope, "app": self._application}, receive, send)

    def calls_of(self, verb: str) -> list[Call]:
        """Return the calls of one MPC verb."""
        return [call for call in self.calls if call.verb == verb]


async def _await_if_coroutine(hook: Any) -> None:
    if inspect.isawaitable(hook):
        await hook


async def forward_to(app: ASGIApp, call: Call) -> None:
    """Forward a call to an application, and put its answer into the call."""
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    request = httpx.Request(
        call.method, f"http://gateway{call.path}", headers=dict(call.headers), content=call.body
    )
    response = await transport.handle_async_request(request)
    call.status, call.reply = response.status_code, await response.aread()


async def _read(scope: Scope, receive: Receive) -> Call:
    body = b""
    while True:
        part = await receive()
        body += part.get("body", b"")
        if not part.get("more_body"):
            break
    headers = {name.decode(): value.decode() for name, value in scope["headers"]}
    query = scope["query_string"].decode()
    return Call(scope["method"], scope["path"] + (query and f"?{query}"), headers, body)


async def _answer(call: Call, send: Send) -> None:
    kind = "application/json" if call.reply[:1] in b"{[" else "application/octet-stream"
    length = str(len(call.reply)).encode()
    headers = [(b"content-type", kind.encode())] * bool(call.reply) + [(b"content-length", length)]
    start: Message = {"type": "http.response.start", "status": call.status, "headers": headers}
    await send(start)
    await send({"type": "http.response.body", "body": call.reply})
