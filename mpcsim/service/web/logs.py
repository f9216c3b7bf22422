"""Log lines of all servers: short text for people, or JSON for programs. No line has secrets.

A record's extra ``fields`` say what its message leaves out. Of an exception both formats show types
and source lines; its message and local values may hold anything, so they stay out. Of other
packages' multi-line messages there is only the first line: the others quote values.
"""

from __future__ import annotations

import json
import logging
import os
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from mpcsim.errors import escape_unprintable
from mpcsim.service.process.log_settings import SUPERVISED
from mpcsim.service.web import request_ids
from mpcsim.service.web.log_files import LogFileHandler, log_file
from mpcsim.service.web.request_records import CURRENT, LineLimits, RequestSink
from mpcsim.service.web.user_limits import TokenBucket

SHORT: Final = 8
"""Characters of an id that people are shown."""
LINES_OF_REQUESTS: Final = TokenBucket(200, 200.0)
"""Lines, besides that about the request, that are logged while requests of one user are handled, or
of all whose user is not known: a user may have session after session aborted."""
OF_START: Final = "of_start"
"""Extra member of log records about a process's start: files alone have them if ``SUPERVISED``."""
PROBE: Final = "mpcsim-supervisor"
"""User-Agent of the requests that ask whether a process has started."""
_ENCODE: Final = json.JSONEncoder(separators=(",", ":")).encode


def formatter(log_format: str) -> logging.Formatter:
    """Return the formatter for one of ``FORMATS``."""
    return JsonLines() if log_format == "json" else TextLines()


class JsonLines(logging.Formatter):
    """Every log record as one line of JSON."""

    def __init__(self, role: str | None = None) -> None:
        """
        Args:
            role: whose line it is, in a file beside those of others.
        """
        super().__init__()
        self._whose = {} if role is None else {"role": role}
        self._to = "milliseconds" if role is None else "microseconds"

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": _time(record).isoformat(timespec=self._to),
            **self._whose,
            "level": record.levelname,
            "logger": record.name,
            "event": _first_line(record),
        }
        if (request_id := request_ids.current_request_id()) is not None:
            line["request_id"] = request_id
        line |= _fields(record)
        if exception := _exception(record):
            line["exception"] = exception
        return _ENCODE(line)


class TextLines(logging.Formatter):
    """``hh:mm:ss LEVEL logger [request]: message``, the level if it is more than INFO.

    An exception comes on lines of its own. What callers choose cannot make lines, or move the
    terminal's cursor.
    """

    def format(self, record: logging.LogRecord) -> str:
        fields = dict(_fields(record))
        level = f"{record.levelname} " if record.levelno > logging.INFO else ""
        request_id = fields.pop("request_id", request_ids.current_request_id())
        exception = fields.pop("exception", _exception(record))
        if "method" in fields:
            named = f" [{_short(request_id)}]"
            said = _request(fields)
        else:
            named = "" if request_id is None else f" [{request_id}]"
            more = ", ".join(f"{name} {value}" for name, value in fields.items())
            said = _first_line(record) + (f" ({more})" if more else "")
        at = _time(record).astimezone().strftime("%H:%M:%S")
        lines = [f"{at} {level}{record.name}{named}: {said}", *exception]
        return "\n    ".join(map(escape_unprintable, lines))


def describe_exception(error: BaseException) -> list[str]:
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


class LinesOfRequests(logging.Filter):
    """Filter of a handler: so many lines on behalf of each user. Any thread may call."""

    def __init__(self) -> None:
        super().__init__()
        self._limits = LineLimits(LINES_OF_REQUESTS, LINES_OF_REQUESTS)
        self._lock = threading.Lock()

    def filter(self, record: logging.LogRecord) -> bool:
        request = CURRENT.get()
        if request is None or getattr(record, LogFileHandler.NOT_IN_FILES, False):
            return True
        with self._lock:
            if not self._limits.admit(request.user_id, time.monotonic()):
                return False
            if left_out := self._limits.take_left_out():
                record.fields = {**_fields(record), "left_out": left_out}
        return True


def configure_logs(
    log_format: str, folder: str | None = None, role: str = ""
) -> RequestSink | None:
    """Write what this process logs to its standard error: its own from INFO on, and from WARNING on
    what libraries have to say.

    Args:
        folder: where it is written to files, too.
        role: as whose.

    Returns:
        Sink of request records, if there are files.
    """
    handler = logging.StreamHandler()
    handler.setFormatter(formatter(log_format))
    handler.addFilter(is_for_console)
    handler.addFilter(_is_worth_logging)
    handler.addFilter(LinesOfRequests())
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    return None if folder is None else log_to_files(folder, role, _is_worth_logging)


def log_to_files(
    folder: str, role: str, worth_it: Callable[[logging.LogRecord], bool] = lambda record: True
) -> RequestSink:
    """Write what this process logs to its files, too; returns the sink of request records.

    Args:
        worth_it: whether a record is to be written.
    """
    log = log_file(Path(folder).absolute(), role)
    handler = LogFileHandler(log, JsonLines(role))
    handler.addFilter(worth_it)
    handler.addFilter(LinesOfRequests())
    logging.getLogger().addHandler(handler)
    return log


def is_for_console(record: logging.LogRecord) -> bool:
    """Return whether a record is to be shown, and not only to be written to files."""
    return not (getattr(record, OF_START, False) and os.environ.get(SUPERVISED))


def _is_worth_logging(record: logging.LogRecord) -> bool:
    return record.levelno >= logging.WARNING or record.name.startswith("mpcsim")


def _time(record: logging.LogRecord) -> datetime:
    return datetime.fromtimestamp(record.created, UTC)


def _first_line(record: logging.LogRecord) -> str:
    return record.getMessage().split("\n", 1)[0]


def _fields(record: logging.LogRecord) -> Mapping[str, Any]:
    found: Mapping[str, Any] = getattr(record, "fields", {})
    return found


def _exception(record: logging.LogRecord) -> list[str]:
    error = record.exc_info[1] if record.exc_info else None
    return [] if error is None else describe_exception(error)


def _request(fields: Mapping[str, Any]) -> str:
    """A request that has been answered, as a sentence."""
    said = "{method} {path} {status} in {latency_ms:.1f} ms".format_map(fields)
    if "user_id" in fields:
        said += f", user {_short(fields['user_id'])}"
    if "left_out" in fields:
        said += f", {fields['left_out']} before it have no line"
    return ": ".join([said, *(fields[name] for name in ("error", "why") if name in fields)])


def _short(name: str) -> str:
    return name if len(name) <= SHORT else name[:SHORT] + "…"
