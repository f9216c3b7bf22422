"""SQLite as all services here use it: durable at return, any thread.

``:memory:`` is the same code without a file, for notebooks and tests.
"""

from __future__ import annotations

import errno
import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from threading import RLock
from typing import Any, Final, TypeVar

from mpcsim.errors import MpcError
from mpcsim.service.error_codes import Code
from mpcsim.service.web import meter

IN_MEMORY: Final = ":memory:"
AT_HAND: Final = 10_000
"""Answers kept at hand while nothing is written."""
BUSY_S: Final = 5.0
"""Seconds to wait for another process that writes."""
PROBING_S: Final = 1.0
"""The same for whoever only wants to know whether something could be written."""
AGAIN_S: Final = 0.005
"""Seconds between two attempts at what SQLite does not wait for by itself."""
SMALLEST_WRITE: Final = 1 << 15
"""Bytes without which SQLite cannot even open a file: those of its shared index of the log."""

RESERVE_SUFFIX: Final = "-reserve"
RESERVE: Final = 1 << 18
"""Bytes that are kept on the disk for what must be written though it is full."""

LAYOUT: Final = 1
"""Version of all stores, in SQLite's ``user_version``. Any other is refused."""

_DEPLOYMENT: Final = """
CREATE TABLE IF NOT EXISTS deployment (id TEXT NOT NULL, role TEXT NOT NULL);
"""

T = TypeVar("T")


class StoreProblem(Enum):
    """Reason why a store cannot be used."""

    FULL = "no space is left on its disk"
    LOCKED = "another process keeps it locked"
    READ_ONLY = "it may not be written to"
    DAMAGED = "it is damaged, or not a store of this kind; put a whole one in its place"
    OTHER_VERSION = "it was written by another version of mpcsim, which alone can read it"
    OUT_OF_REACH = "it cannot be opened, read or written"


class StoreFailed(MpcError):
    """A store cannot be used. Nothing has changed, and nothing in it is lost by this."""

    def __init__(self, path: Path | str, trouble: StoreProblem, detail: str = "") -> None:
        """
        Args:
            detail: what the system says, if the trouble alone says too little.
        """
        super().__init__(f"{path}: {trouble.value}" + (f" ({detail})" if detail else ""))
        self.problem = trouble
        full = trouble is StoreProblem.FULL
        self.code = Code.DISK_FULL if full else Code.STORE_FAILED
        self.public_text = f"{Path(path).name}: {trouble.value}"
        """Text that may be shown to anyone."""


class CommitInDoubt(StoreFailed):
    """The disk failed while a change was written: this process goes on without the change, and the
    next one that opens the file may find it there."""


@dataclass(frozen=True)
class Deployment:
    """Deployment that a store is part of; written at its first start and never changed."""

    id: str
    """32 hex digits; the same in all stores of a gateway and its MPC nodes."""
    role: str
    """Role of the store's owner."""


def file_of(role: str) -> str:
    """The name of a store's file."""
    return f"{role}.sqlite"


