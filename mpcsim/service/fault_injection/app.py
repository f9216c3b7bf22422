"""The HTTP interface of the switches: ``POST /control/{switch}`` with what it is told as JSON,
``GET /control`` for what is switched on. Every request bears the token; errors are JSON with an
``error`` member, and have their code for programs in a header (``mpcsim.service.error_codes``).
"""

from __future__ import annotations

import hmac
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import uvicorn
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from mpcsim import strict_json
from mpcsim.errors import InvalidEncoding, UsageError, unknown
from mpcsim.service.errors import BAD_REQUEST, NOT_FOUND, UNAUTHORIZED, UNAVAILABLE, Refused
from mpcsim.service.fault_injection.conditions import NotInForce
from mpcsim.service.fault_injection.table import SWITCHES
from mpcsim.service.operations.supervisor import HOST
from mpcsim.service.process.listening import ConnectionLimits, listen, options
from mpcsim.service.web.http import HANDLERS, App, read_body
from mpcsim.service.web.threads import in_thread

MAX_BODY_BYTES: Final = 1 << 16
"""A scenario has a few thousand."""

STOPPING_S: Final = 3.0

Throw = Callable[[str, object], dict[str, Any]]
"""Throws a switch, as ``Switchboard.switch``."""


def create_app(throw: Throw, token: str) -> App:
    """The application."""

    async def status(request: Request) -> Response:
        return await thrown(request, "status", b"")

    async def switch(request: Request) -> Response:
        name = request.path_params["switch"]
        return await thrown(request, name, await read_body(request, MAX_BODY_BYTES))

    async def thrown(request: Request, name: str, body: bytes) -> Response:
        if not _bears(request, token):
            raise Refused(UNAUTHORIZED, "not the token of these switches")
        if name not in SWITCHES:
            raise Refused(NOT_FOUND, unknown("switch", name, SWITCHES))
        try:
            return JSONResponse(await in_thread(throw, name, strict_json.parse(body or b"{}")))
        except InvalidEncoding:
            raise Refused(BAD_REQUEST, "the body is not JSON") from None
        except NotInForce as error:
            raise Refused(UNAVAILABLE, str(error)) from None
        except UsageError as error:
            raise Refused(BAD_REQUEST, str(error)) from None

    async def refused(request: Request, error: Exception) -> Response:
        assert isinstance(error, Refused)
        return JSONResponse({"error": str(error)}, error.status, error.headers())

    return App(
        routes=[
            Route("/control", status, methods=["GET"]),
            Route("/control/{switch}", switch, methods=["POST"]),
        ],
        exception_handlers={**HANDLERS, Refused: refused},
    )


@contextmanager
def served(throw: Throw, token: str, port: int) -> Iterator[None]:
    """In the block the interface is served, on this machine's loopback alone.

    Raises:
        UsageError: the port is taken.
    """
    try:
        socket = listen(HOST, port)
    except UsageError as error:
        raise UsageError(f"control: {error}; --control PORT picks another port") from None
    with socket as listening:
        server = uvicorn.Server(
            uvicorn.Config(
                create_app(throw, token),
                **options(ConnectionLimits()),
                log_config=None,
                log_level="warning",
                timeout_graceful_shutdown=1,
            )
        )
        thread = threading.Thread(
            target=server.run, args=([listening],), name="control", daemon=True
        )
        thread.start()
        try:
            yield
        finally:
            server.should_exit = True
            thread.join(STOPPING_S)  # a switch under way may take longer


def _bears(request: Request, token: str) -> bool:
    """Whether a request shows the token, compared in constant time."""
    shown = request.headers.get("authorization", "").encode()
    return hmac.compare_digest(shown, f"Bearer {token}".encode())
