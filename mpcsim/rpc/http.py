"""What the HTTP interfaces of the gateway and of MPC nodes have in common."""

from __future__ import annotations

import logging

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp

from mpcsim.rpc.errors import TOO_LARGE, Refused
from mpcsim.rpc.request_ids import RequestIds

LOG = logging.getLogger(__name__)


class App(Starlette):
    """Starlette, with names for its requests around all the rest: also around the handler of
    unexpected errors, which Starlette puts outside of all middleware of its own."""

    def build_middleware_stack(self) -> ASGIApp:
        return RequestIds(super().build_middleware_stack())


async def read_body(request: Request, limit: int) -> bytes:
    """A request's body, as far as it is allowed to go."""
    declared = request.headers.get("content-length", "0")
    if not declared.isdecimal() or len(declared) > 12 or int(declared) > limit:
        raise Refused(TOO_LARGE, f"body of more than {limit} bytes")
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > limit:
            raise Refused(TOO_LARGE, f"body of more than {limit} bytes")
    return bytes(body)


def http_error(request: Request, error: Exception) -> Response:
    """For what Starlette refuses."""
    assert isinstance(error, HTTPException)
    return JSONResponse({"error": error.detail}, error.status_code, error.headers)


def gone(request: Request, error: Exception) -> Response:
    """For a caller who does not wait for the answer."""
    return Response(status_code=400)


def bug(request: Request, error: Exception) -> Response:
    """For what nobody foresaw. Its message may quote anything, so it is not logged."""
    LOG.error("%s %s: %s", request.method, request.url.path, type(error).__name__)
    return JSONResponse({"error": "internal error"}, 500)


HANDLERS = {HTTPException: http_error, ClientDisconnect: gone, Exception: bug}
