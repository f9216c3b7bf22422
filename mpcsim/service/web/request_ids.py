"""The name of a request, from its first caller to both MPC nodes: all that is logged on its behalf
bears it.

Inside a process a context variable carries it, into tasks and threads, too; between processes the
header ``X-Request-Id``. It is for whoever reads logs, and decides nothing.

A field that decides who asks, for what or how a body is read is there once or not at all, and so is
each member of a query: whoever stands in between may go by another one than this process. For the
same reason an encoded slash in a path is no separator (RFC 3986, 2.2).
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable
from typing import Final
from urllib.parse import parse_qsl, unquote

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mpcsim.service.error_codes import Code
from mpcsim.service.errors import BAD_REQUEST
from mpcsim.service.process.request_id import HEADER, IN_SCOPE, USER_IN_SCOPE, new_request_id
from mpcsim.service.rpc import session_keys
from mpcsim.service.web import idempotency
from mpcsim.service.web.request_records import CURRENT, MAX_ERROR_BODY, RequestRecorder

_HEADER: Final = HEADER.lower().encode()
_accepted: Final = re.compile(rb"[A-Za-z0-9._-]{1,64}").fullmatch
_CODE: Final = b"x-error-code"
_is_member_name: Final = re.compile(r"[A-Za-z0-9._-]{1,64}").fullmatch
MOST_MEMBERS: Final = 16
"""Members of a query: no endpoint takes more than a few, and each is decoded."""
_ENCODED_SLASH: Final = re.compile(rb"%2f", re.IGNORECASE)
_SINGLETONS: Final = {
    name.lower().encode(): name
    for name in (
        "Authorization",
        "Content-Type",
        idempotency.HEADER,
        idempotency.VERB_HEADER,
        session_keys.HEADER,
        HEADER,
    )
}
"""Fields that a request has once at most, as ASGI and as people write them."""


def current_request_id() -> str | None:
    """The name of the request that is being handled; None outside of any."""
    record = CURRENT.get()
    return None if record is None else record.request_id


class RequestIds:
    """ASGI middleware: takes the caller's name for the request, or makes one, and gives it back
    with the answer; records the request."""

    def __init__(self, app: ASGIApp, recorder: RequestRecorder | None = None) -> None:
        self.app = app
        self.recorder = recorder or RequestRecorder("")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        # Every call counts here: all of this is done for each request of each process.
        for header, name in scope["headers"]:
            if header == _HEADER and _accepted(name):
                break
        else:
            name = new_request_id()
        scope[IN_SCOPE], connection = name, scope
        if b"%" in (raw_path := scope.get("raw_path") or b""):
            scope = {**scope, "path": _decode_path(raw_path)}
        record = self.recorder.open(str(name, "ascii"), scope["method"], scope["path"])

        async def named(message: Message) -> None:
            if message["type"] == "http.response.start":
                record.status = message["status"]
                headers = message["headers"] if "headers" in message else ()  # noqa: SIM401
                if record.status >= 400:
                    record.code = _error_code(headers)
                message["headers"] = [*headers, (_HEADER, name)]
            elif record.is_logged:
                if "more_body" not in message or not message["more_body"]:
                    # Before the caller can have it: its log says that it came later.
                    record.ended, record.is_complete = record.clock(), True
                if record.status >= 400:
                    record.error_body = (record.error_body + message.get("body", b""))[
                        :MAX_ERROR_BODY
                    ]
            await send(message)

        # Put back: an application called in its caller's task has its caller's context.
        before = CURRENT.set(record)
        found = [field for field, _ in scope["headers"] if field in _SINGLETONS]
        try:
            if len(found) != len({*found}):
                field = _SINGLETONS[max(found, key=found.count)]
                await _refuse(f"Invalid {field}: there are several", named)
            elif b"&" in scope["query_string"] and (fault := _fault_of(scope["query_string"])):
                await _refuse(fault, named)
            else:
                await self.app(scope, receive, named)
        finally:
            CURRENT.reset(before)
            connection[USER_IN_SCOPE] = record.user_id
            self.recorder.close(record)


def _decode_path(raw: bytes) -> str:
    """Return a path as its routes are compared with it: an encoded slash stays encoded."""
    return unquote(_ENCODED_SLASH.sub(b"%252F", raw).decode("latin-1"))


def _fault_of(query: bytes) -> str | None:
    """Return why a query of several members is refused; None: it is not."""
    if query.count(b"&") >= MOST_MEMBERS:
        return f"Invalid query: there are more than {MOST_MEMBERS} members"
    counts = Counter(name for name, _ in parse_qsl(query.decode("latin-1"), keep_blank_values=True))
    name, count = counts.most_common(1)[0] if counts else ("", 0)
    if count < 2:
        return None
    return f"Invalid {name if _is_member_name(name) else 'query'}: there are several"


async def _refuse(text: str, send: Send) -> None:
    """Answer a request that is refused before anybody has looked at what it asks for."""
    body = json.dumps({"error": text}).encode()
    headers = {"Content-Type": "application/json", "Content-Length": str(len(body))}
    headers |= Code.BAD_REQUEST.headers()
    raw = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": BAD_REQUEST, "headers": raw})
    await send({"type": "http.response.body", "body": body})


def _error_code(headers: Iterable[tuple[bytes, bytes]]) -> str | None:
    """Return the error code of an answer, if it has one."""
    return next((value.decode("latin-1") for name, value in headers if name.lower() == _CODE), None)
