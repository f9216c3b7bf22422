"""Log of requests on standard output, a line each, without secrets; formats:
``mpcsim.service.web.logs``.

A line holds what the node itself decided: method, path without query, status, latency, user id,
its own error text. Of an unhandled exception it shows types and source lines alone.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable
from typing import Any, Final

from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mpcsim.service.error_codes import Code
from mpcsim.service.web.log_files import LogFileHandler
from mpcsim.service.web.logs import (
    OF_START,
    PROBE,
    LinesOfRequests,
    describe_exception,
    formatter,
    is_for_console,
    log_to_files,
)
from mpcsim.service.web.request_records import (
    CURRENT,
    MAX_PATH,
    LineLimits,
    RequestRecord,
    RequestSink,
)
from mpcsim.service.web.user_limits import TokenBucket
from node.errors import error_body

logger = logging.getLogger("node")

RECORD: Final = "node.request"
INTERNAL_ERROR: Final = "Internal server error"
ANONYMOUS_LINES: Final = TokenBucket(2000, 200.0)
"""Lines on standard output about requests of which nobody knows whose they are, but for failures of
the node's own: strangers would fill the disk on which a container's output is kept."""


def request_record(request: Request) -> RequestRecord:
    """Return the record of a request."""
    record: RequestRecord = request.scope[RECORD]
    return record


class RequestLog:
    """ASGI middleware: logs requests, so many of each user, and answers 500 for what nobody caught.

    Inside of ``RequestIds``, which names them.
    """

    def __init__(self, app: ASGIApp, clock: Callable[[], float] = time.perf_counter) -> None:
        self.app = app
        self.clock = clock
        self._lines = LineLimits(ANONYMOUS_LINES)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        began = self.clock()
        record = scope[RECORD] = CURRENT.get() or RequestRecord("")
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
        if status < 500 and not self._lines.admit(record.user_id, self.clock()):
            return
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
        if left_out := self._lines.take_left_out():
            fields["left_out"] = left_out
        if failure is not None:
            fields["exception"] = record.exception = describe_exception(failure)
        level = logging.ERROR if status == 401 or status >= 500 else logging.INFO
        extra = {
            "fields": fields,
            LogFileHandler.NOT_IN_FILES: True,
            # Anybody may call itself so: what was refused, or failed, is shown all the same.
            OF_START: status < 400 and (b"user-agent", PROBE.encode()) in scope.get("headers", ()),
        }
        logger.log(level, "request", extra=extra)


def configure(level: str, log_format: str, folder: str | None = None) -> RequestSink | None:
    """Send all logs of this process to standard output.

    For people, without what the server says of its starting and stopping.

    Args:
        folder: where they are written to files, too.

    Returns:
        Where requests are entered, if there are files.
    """
    # Nothing here shows a thread, process or task; the records need not look them up.
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(formatter(log_format))
    handler.addFilter(is_for_console)
    handler.addFilter(LinesOfRequests())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logger.setLevel(level)
    of_server = logging.getLevelNamesMapping()[level]
    if log_format == "text":
        of_server = max(of_server, logging.WARNING)
    for name in ("uvicorn", "uvicorn.error"):
        logging.getLogger(name).setLevel(of_server)
    return None if folder is None else log_to_files(folder, "node")


async def _answer_500(send: Send) -> None:
    body = error_body(INTERNAL_ERROR)
    fields = {"content-type": "application/json", "content-length": str(len(body))}
    fields |= Code.INTERNAL.headers()
    headers = [(name.lower().encode(), value.encode()) for name, value in fields.items()]
    await send({"type": "http.response.start", "status": 500, "headers": headers})
    await send({"type": "http.response.body", "body": body})
