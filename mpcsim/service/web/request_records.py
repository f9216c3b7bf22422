"""Records of requests at one server, collected while they are handled: the lines of a log file.

A context variable carries the record of the present request into tasks and threads. No record holds
what was said: no body but that of an error's answer, no header but an error's code.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, Protocol

from mpcsim.service.web.user_limits import KeyedBuckets, TokenBucket

REQUEST: Final = "request"
"""Event of the lines that records become."""
MAX_PATH: Final = 200
"""Bytes of a path that are kept and logged."""
ANONYMOUS_LINES: Final = TokenBucket(200, 20.0)
"""Lines about requests of which nobody knows whose they are, refused or not: whoever has no token
must not push everybody's lines out of the files."""
USER_LINES: Final = TokenBucket(5000, 250.0)
"""The same for each user."""
MAX_ERROR_BODY: Final = 2000
"""Bytes of an error's answer that are kept."""


Span = tuple[str, float, float]
"""Phase of a request: name, beginning and end by the record's clock. Those of one name add up, and
may overlap."""


def totals_ms(spans: Iterable[Span]) -> dict[str, float]:
    """Milliseconds by name."""
    found: dict[str, float] = {}
    for name, began, ended in spans:
        ms = (ended - began) * 1e3
        found[name] = found[name] + ms if name in found else ms
    return found


class Call:
    """A request to another server on behalf of the present one, if there is one; it begins now."""

    __slots__ = ("began", "clock", "ended", "got", "method", "path", "sent", "status", "to")

    def __init__(self, to: str, method: str, path: str, sent: int) -> None:
        """
        Args:
            to: the role of whom it goes to.
            sent: bytes of its body.
        """
        record = CURRENT.get()
        self.clock = None if record is None or not record.is_logged else record.clock
        if record is None or self.clock is None:
            return
        self.to = to
        self.method = method
        self.path = path
        self.sent = sent
        self.status = 0
        """Status of the answer; 0: none came."""
        self.got = 0
        """Bytes of the answer."""
        self.began = self.clock()
        self.ended: float | None = None
        """None: nobody waited for it any longer."""
        record.calls.append(self)

    def finish(self, status: int = 0, got: int = 0) -> None:
        """The answer is there, or will never come."""
        if self.clock is not None:
            self.status = status
            self.got = got
            self.ended = self.clock()


@dataclass(slots=True)
class RequestRecord:
    """Record of one request."""

    request_id: str
    role: str = ""
    """Server that handles the request: ``node``, ``gateway``, ``operator`` or ``institution``."""
    method: str = ""
    path: str = ""
    """Path without its query, which may hold anything."""
    clock: Callable[[], float] = time.perf_counter
    is_logged: bool = False
    """Whether it becomes a line."""
    at: float = 0.0
    """Arrival: seconds since 1970 UTC;"""
    began: float = 0.0
    """and by the clock."""
    ended: float = 0.0
    """Time when the answer was all sent, or work on it ended, by the clock."""
    status: int = 0
    """Status of the answer; 0: there was none."""
    is_complete: bool = False
    """The answer came to its end."""
    error_body: bytes = b""
    """An error's answer."""
    code: str | None = None
    """Error's ``X-Error-Code``."""
    user_id: str | None = None
    key_id: str | bytes | None = None
    session_id: bytes | None = None
    error: str | None = None
    """Error's text."""
    why: str | None = None
    """More about the error than the caller is told."""
    exception: list[str] | None = None
    """Uncaught exception: types and places."""
    left_out: int = 0
    """Requests before it, anybody's, that have no line."""
    spans: list[Span] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)

    def ms(self, moment: float) -> float:
        """Milliseconds from its beginning to a moment of its clock."""
        return round((moment - self.began) * 1e3, 3)

    def to_line(self) -> dict[str, Any]:
        """Return the record as a line of a log file. Unknown members are left out."""
        found = {
            "time": datetime.fromtimestamp(self.at, UTC).isoformat(timespec="microseconds"),
            "role": self.role,
            "event": REQUEST,
            "request_id": self.request_id,
            "method": self.method,
            "path": self.path,
            "status": self.status,
            "ms": self.ms(self.ended),
            "user_id": self.user_id or None,
            "key_id": _hex(self.key_id),
            "session_id": _hex(self.session_id),
            "error": self.error or _error_text(self.error_body),
            "code": self.code,
            "why": self.why,
            "exception": self.exception,
            "left_out": self.left_out or None,
            "broken_off": True if self.status and not self.is_complete else None,
            "spans": [[name, self.ms(a), self.ms(b)] for name, a, b in self.spans] or None,
            "calls": [
                [
                    call.to,
                    call.method,
                    call.path,
                    self.ms(call.began),
                    None if call.ended is None else self.ms(call.ended),
                    call.status,
                    call.sent,
                    call.got,
                ]
                for call in self.calls
            ]
            or None,
        }
        return {name: value for name, value in found.items() if value is not None}


