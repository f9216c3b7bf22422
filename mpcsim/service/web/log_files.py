"""The log files of a process: JSON lines, in a folder that those of other processes are in, too.

::

    FOLDER/gateway.jsonl  gateway.jsonl.1  ...  gateway.jsonl.4

The first is written to; when it is full it becomes the second, and so on, and the last goes. Of
several processes of one name, such as a node's workers, each has files of its own (``node.jsonl``,
``node-2.jsonl``, ...): a lock says which are taken.

Whoever has something to log never waits for a disk, and hears of no error: a thread writes, a few
times a second. If it cannot, that is said once where the process logs to otherwise; it keeps
trying, and says then how many lines are missing. What was not written yet is lost in a crash.

``logging.handlers`` has no file that several processes can claim, and none that goes on with a
whole line after a full disk. Its ``QueueListener`` writes each line alone: with a
``RotatingFileHandler`` it takes 57 us of a processor instead of 19, 6 of them in the event loop.
"""

from __future__ import annotations

import atexit
import errno
import fcntl
import json
import logging
import os
import threading
from collections import deque
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Final

from mpcsim.service.web.request_records import RequestRecord

LOG = logging.getLogger(__name__)

SUFFIX: Final = ".jsonl"
MAX_BYTES: Final = 10_000_000
"""Highest size of a file."""
FILES: Final = 5
"""Highest number of files of one name."""
EVERY_S: Final = 0.2
"""Seconds between two writes."""
MAX_WAITING: Final = 20_000
"""Lines that may wait to be written, some 20 MB of memory; then the oldest are missing."""
MAX_NAMES: Final = 100
_ENCODE: Final = json.JSONEncoder(separators=(",", ":")).encode