class Database:
    """Two connections and their locks: reading does not wait for a commit that waits for the disk.

    In a file, reading sees what is committed, also inside a transaction.
    """

    def __init__(self, path: Path | str, schema: str) -> None:
        """Open or create the file (readable by its owner only) and the tables.

        Raises:
            StoreFailed: it cannot be opened or made, is damaged, or is something else.
        """
        self._path = path
        in_memory = str(path) == IN_MEMORY
        with self._translating_errors():
            if not in_memory:
                os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
            self._writer = _connect(path)
        self._writing = RLock()
        self.needs_emptying = False
        """Whether the log of writes may still have what was deleted since it was last empty, or
        what a change that failed has left there."""
        try:
            with self._translating_errors(opening=True):
                self._open(schema, in_memory)
        except BaseException:
            self._writer.close()
            raise

    def _open(self, schema: str, in_memory: bool) -> None:
        self._writer.execute("PRAGMA journal_mode = WAL")
        # A commit that has returned survives a power cut, not only a killed process.
        self._writer.execute("PRAGMA synchronous = FULL")
        self._writer.execute("PRAGMA foreign_keys = ON")
        # What is deleted is overwritten, whatever the library's default is.
        self._writer.execute("PRAGMA secure_delete = ON")
        # Nothing of a change is in a file before its commit.
        self._writer.execute("PRAGMA cache_spill = OFF")
        # Not the quick one, which leaves out whether indexes say what the tables say.
        if self._writer.execute("PRAGMA integrity_check(1)").fetchone() != ("ok",):
            raise self.damaged()
        (layout,) = self._writer.execute("PRAGMA user_version").fetchone()
        if layout not in (0, LAYOUT):
            raise StoreFailed(self._path, StoreProblem.OTHER_VERSION)
        if layout == 0:  # a new file; before its tables, so that a crash leaves no others
            if self._writer.execute("SELECT 1 FROM sqlite_master").fetchone():
                raise self.damaged()
            self._writer.execute(f"PRAGMA user_version = {LAYOUT}")
        self._writer.executescript(_DEPLOYMENT + schema)
        # A process that was killed may have left what it had deleted.
        self.needs_emptying = not self._empty_log()
        # What is in memory belongs to its connection.
        self._reader = self._writer if in_memory else _connect(self._path)
        self._reading = self._writing if in_memory else RLock()
        self._files = () if in_memory else (str(self._path), f"{self._path}-wal")
        self._cache: dict[str, tuple[object, Any]] = {}
        """Since this process last wrote: what has been read, and what the files were like then."""

    def deployment(self) -> Deployment | None:
        """Return the deployment of this store; None if that has not been written."""
        row = self.row("SELECT id, role FROM deployment")
        return None if row is None else Deployment(*row)

    def join(self, deployment: Deployment) -> None:
        """Make this store part of a deployment."""
        with self.transaction() as cursor:
            cursor.execute("DELETE FROM deployment")
            cursor.execute("INSERT INTO deployment VALUES (?, ?)", (deployment.id, deployment.role))

    def damaged(self, detail: str = "") -> StoreFailed:
        """Return the error to raise for contents that cannot be right."""
        return StoreFailed(self._path, StoreProblem.DAMAGED, detail)

    def rows(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        """
        Raises:
            StoreFailed: it cannot be read; so do all other methods.
        """
        try:
            with self._reading:
                return self._reader.execute(statement, values).fetchall()
        except sqlite3.Error as error:
            if failed := self._failure_of(error):
                raise failed from error
            raise

    def row(self, statement: str, *values: Any) -> tuple[Any, ...] | None:
        """The first row, if any."""
        return next(iter(self.rows(statement, *values)), None)

    def read_cached(self, name: str, read: Callable[[], T]) -> T:
        """Return the last result of ``read`` for that name, if the files are unchanged since.

        Checking the files costs less than reading what is in them.

        Raises:
            StoreFailed: it cannot be read.
        """
        known, now = self._cache, self._files_version()
        with suppress(KeyError):
            then, found = known[name]
            if then == now:
                return found  # type: ignore[no-any-return]
        made = read()
        if len(known) >= AT_HAND:
            known.clear()
        known[name] = now, made  # for nobody, if this process has written meanwhile
        return made

    def _files_version(self) -> object:
        """Return a value that differs whenever anybody has changed the files."""
        state: list[int] = []
        try:
            for path in self._files:
                found = os.stat(path)
                state += (found.st_mtime_ns, found.st_size, found.st_ino)
        except OSError:
            return object()
        return state

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Cursor]:
        """Run the block as one transaction, which is durable when the block is left.

        Raises:
            CommitInDoubt: all or nothing, but only the next start will see which.
        """
        with self._writing, self._translating_errors():
            cursor = self._writer.cursor()
            cursor.execute("BEGIN IMMEDIATE")
            try:
                yield cursor
                with meter.time_disk_wait():
                    cursor.execute("COMMIT")
            except BaseException as error:
                if self._writer.in_transaction:  # a full disk, for one, has ended it already
                    cursor.execute("ROLLBACK")
                if _may_be_in_log(error):
                    self.needs_emptying = not self._undo_in_log()
                    if self.needs_emptying and _may_be_written(error):
                        raise CommitInDoubt(self._path, StoreProblem.OUT_OF_REACH) from error
                raise
            finally:
                # The clock of files is too coarse to tell two writes in a row apart.
                self._cache = {}

    def hold_reserve(self) -> None:
        """Keep some room on the disk for ``urgently``, if there is any."""
        if not self._files:
            return
        held = None
        with suppress(OSError):
            if os.stat(self._reserve).st_size == RESERVE:
                return
        try:
            held = os.open(self._reserve, os.O_CREAT | os.O_WRONLY, 0o600)
            os.posix_fallocate(held, 0, RESERVE)
        except OSError:
            self._give_up_reserve()
        finally:
            if held is not None:
                os.close(held)

    def _give_up_reserve(self) -> bool:
        """Return whether there was any."""
        with suppress(OSError):
            os.unlink(self._reserve)
            return True
        return False

    @property
    def _reserve(self) -> str:
        return f"{self._path}{RESERVE_SUFFIX}"

    def write_urgently(self, change: Callable[[], T]) -> T:
        """Make a change for which room is kept: if the disk is full, that is given up for it.

        Raises:
            StoreFailed: it cannot be made all the same.
        """
        try:
            return change()
        except StoreFailed as failed:
            if failed.problem is not StoreProblem.FULL or not self._give_up_reserve():
                raise
            return change()

    def _undo_in_log(self) -> bool:
        """Take what a failed commit has left in the log out of it; whether that was possible."""
        try:
            return self._empty_log()
        except sqlite3.Error:
            return False

    def _empty_log(self) -> bool:
        """Move all of the log of writes into the file; False if another process was in the way for
        as long as that is waited for.

        For readers and writers SQLite waits by itself, but not for another process that moves the
        log just then, as any may that writes (sqlite.org/c3ref/wal_checkpoint_v2.html).
        """
        end = time.monotonic() + BUSY_S
        while self._writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]:
            if time.monotonic() >= end:
                return False
            time.sleep(AGAIN_S)
        return True

    def forget(self) -> None:
        """Leave nothing of what was deleted in the log of writes either.

        Raises:
            StoreFailed: another process keeps it locked. What was changed has changed; the next
                time, or the next start, empties the log.
        """
        with self._writing, self._translating_errors():
            self.needs_emptying = True
            if not self._empty_log():
                raise StoreFailed(self._path, StoreProblem.LOCKED)
            self.needs_emptying = False

    def sweep(self, *, others: bool = False) -> None:
        """``forget`` what could not be forgotten when it was deleted, if there is anything.

        Args:
            others: also what another process may have deleted: whatever is in the log.

        Raises:
            StoreFailed: it cannot be forgotten yet.
        """
        if self.needs_emptying or (others and self.sizes().get("log")):
            self.forget()

    # ------------------------------------------------------------------ the files, from outside

    def sizes(self) -> dict[str, int]:
        """Bytes of the files that are there: ``database``, and ``log``, that of writes. None for a
        store in memory."""
        found = {}
        for name, path in zip(("database", "log"), self._files, strict=False):
            with suppress(OSError):
                found[name] = os.stat(path).st_size
        return found

    def free_bytes(self) -> int | None:
        """Room on the disk; None: there is no file, or the disk does not say."""
        return _free_bytes(Path(self._path).parent) if self._files else None

    def write_failure(self) -> StoreFailed | None:
        """Return the reason why nothing could be written now; None: it could.

        Nothing is written: the write lock is taken and given back at once, over a connection of its
        own, for which no other of this process waits.
        """
        if not self._files:
            return None
        try:
            with self._translating_errors():
                os.stat(self._path)  # opening it would make a new one
                if not os.access(self._path, os.W_OK):
                    raise PermissionError(errno.EACCES, "")
                if _is_disk_full(Path(self._path).parent):
                    raise OSError(errno.ENOSPC, "")
                with closing(_connect(self._path, PROBING_S)) as probing:
                    probing.execute("BEGIN IMMEDIATE")
                    probing.execute("ROLLBACK")
        except StoreFailed as failed:
            return failed
        return None

    def close(self) -> None:
        with self._writing, self._reading:
            self._reader.close()
            self._writer.close()

    @contextmanager
    def _translating_errors(self, opening: bool = False) -> Iterator[None]:
        """Raise ``StoreFailed`` for what the system says; with ``opening`` for any error."""
        try:
            yield
        except (OSError, sqlite3.Error) as error:
            if failed := self._failure_of(error):
                raise failed from error
            if opening:  # tables of another layout
                raise StoreFailed(self._path, StoreProblem.DAMAGED, str(error)) from error
            raise

    def _failure_of(self, error: OSError | sqlite3.Error) -> StoreFailed | None:
        """None for what is no trouble of the store but of its use: a constraint, for one."""
        if isinstance(error, OSError):
            trouble = _BY_ERRNO.get(error.errno or 0, StoreProblem.OUT_OF_REACH)
            detail = error.strerror or ""
        elif (code := getattr(error, "sqlite_errorcode", None)) is None:
            # Text that is none: the library finds it, not SQLite.
            found = isinstance(error, sqlite3.OperationalError)
            return StoreFailed(self._path, StoreProblem.DAMAGED) if found else None
        elif (code & 0xFF) in _BY_CODE:
            trouble, detail = _BY_CODE[code & 0xFF], error.sqlite_errorname
        else:
            return None
        if trouble is not StoreProblem.OUT_OF_REACH:
            return StoreFailed(self._path, trouble)
        if _is_disk_full(Path(self._path).parent):
            return StoreFailed(self._path, StoreProblem.FULL)
        return StoreFailed(self._path, trouble, detail)


