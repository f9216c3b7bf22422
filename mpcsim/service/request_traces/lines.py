"""Log lines of all processes: out of their files, which may be in several folders, be written to
meanwhile, and hold anything."""

from __future__ import annotations

import json
import math
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO, Final

from mpcsim.errors import UsageError
from mpcsim.service.web.log_files import SUFFIX
from mpcsim.service.web.request_records import REQUEST

NAME: Final = re.compile(rf"(.+){re.escape(SUFFIX)}(\.\d+)?")
_ID: Final = re.compile(r"[A-Za-z0-9._-]{1,64}")
_REQUEST_ID_KEY: Final = b'"request_id":"'
_REQUEST: Final = f'"event":"{REQUEST}"'.encode()
_OF_NODE: Final = b'"role":"node"'
_OF_GATEWAY: Final = b'"role":"gateway"'
_TIME_BYTES: Final = len('{"time":"2026-01-01T00:00:00.000000')
SHOWN: Final = 5
"""Ids that a message names."""


@dataclass(frozen=True)
class Phase:
    """A span of a request: milliseconds from its beginning."""

    name: str
    began_ms: float
    ended_ms: float


@dataclass(frozen=True)
class Call:
    """A request that another one led to."""

    to: str
    """The role of who was asked."""
    method: str
    path: str
    began_ms: float
    """Milliseconds from the beginning of the request that led to it; ``ended_ms`` likewise."""
    ended_ms: float | None
    """None: nobody waited for it."""
    status: int
    """0: no answer came."""
    sent: int
    """Bytes of its body, and of the answer's."""
    got: int


@dataclass(frozen=True)
class Line:
    """Line of a log."""

    at_s: float
    """Since 1970 UTC, by the clock of its machine."""
    role: str
    source: str
    """The process that wrote it: folder and name of its files."""
    request_id: str
    level: str
    event: str


@dataclass(frozen=True)
class Request(Line):
    """A request that was handled."""

    method: str
    path: str
    status: int
    """0: it was never answered."""
    took_ms: float
    user_id: str = ""
    key_id: str = ""
    session_id: str = ""
    error: str = ""
    code: str = ""
    why: str = ""
    broken_off: bool = False
    exception: tuple[str, ...] = ()
    phases: tuple[Phase, ...] = ()
    calls: tuple[Call, ...] = ()

    @property
    def has_failed(self) -> bool:
        """Whether its caller did not get what was asked for."""
        return not 0 < self.status < 400 or self.broken_off

    @property
    def ended_s(self) -> float:
        return self.at_s + self.took_ms / 1e3


@dataclass
class LogScan:
    """Result of reading log files."""

    lines: list[Line] = field(default_factory=list)
    unreadable: Counter[Path] = field(default_factory=Counter)
    """Lines that are none of a log, and were left out, by file."""
    files: int = 0


def find_request(folders: Iterable[Path], request_id: str) -> LogScan:
    """Return all lines of a request id.

    Args:
        request_id: or as much of its beginning as no other has.

    Raises:
        UsageError: nothing does, or what several do; or as ``open_log_files``.
    """
    if not _ID.fullmatch(request_id):
        raise UsageError("a request id is 1 to 64 letters, digits, dots, underscores and hyphens")
    folders = list(folders)
    beginning = _REQUEST_ID_KEY + request_id.encode()
    found = scan_logs(folders, lambda data: beginning in data)
    ids = {line.request_id for line in found.lines if line.request_id.startswith(request_id)}
    if not ids:
        raise UsageError(
            f"{request_id}: no line of {_with_plural(found.files, 'file')} in "
            f"{', '.join(map(str, folders))} bears this request id; a call is written within a "
            "second, and the oldest go when a process has 5 files of 10 MB"
        )
    if request_id not in ids and len(ids) > 1:
        named = ", ".join(sorted(ids)[:SHOWN]) + (", ..." if len(ids) > SHOWN else "")
        raise UsageError(f"{request_id}: {len(ids)} request ids begin so: {named}")
    whole = request_id if request_id in ids else ids.pop()
    found.lines = [line for line in found.lines if line.request_id == whole]
    return found


def find_requests(folders: Iterable[Path], latest: int | None = None) -> LogScan:
    """The requests that node and gateway have handled, by time.

    Args:
        latest: only so many, the last ones.
    """

    def wanted(data: bytes) -> bool:
        return _REQUEST in data and (_OF_NODE in data or _OF_GATEWAY in data)

    found = scan_logs(folders, wanted, latest)
    found.lines = [line for line in found.lines if isinstance(line, Request)]
    return found


def scan_logs(
    folders: Iterable[Path], wanted: Callable[[bytes], bool], latest: int | None = None
) -> LogScan:
    """The lines that are wanted, by time; each once, wherever copies of it are.

    Args:
        wanted: looks at a line as it stands in its file.
        latest: only so many, the last ones.

    Raises:
        UsageError: as ``open_log_files``.
    """
    found = LogScan()
    seen: set[int] = set()
    kept: list[tuple[bytes, Path, bytes]] = []
    with ExitStack() as stack:
        for path, file in open_log_files(folders, stack):
            found.files += 1
            name = _process_name(path)
            for data in file:
                if wanted(data) and (number := hash((name, data))) not in seen:
                    seen.add(number)
                    kept.append((data[:_TIME_BYTES], path, data))
                    if latest is not None and len(kept) > 4 * latest:
                        _keep_latest(kept, latest)
    if latest is not None:
        _keep_latest(kept, latest)
    for _, path, data in kept:
        if (line := parse_line(data, str(path.parent / _process_name(path)))) is not None:
            found.lines.append(line)
        elif data.endswith(b"\n"):  # the last one may be half-written
            found.unreadable[path] += 1
    found.lines.sort(key=lambda line: line.at_s)
    return found


