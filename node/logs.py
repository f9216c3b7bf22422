"""One JSON line a request, on standard output, without secrets.

A line holds what the node itself decided: method, path without query, status, latency, user id,
its own error text. Of an unhandled exception it shows types and source lines; its message and local
values may hold anything, so they stay out.
"""

from __future__ import annotations

import json
import logging
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mpcsim.rpc import request_ids
from node.errors import error_body

logger = logging.getLogger("node")

MAX_PATH: Final = 200
"""Characters of a path that are logged."""
RECORD: Final = "node.request"
INTERNAL_ERROR: Final = "Internal server error"
_ENCODE: Final = json.JSONEncoder(separators=(",", ":")).encode


@dataclass
class RequestRecord:
    """What is to be logged about one request, collected while it is handled."""

    request_id: str
    user_id: str | None = None
    error: str | None = None
    why: str | None = None
    """More about the error than the caller is told."""


def record_of(request: Request) -> RequestRecord:
    """The record that ``RequestLog`` keeps of this request."""
    record: RequestRecord = request.scope[RECORD]
    return record


class RequestLog:
    """ASGI middleware: logs every request, and answers 500 for what nobody caught.

    Inside of ``RequestIds``, which names them.
    """

    def __init__(self, app: ASGIApp, clock: Callable[[], float] = time.perf_counter) -> None:
        self.app = app
        self.clock = clock

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        began = self.clock()
        record = scope[RECORD] = RequestRecord(request_ids.current() or "")
        status: int | None = None

        async def watched(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        failure: Exception | None = None
        try:
            await self.app(scope, receive, watched)
        except Exception as error:
            failure = error
            record.error = INTERNAL_ERROR
            if status is None:
                await _answer_500(watched)
        self._log(scope, record, status or 500, (self.clock() - began) * 1e3, failure)

    def _log(
        self,
        scope: Scope,
        record: RequestRecord,
        status: int,
        latency_ms: float,
        failure: Exception | None,
    ) -> None:
        fields: dict[str, Any] = {
            "method": scope["method"],
            "path": scope["path"][:MAX_PATH],
            "status": status,
            "latency_ms": round(latency_ms, 2),
            "request_id": record.request_id,
        }
        if record.user_id is not None:
            fields["user_id"] = record.user_id
        if record.error is not None:
            fields["error"] = record.error
        if record.why is not None:
            fields["why"] = record.why
        if failure is not None:
            fields["exception"] = describe(failure)
        level = logging.ERROR if status == 401 or status >= 500 else logging.INFO
        logger.log(level, "request", extra={"fields": fields})


def describe(error: BaseException) -> list[str]:
    """An exception and its causes: types and places, neither messages nor values."""
    lines: list[str] = []
    current: BaseException | None = error
    while current is not None and len(lines) < 10:
        kind = type(current)
        frames = traceback.extract_tb(current.__traceback__)
        places = [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in frames]
        lines.append(f"{kind.__module__}.{kind.__qualname__} at " + " > ".join(places))
        current = current.__cause__ or current.__context__
    return lines


class JsonLines(logging.Formatter):
    """Every log record as one line of JSON.

    Of other packages' multi-line messages only the first line: the others quote values.
    """

    def format(self, record: logging.LogRecord) -> str:
        message = record.getMessage()
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "event": message.split("\n", 1)[0],
        }
        if (request_id := request_ids.current()) is not None:
            line["request_id"] = request_id
        fields: Mapping[str, Any] = getattr(record, "fields", {})
        line |= fields
        if record.exc_info and record.exc_info[1] is not None:
            line["exception"] = describe(record.exc_info[1])
        return _ENCODE(line)


def configure(level: str) -> None:
    """Send all logs of this process to standard output as JSON lines."""
    # Nothing here shows a thread, process or task; the records need not look them up.
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(JsonLines())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logger.setLevel(level)
    for name in ("uvicorn", "uvicorn.error"):
        logging.getLogger(name).setLevel(level)


async def _answer_500(send: Send) -> None:
    body = error_body(INTERNAL_ERROR)
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
    ]
    await send({"type": "http.response.start", "status": 500, "headers": headers})
    await send({"type": "http.response.body", "body": body})