_BY_ERRNO: Final = {
    errno.ENOSPC: StoreProblem.FULL,
    errno.EDQUOT: StoreProblem.FULL,
    errno.EROFS: StoreProblem.READ_ONLY,
    errno.EACCES: StoreProblem.READ_ONLY,
    errno.EPERM: StoreProblem.READ_ONLY,
}
_BY_CODE: Final = {
    sqlite3.SQLITE_FULL: StoreProblem.FULL,
    sqlite3.SQLITE_BUSY: StoreProblem.LOCKED,
    sqlite3.SQLITE_LOCKED: StoreProblem.LOCKED,
    sqlite3.SQLITE_READONLY: StoreProblem.READ_ONLY,
    sqlite3.SQLITE_CORRUPT: StoreProblem.DAMAGED,
    sqlite3.SQLITE_NOTADB: StoreProblem.DAMAGED,
    sqlite3.SQLITE_IOERR: StoreProblem.OUT_OF_REACH,
    sqlite3.SQLITE_CANTOPEN: StoreProblem.OUT_OF_REACH,
    sqlite3.SQLITE_PERM: StoreProblem.READ_ONLY,
}
"""Problem by the primary code, the low byte (sqlite.org/rescode.html)."""


def _may_be_written(error: BaseException) -> bool:
    """Return whether a change that failed so may be in the log: the disk has it, but not for
    sure."""
    code = getattr(error, "sqlite_errorcode", 0)
    return isinstance(error, sqlite3.Error) and code & 0xFF == sqlite3.SQLITE_IOERR