def _keep_latest(kept: list[tuple[bytes, Path, bytes]], latest: int) -> None:
    """Keep the latest: lines begin with their time, which is written so that it sorts."""
    kept.sort(key=lambda each: each[0], reverse=True)
    del kept[latest:]


def open_log_files(folders: Iterable[Path], stack: ExitStack) -> list[tuple[Path, BinaryIO]]:
    """The log files of folders. They stay what they are while they are read, whatever they are
    called then.

    Raises:
        UsageError: a folder or a file cannot be read, or there are none.
    """
    files: dict[tuple[int, int], tuple[Path, BinaryIO]] = {}
    for folder in folders:
        try:
            paths = sorted(path for path in folder.iterdir() if NAME.fullmatch(path.name))
            for path in paths:
                try:
                    file = stack.enter_context(path.open("rb"))
                except FileNotFoundError:  # it was the oldest
                    continue
                status = os.fstat(file.fileno())
                files.setdefault((status.st_dev, status.st_ino), (path, file))
        except OSError as error:
            raise UsageError(f"{error.filename or folder}: {error.strerror or error}") from None
        if not any(path.parent == folder for path, _ in files.values()):
            raise UsageError(
                f"{folder}: there are no log files (*{SUFFIX}); servers write them where "
                "LOG_FOLDER says, those of mpcsim serve to DATA/logs"
            )
    return list(files.values())


def parse_line(data: bytes, source: str) -> Line | None:
    """A line of a log file; None for anything else.

    Args:
        source: who wrote it.
    """
    try:
        document = json.loads(data)
        return _line(document, source)
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
        return None


def _line(said: Mapping[str, Any], source: str) -> Line:
    at = datetime.fromisoformat(said["time"])
    common = (
        at.replace(tzinfo=at.tzinfo or UTC).timestamp(),
        _text(said["role"]),
        source,
        _text(said.get("request_id", "")),
        _text(said.get("level", "")),
        _text(said["event"]),
    )
    if said["event"] != REQUEST or "method" not in said:
        return Line(*common)
    return Request(
        *common,
        method=_text(said["method"]),
        path=_text(said["path"]),
        status=int(said["status"]),
        took_ms=_ms(said["ms"]),
        user_id=_text(said.get("user_id", "")),
        key_id=_text(said.get("key_id", "")),
        session_id=_text(said.get("session_id", "")),
        error=_text(said.get("error", "")),
        code=_text(said.get("code", "")),
        why=_text(said.get("why", "")),
        broken_off=bool(said.get("broken_off", False)),
        exception=tuple(map(_text, said.get("exception", ()))),
        phases=tuple(Phase(_text(n), _ms(a), _ms(b)) for n, a, b in said.get("spans", ())),
        calls=tuple(_call(*each) for each in said.get("calls", ())),
    )


def _call(to: Any, method: Any, path: Any, began: Any, ended: Any, *counts: Any) -> Call:
    status, sent, got = map(int, counts)
    end = None if ended is None else _ms(ended)
    return Call(_text(to), _text(method), _text(path), _ms(began), end, status, sent, got)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _ms(value: Any) -> float:
    if not math.isfinite(number := float(value)):
        raise ValueError
    return number


def _process_name(path: Path) -> str:
    """The name that a process's files have in common."""
    found = NAME.fullmatch(path.name)
    assert found is not None
    return found[1]


def _with_plural(n: int, what: str) -> str:
    return f"{n} {what}" if n == 1 else f"{n} {what}s"


class LogFollower:
    """New lines of log files, as they are written."""

    def __init__(self, folders: Iterable[Path]) -> None:
        """Follow the log files from their present ends on.

        Raises:
            UsageError: as ``open_log_files``.
        """
        self._folders = list(folders)
        self._files: dict[tuple[int, int], tuple[Path, BinaryIO]] = {}
        self._open_new_files(new=False)

    def lines(self) -> Iterator[Line]:
        """Yield the lines that have been written since the last call."""
        there = self._open_new_files(new=True)
        for number, (path, file) in list(self._files.items()):
            while data := file.readline():
                if not data.endswith(b"\n"):
                    file.seek(-len(data), os.SEEK_CUR)
                    break
                if (line := parse_line(data, str(path.parent / _process_name(path)))) is not None:
                    yield line
            if number not in there:
                file.close()
                del self._files[number]

    def close(self) -> None:
        for _, file in self._files.values():
            file.close()
        self._files.clear()

    def _open_new_files(self, *, new: bool) -> set[tuple[int, int]]:
        """Open log files not seen before; return the device and inode numbers of all that there
        are.

        Args:
            new: those not seen before are read from their beginning.
        """
        there = set()
        with ExitStack() as stack:
            for path, file in open_log_files(self._folders, stack):
                status = os.fstat(file.fileno())
                there.add(number := (status.st_dev, status.st_ino))
                if number not in self._files:
                    kept = os.fdopen(os.dup(file.fileno()), "rb")
                    if not new:
                        kept.seek(0, os.SEEK_END)
                    self._files[number] = (path, kept)
        return there
