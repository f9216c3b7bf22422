"""The way between a node and the gateway's HTTP interface, where time passes."""

from __future__ import annotations

import asyncio
from contextlib import aclosing, closing

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mpcsim.ids import CLIENT
from mpcsim.link_transport import GATEWAY, Exchange, LinkTransport, Pieces

_FORWARDED = (("GET", "/wallet/v1/"), ("POST", "/mpc/v1/"))
"""Requests that a node makes while its own caller waits: method, and beginning of the path."""


class RequestForwarding:
    """ASGI middleware that has requests of a node carried to the gateway, and replies back.

    A request's body arrives in the parts in which the link brings it. What the gateway does with
    the first parts before the last is its own business.
    """

    def __init__(self, app: ASGIApp, carrier: LinkTransport) -> None:
        self._app = app
        self._carrier = carrier

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if (
            self._carrier.is_instant
            or scope["type"] != "http"
            or not any(
                scope["method"] == method and scope["path"].startswith(path)
                for method, path in _FORWARDED
            )
        ):
            await self._app(scope, receive, send)
            return
        with closing(self._carrier.exchange(CLIENT, GATEWAY)) as exchange:
            await self._carry(exchange, scope, receive, send)

    async def _carry(self, exchange: Exchange, scope: Scope, receive: Receive, send: Send) -> None:
        back = _ReplyForwarder(exchange, send)
        if scope["method"] == "GET":  # nobody reads its body
            await exchange.send_request(0)
            await back.forward_answer(self._app, scope, receive)
        else:
            body = _body(receive)
            async with aclosing(exchange.stream_request(body)) as pieces:
                over = False

                async def arriving() -> Message:
                    nonlocal over
                    if over:
                        return await receive()
                    try:
                        piece = await anext(pieces, None)
                    except _CallerGoneError:
                        over = True
                        return {"type": "http.disconnect"}
                    over = piece is None
                    return {"type": "http.request", "body": piece or b"", "more_body": not over}

                await back.forward_answer(self._app, scope, arriving)


class _CallerGoneError(Exception):
    """The caller has gone away."""


async def _body(receive: Receive) -> Pieces:
    """Yield the pieces of the caller's body."""
    more = True
    while more:
        message = await receive()
        if message["type"] != "http.request":
            raise _CallerGoneError
        yield message.get("body", b"")
        more = message.get("more_body", False)


class _ReplyForwarder:
    """The way back of a reply, whole or in pieces."""

    def __init__(self, exchange: Exchange, send: Send) -> None:
        self._exchange = exchange
        self._send = send
        self._start: Message = {}
        self._pieces: asyncio.Queue[Message | None] = asyncio.Queue()
        self._carrying: asyncio.Task[None] | None = None

    async def forward_answer(self, app: ASGIApp, scope: Scope, receive: Receive) -> None:
        """Call the application and forward its answer."""
        try:
            await app(scope, receive, self._on_message)
            self._pieces.put_nowait(None)
            if self._carrying is not None:
                await self._carrying
        finally:
            if self._carrying is not None:
                self._carrying.cancel()

    async def _on_message(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._start = message
        elif self._carrying is not None:
            self._pieces.put_nowait(message)
        elif message.get("more_body", False):
            self._pieces.put_nowait(message)
            self._carrying = asyncio.create_task(self._carry())
        else:
            refused = self._start["status"] >= 400
            carry = self._exchange.receive_refusal if refused else self._exchange.receive_reply
            await carry(len(message["body"]))
            await self._send(self._start)
            await self._send(message)

    async def _carry(self) -> None:
        """Carry a reply in pieces; one that was broken off breaks off here, too."""
        whole = False

        async def sent() -> Pieces:
            nonlocal whole
            while not whole and (message := await self._pieces.get()) is not None:
                yield message.get("body", b"")
                whole = not message.get("more_body", False)

        begun = False
        async with aclosing(self._exchange.stream_reply(sent())) as pieces:
            async for piece in pieces:
                if not begun:
                    await self._send(self._start)
                    begun = True
                body = {"type": "http.response.body", "body": piece, "more_body": True}
                await self._send(body)
        if whole:
            await self._send({"type": "http.response.body", "body": b"", "more_body": False})