def _may_be_in_log(error: BaseException) -> bool:
    """Return whether pieces of a change that failed so may be in the log, behind its end: on a full
    disk, for one, as much as there was room for."""
    constraint = isinstance(error, sqlite3.IntegrityError)
    return isinstance(error, sqlite3.Error) and not constraint


def _is_disk_full(folder: Path) -> bool:
    """Return whether a disk is full. SQLite says so of a full one only where it writes to the file
    itself or its log."""
    room = _free_bytes(folder)
    return room is not None and room < SMALLEST_WRITE


def _free_bytes(folder: Path) -> int | None:
    """Bytes that are free on a disk."""
    try:
        found = os.statvfs(folder)
    except OSError:
        return None
    return found.f_bavail * found.f_frsize


def _connect(path: Path | str, patience_s: float | None = None) -> sqlite3.Connection:
    timeout = BUSY_S if patience_s is None else patience_s
    # Transactions are written out above: begun explicitly, never by the driver.
    made = sqlite3.connect(path, timeout=timeout, isolation_level=None, check_same_thread=False)
    return keep_temporary_data_in_memory(made)


def keep_temporary_data_in_memory(connection: sqlite3.Connection) -> sqlite3.Connection:
    """Make SQLite sort, and keep its rollback data, in memory.

    Else they are written to the system's folder for temporary files, where nobody overwrites them.
    """
    connection.execute("PRAGMA temp_store = MEMORY")
    return connection