class LogFile:
    """A log file with its predecessors. Any thread may call."""

    def __init__(
        self, folder: Path, name: str, *, most_bytes: int = MAX_BYTES, files: int = FILES
    ) -> None:
        """
        Args:
            folder: made if need be.
            name: of the process; the file's without its number and suffix.
        """
        self.folder = folder
        self.name = name
        self._most_bytes = most_bytes
        self._files = files
        self._waiting: deque[RequestRecord | str] = deque(maxlen=MAX_WAITING)
        self.put: Callable[[RequestRecord | str], None] = self._waiting.append
        """Queue a line to be written: a request record, or JSON text."""
        self._missing = 0
        self._failing = False
        self._path: Path | None = None
        self._file: int | None = None
        self._lock_file: int | None = None
        self._size = 0
        self._ends_within_line = False
        """Whether the present file ends within a line."""
        self._writing = threading.Lock()
        """Held while the disk is waited for."""
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"log of {name}", daemon=True)
        self.flush()  # whoever starts a server sees at once that it cannot write
        self._thread.start()

    @property
    def path(self) -> Path | None:
        """Path of the present file; None: lines cannot be written now."""
        return self._path

    def flush(self) -> None:
        """Write what has come so far. Raises nothing."""
        failure: OSError | None = None
        missing = recovered = 0
        with self._writing:
            lines = self._take_waiting()
            try:
                self._ensure_open()
                missing, self._missing = self._missing, 0
                self._write([self._missing_lines_record(missing), *lines] if missing else lines)
                self._failing = False
                recovered = missing
            except OSError as error:
                self._missing += missing + len(lines)
                self._release()
                if not self._failing:
                    failure = error
                self._failing = True
        # Outside of the lock: what is logged comes back as a line.
        if failure is not None:
            LOG.error(
                "log files in %s: %s; what cannot be written will be missing there",
                self.folder,
                failure.strerror or failure,
            )
        elif recovered:
            LOG.warning("log files in %s: up to %d lines are missing", self.folder, recovered)

    def close(self) -> None:
        """Write the rest, and let go of the file."""
        self._closing.set()
        self._thread.join()
        self.flush()
        with self._writing:
            self._release()

    # ------------------------------------------------------------------ the writer's own

    def _run(self) -> None:
        while not self._closing.wait(EVERY_S):
            if self._waiting:
                self.flush()

    def _take_waiting(self) -> list[bytes]:
        """The lines that wait, encoded."""
        taken: list[bytes] = []
        if len(self._waiting) == MAX_WAITING:
            LOG.warning("log files in %s: the disk is so slow that lines are missing", self.folder)
        while self._waiting:
            line = self._waiting.popleft()
            try:
                text = line if isinstance(line, str) else _ENCODE(line.to_line())
            except Exception as error:  # no line is worth all that come after it
                LOG.error(
                    "log files in %s: a line is missing: %s", self.folder, type(error).__name__
                )
            else:
                taken.append(text.encode() + b"\n")
        return taken

    def _missing_lines_record(self, missing: int) -> bytes:
        event = f"up to {missing} lines before this one are missing: they could not be written"
        at = datetime.now(UTC).isoformat(timespec="microseconds")
        line = {"time": at, "role": self.name, "level": "WARNING", "event": event}
        return _ENCODE(line).encode() + b"\n"

    def _write(self, lines: list[bytes]) -> None:
        """Write lines, to as many files as it takes.

        Raises:
            OSError: none or not all of them have been written.
        """
        batch = bytearray(b"\n" if self._ends_within_line and lines else b"")
        for line in lines:
            if self._size + len(batch) + len(line) > self._most_bytes and self._size + len(batch):
                self._append(batch)
                self._rotate()
                batch.clear()
            batch += line
        self._append(batch)

    def _append(self, data: bytearray) -> None:
        assert self._file is not None
        view = memoryview(bytes(data))
        while view:
            self._ends_within_line = True
            written = os.write(self._file, view)
            self._size += written
            view = view[written:]
        if data:
            self._ends_within_line = False

    def _ensure_open(self) -> None:
        """Open the file unless it is open and still the one that its name leads to."""
        if self._file is not None:
            assert self._path is not None
            try:
                if os.path.samestat(os.stat(self._path), os.fstat(self._file)):
                    return
            except FileNotFoundError:
                pass
            self._release()
        try:
            for folder in (self.folder.parent, self.folder):
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except FileExistsError:
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR)) from None
        self._path = self._claim_path()
        self._open()

    def _claim_path(self) -> Path:
        """A file of this process's own."""
        for stem in _stems(self.name):
            lock = os.open(self.folder / f".{stem}.lock", os.O_CREAT | os.O_RDWR | _SAFE, 0o600)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(lock)
            except BaseException:
                os.close(lock)
                raise
            else:
                self._lock_file = lock
                return self.folder / (stem + SUFFIX)
        raise OSError(f"over {MAX_NAMES} processes write there")

    def _open(self) -> None:
        assert self._path is not None
        self._file = os.open(self._path, os.O_CREAT | os.O_RDWR | os.O_APPEND | _SAFE, 0o600)
        self._size = os.fstat(self._file).st_size
        self._ends_within_line = self._size > 0 and os.pread(self._file, 1, self._size - 1) != b"\n"

    def _rotate(self) -> None:
        """Begin a new file."""
        assert self._file is not None
        assert self._path is not None
        os.close(self._file)
        self._file = None
        numbered = [self._path, *(Path(f"{self._path}.{n}") for n in range(1, self._files))]
        for newer, older in reversed(list(pairwise(numbered))):
            if newer.exists():
                os.replace(newer, older)
        if self._files == 1:
            os.unlink(self._path)
        self._open()

    def _release(self) -> None:
        for opened in (self._file, self._lock_file):
            if opened is not None:
                os.close(opened)
        self._file = self._lock_file = self._path = None


_SAFE: Final = os.O_CLOEXEC | os.O_NOFOLLOW


def _stems(name: str) -> Iterator[str]:
    yield name
    for number in range(2, MAX_NAMES + 1):
        yield f"{name}-{number}"


@cache
def log_file(folder: Path, name: str) -> LogFile:
    """This process's log file of that name, which is closed when the process ends."""
    found = LogFile(folder, name)
    atexit.register(found.close)
    return found


class LogFileHandler(logging.Handler):
    """Log records into a log file, but for those that say so."""

    NOT_IN_FILES: Final = "not_in_files"
    """Extra member of log records that are in the files as request records."""

    def __init__(self, file: LogFile, formatter: logging.Formatter) -> None:
        super().__init__()
        self._log_file = file
        self.setFormatter(formatter)

    def emit(self, record: logging.LogRecord) -> None:
        """Never waits, and never raises."""
        if not getattr(record, self.NOT_IN_FILES, False):
            try:
                self._log_file.put(self.format(record))
            except Exception:
                self.handleError(record)