class RequestSink(Protocol):
    """Destination of request records."""

    def put(self, record: RequestRecord) -> None:
        """Take the record of an answered request. Does not raise, nor take long."""
        ...

    def flush(self) -> None:
        """Write out everything that was taken so far."""
        ...


class LineLimits:
    """Limits on the lines about requests: nobody fills a log alone. For one event loop."""

    def __init__(
        self, anonymous: TokenBucket = ANONYMOUS_LINES, of_user: TokenBucket = USER_LINES
    ) -> None:
        """
        Args:
            anonymous: for all requests together of which nobody knows whose they are.
            of_user: for each user.
        """
        self._anonymous = KeyedBuckets(anonymous)
        self._of_user = KeyedBuckets(of_user)
        self._left_out = 0

    def admit(self, user_id: str | None, now: float) -> bool:
        """Return whether a request becomes a line.

        Args:
            now: seconds, of any clock.
        """
        wait_s = (self._of_user if user_id else self._anonymous).take(user_id, now)
        self._left_out += wait_s > 0
        return not wait_s

    def take_left_out(self) -> int:
        """Return how many requests, anybody's, have had no line since this was last called."""
        found, self._left_out = self._left_out, 0
        return found


class RequestRecorder:
    """A server's requests, and the clocks by which they are entered."""

    def __init__(
        self,
        role: str,
        log: RequestSink | None = None,
        *,
        clock: Callable[[], float] = time.perf_counter,
        now: Callable[[], float] = time.time,
    ) -> None:
        """
        Args:
            log: where records go; None: they are not kept.
            clock: monotonic seconds; of the spans, too.
            now: seconds since 1970 UTC.
        """
        self.log = log
        self.counters: list[Callable[[RequestRecord], None]] = []
        """Callbacks for each request that has been answered."""
        self._role = role
        self._clock = clock
        self._now = now
        self._lines = LineLimits()

    def open(self, request_id: str, method: str, path: str) -> RequestRecord:
        """Return the record of a request that begins now."""
        if len(path) > MAX_PATH // 4:
            path = path.encode(errors="replace")[:MAX_PATH].decode(errors="ignore")
        if self.log is not None:
            clock = self._clock
            return RequestRecord(
                request_id, self._role, method, path, clock, True, self._now(), clock()
            )
        if self.counters:
            return RequestRecord(request_id, path=path, began=self._clock())
        return RequestRecord(request_id)

    def close(self, record: RequestRecord) -> None:
        """The request has been answered, or never will be."""
        if not record.is_complete and (record.is_logged or self.counters):
            record.ended = self._clock()
        if self.log is not None and self._lines.admit(record.user_id, record.ended):
            record.left_out = self._lines.take_left_out()
            self.log.put(record)
        for count in self.counters:
            count(record)


CURRENT: Final[ContextVar[RequestRecord | None]] = ContextVar("record", default=None)
"""Record of the request that is being handled."""


def annotate_request(
    user_id: str | None = None,
    key_id: str | bytes | None = None,
    session_id: bytes | None = None,
    *,
    spans: list[Span] | None = None,
) -> None:
    """Note what the present request, if there is one, turns out to be about.

    Args:
        spans: its phases, by its record's clock: those to come, too.
    """
    record = CURRENT.get()
    if record is not None:
        record.user_id = user_id or record.user_id
        record.key_id = key_id or record.key_id
        record.session_id = session_id or record.session_id
        record.spans = record.spans if spans is None else spans


def _hex(name: str | bytes | None) -> str | None:
    return name.hex() if isinstance(name, bytes) else name


def _error_text(said: bytes) -> str | None:
    """The text of an error's answer, in either form that servers here give it."""
    try:
        document = json.loads(said)
    except (ValueError, RecursionError):
        return None
    if not isinstance(document, dict):
        return None
    text = document.get("error") or document.get("message")
    return text if isinstance(text, str) else None
