"""The way between a node and the gateway's HTTP interface, where time passes."""

from __future__ import annotations

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mpcsim.ids import CLIENT
from mpcsim.rpc.carrier import GATEWAY, Carrier

_CARRIED = (("GET", "/wallet/v1/"), ("POST", "/mpc/v1/"))
"""What a node asks for while its own caller waits: methods, and what their paths begin with."""


class Transit:
    """ASGI middleware that has requests of a node carried to the gateway, and replies back.

    A request arrives when its body has; what is refused comes back at once.
    """

    def __init__(self, app: ASGIApp, carrier: Carrier) -> None:
        self._app = app
        self._carrier = carrier

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if (
            self._carrier.instant
            or scope["type"] != "http"
            or not any(
                scope["method"] == method and scope["path"].startswith(path)
                for method, path in _CARRIED
            )
        ):
            await self._app(scope, receive, send)
            return
        size = 0
        start: Message = {}

        async def arriving() -> Message:
            nonlocal size
            message = await receive()
            if message["type"] == "http.request":
                size += len(message.get("body", b""))
                if not message.get("more_body", False):
                    await self._carrier.delay(CLIENT, GATEWAY, size)
            return message

        async def returning(message: Message) -> None:
            nonlocal start
            if message["type"] == "http.response.start":
                start = message
                return
            if start["status"] < 400:
                await self._carrier.delay(GATEWAY, CLIENT, len(message["body"]))
            await send(start)
            await send(message)

        if scope["method"] == "GET":  # nobody reads its body
            await self._carrier.delay(CLIENT, GATEWAY, 0)
            await self._app(scope, receive, returning)
        else:
            await self._app(scope, arriving, returning)
