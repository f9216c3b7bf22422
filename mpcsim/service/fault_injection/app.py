"""HTTP interface of fault injection: ``POST /control/{command}`` with its arguments as JSON,
``GET /control`` for the faults in force. Every request bears the token; errors are JSON with an
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
from mpcsim.service.fault_injection.commands import COMMANDS
from mpcsim.service.fault_injection.conditions import NotApplied
from mpcsim.service.operations.defaults import HOST
from mpcsim.service.process.http_limits import ConnectionLimits, listen, uvicorn_options
from mpcsim.service.web.http import HANDLERS, App, read_body
from mpcsim.service.web.threads import in_thread

MAX_BODY_BYTES: Final = 1 << 16
"""A scenario has a few thousand."""

STOPPING_S: Final = 3.0

Execute = Callable[[str, object], dict[str, Any]]
"""Executes a command, as ``FaultController.execute``."""


def create_app(execute: Execute, token: str) -> App:
    """The application."""

    async def status(request: Request) -> Response:
        return await executed(request, "status", b"")

    async def command(request: Request) -> Response:
        name = request.path_params["command"]
        return await executed(request, name, await read_body(request, MAX_BODY_BYTES))

    async def executed(request: Request, name: str, body: bytes) -> Response:
        if not _bears_token(request, token):
            raise Refused(UNAUTHORIZED, "not the token of these switches")
        if name not in COMMANDS:
            raise Refused(NOT_FOUND, unknown("switch", name, COMMANDS))
        try:
            return JSONResponse(await in_thread(execute, name, strict_json.parse(body or b"{}")))
        except InvalidEncoding:
            raise Refused(BAD_REQUEST, "the body is not JSON") from None
        except NotApplied as error:
            raise Refused(UNAVAILABLE, str(error)) from None
        except UsageError as error:
            raise Refused(BAD_REQUEST, str(error)) from None

    async def refused(request: Request, error: Exception) -> Response:
        assert isinstance(error, Refused)
        return JSONResponse({"error": str(error)}, error.status, error.headers())

    return App(
        routes=[
            Route("/control", status, methods=["GET"]),
            Route("/control/{command}", command, methods=["POST"]),
        ],
        exception_handlers={**HANDLERS, Refused: refused},
    )


@contextmanager
def serve_control(execute: Execute, token: str, port: int) -> Iterator[None]:
    """Serve the control interface during the block, on this machine's loopback alone.

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
                create_app(execute, token),
                **uvicorn_options(ConnectionLimits()),
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
            thread.join(STOPPING_S)  # a running command may take longer


def _bears_token(request: Request, token: str) -> bool:
    """Return whether a request shows the token, compared in constant time."""
    shown = request.headers.get("authorization", "").encode()
    return hmac.compare_digest(shown, f"Bearer {token}".encode())
