"""Parts that the HTTP interfaces of the gateway and of MPC nodes share."""

from __future__ import annotations

import asyncio
import logging
from typing import Any, Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from mpcsim.link_transport import Pieces
from mpcsim.service.error_codes import Code, code_of_framework_status
from mpcsim.service.errors import TOO_LARGE, Refused
from mpcsim.service.web import meter
from mpcsim.service.web.request_ids import RequestIds
from mpcsim.service.web.request_records import RequestRecorder

LOG = logging.getLogger(__name__)

IDENTITY: Final = "identity"
"""The content coding that is none."""
MOST_CODINGS: Final = 4
"""Codings of a body that are told apart: what is said behind them is refused as one."""


class App(Starlette):
    """Starlette, with names for its requests around all the rest: also around the handler of
    unexpected errors, which Starlette puts outside of all middleware of its own."""

    def __init__(self, *, recorder: RequestRecorder | None = None, **options: Any) -> None:
        """
        Args:
            recorder: where its requests are entered.
            options: Starlette's.
        """
        super().__init__(**options)
        self.recorder = recorder or RequestRecorder("")

    def build_middleware_stack(self) -> ASGIApp:
        app = super().build_middleware_stack()
        return RequestIds(meter.MeterMiddleware(app) if meter.ON else app, self.recorder)


def media_type(request: Request) -> str:
    """Return the media type of a request's body without its parameters, in lower case."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def check_coding(request: Request) -> None:
    """Check that a request's body is not compressed.

    Raises:
        HTTPException: 415 with the coding that is understood (RFC 9110, 8.4 and 12.5.3).
    """
    for field in request.headers.getlist("content-encoding"):
        if any(
            coding.strip().lower() not in ("", IDENTITY)
            for coding in field.split(",", MOST_CODINGS)
        ):
            text = f"The only content coding is {IDENTITY}: the body must not be compressed"
            raise HTTPException(415, text, {"Accept-Encoding": IDENTITY})


async def read_body(request: Request, limit: int) -> bytes:
    """A request's body, as far as it is allowed to go."""
    check_coding(request)
    _declared_length(request, limit)
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > limit:
            raise Refused(TOO_LARGE, f"body of more than {limit} bytes")
    return bytes(body)


class RequestBody:
    """A request's body while it comes, as far as it is allowed to go."""

    def __init__(self, request: Request, limit: int) -> None:
        """
        Raises:
            Refused: it says that it is longer.
            HTTPException: it is compressed.
        """
        check_coding(request)
        self.size = _declared_length(request, limit)
        """Size as declared; None: not declared."""
        self.received = bytearray()
        self._limit = limit
        self._chunks = request.stream()
        self._ended = False
        self._reading: asyncio.Task[bytes | None] | None = None

    @property
    def is_complete(self) -> bool:
        """Whether it is known to be all there."""
        return self._ended or len(self.received) == self.size

    async def read_more(self, patience_s: float | None = None) -> bytes:
        """Return the next piece of the body; empty at the end.

        Raises:
            TimeoutError: nothing has come; it may be asked for again.
            Refused: the body is too long.
            ClientDisconnect: it breaks off.
        """
        if self._ended:
            return b""
        if self._reading is None:
            self._reading = asyncio.create_task(self._next())
        done, _ = await asyncio.wait({self._reading}, timeout=patience_s)
        if not done:
            raise TimeoutError
        chunk = self._reading.result()  # an error stays, for whoever asks next
        if chunk is not None and len(self.received) + len(chunk) > self._limit:
            raise Refused(TOO_LARGE, f"body of more than {self._limit} bytes")
        self._reading = None
        self._ended = chunk is None
        self.received += chunk or b""
        return chunk or b""

    async def read_all(self) -> bytes:
        """Return the whole body, once it is there; raises as ``read_more``."""
        while await self.read_more():
            pass
        return bytes(self.received)

    def stop(self) -> None:
        """Stop reading the body."""
        if self._reading is not None:
            self._reading.cancel()

    async def _next(self) -> bytes | None:
        while (chunk := await anext(self._chunks, None)) == b"":
            pass
        return chunk


class StreamedResponse(Response):
    """A reply that goes out while it comes. If it breaks off, so does the connection: the caller
    can tell a reply that is not whole."""

    def __init__(self, pieces: Pieces, headers: dict[str, str], media_type: str) -> None:
        super().__init__(headers=headers, media_type=media_type)
        del self.headers["content-length"]  # not known yet
        self._pieces = pieces

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send(
            {"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers}
        )
        try:
            async for piece in self._pieces:
                await send({"type": "http.response.body", "body": piece, "more_body": True})
        except Refused as refused:
            # The server closes the connection on which a reply is not complete.
            LOG.warning("%s %s: broken off: %s", scope["method"], scope["path"], refused)
            return
        await send({"type": "http.response.body", "body": b"", "more_body": False})


def _declared_length(request: Request, limit: int) -> int | None:
    """The length that a request's header gives its body.

    Raises:
        Refused: it is more than allowed, or no length.
    """
    declared = request.headers.get("content-length")
    if declared is None:
        return None
    if not declared.isdecimal() or len(declared) > len(str(limit)) or int(declared) > limit:
        raise Refused(TOO_LARGE, f"body of more than {limit} bytes")
    return int(declared)


async def on_http_error(request: Request, error: Exception) -> Response:
    """Answer an error that Starlette found."""
    assert isinstance(error, HTTPException)
    headers = code_of_framework_status(error.status_code).headers() | dict(error.headers or {})
    return JSONResponse({"error": error.detail}, error.status_code, headers)


async def on_disconnect(request: Request, error: Exception) -> Response:
    """Answer a caller who has disconnected."""
    return Response(status_code=400, headers=Code.BAD_REQUEST.headers())


async def on_unexpected_error(request: Request, error: Exception) -> Response:
    """Answer an unexpected exception. Its message may quote anything, so it is not logged."""
    LOG.error("%s %s: %s", request.method, request.url.path, type(error).__name__)
    return JSONResponse({"error": "internal error"}, 500, Code.INTERNAL.headers())


HANDLERS = {
    HTTPException: on_http_error,
    ClientDisconnect: on_disconnect,
    Exception: on_unexpected_error,
}
