"""The name of a request, from its first caller to both MPC nodes: all that is logged on its behalf
bears it.

Inside a process a context variable carries it, into tasks and threads, too; between processes the
header ``X-Request-Id``. It is for whoever reads logs, and decides nothing.
"""

from __future__ import annotations

import os
import re
from contextvars import ContextVar
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

HEADER: Final = "X-Request-Id"
_HEADER: Final = HEADER.lower().encode()
_ACCEPTED: Final = re.compile(rb"[A-Za-z0-9._-]{1,64}")
_CURRENT: Final[ContextVar[str | None]] = ContextVar("request_id", default=None)


def current() -> str | None:
    """The name of the request that is being handled; None outside of any."""
    return _CURRENT.get()


class RequestIds:
    """ASGI middleware: takes the caller's name for the request, or makes one, and gives it back
    with the answer."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        request_id = _request_id(scope)

        async def named(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), (_HEADER, request_id.encode())]
            await send(message)

        # Put back: an application called in its caller's task has its caller's context.
        before = _CURRENT.set(request_id)
        try:
            await self.app(scope, receive, named)
        finally:
            _CURRENT.reset(before)


def _request_id(scope: Scope) -> str:
    for name, value in scope["headers"]:
        if name == _HEADER and _ACCEPTED.fullmatch(value):
            return str(value, "ascii")
    return os.urandom(8).hex()
