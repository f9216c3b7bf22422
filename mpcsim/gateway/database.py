"""SQLite as all services here use it: durable at return, any thread.

``:memory:`` is the same code without a file, for notebooks and tests.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import RLock
from typing import Any, Final

IN_MEMORY: Final = ":memory:"


class Database:
    """Two connections and their locks: reading does not wait for a commit that waits for the disk.

    In a file, reading sees what is committed, also inside a transaction.
    """

    def __init__(self, path: Path | str, schema: str) -> None:
        """Open or create the file (readable by its owner only) and the tables.

        Raises:
            OSError: the file cannot be opened or made.
            sqlite3.Error: not a database, or one of another layout.
        """
        in_memory = str(path) == IN_MEMORY
        if not in_memory:
            os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
        self._writer = _connect(path)
        self._writing = RLock()
        try:
            self._writer.execute("PRAGMA journal_mode = WAL")
            # A commit that has returned survives a power cut, not only a killed process.
            self._writer.execute("PRAGMA synchronous = FULL")
            self._writer.execute("PRAGMA foreign_keys = ON")
            # What is deleted is overwritten, whatever the library's default is.
            self._writer.execute("PRAGMA secure_delete = ON")
            self._writer.executescript(schema)
            # What is in memory belongs to its connection.
            self._reader = self._writer if in_memory else _connect(path)
            self._reading = self._writing if in_memory else RLock()
        except BaseException:
            self._writer.close()
            raise

    def rows(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        with self._reading:
            return self._reader.execute(statement, values).fetchall()

    def row(self, statement: str, *values: Any) -> tuple[Any, ...] | None:
        """The first row, if any."""
        return next(iter(self.rows(statement, *values)), None)

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Cursor]:
        """All of it or nothing; durable when the block is left."""
        with self._writing:
            cursor = self._writer.cursor()
            cursor.execute("BEGIN IMMEDIATE")
            try:
                yield cursor
                cursor.execute("COMMIT")
            except BaseException:
                if self._writer.in_transaction:  # a full disk, for one, has ended it already
                    cursor.execute("ROLLBACK")
                raise

    def forget(self) -> None:
        """Leave nothing of what was deleted in the log of writes either."""
        with self._writing:
            self._writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    def close(self) -> None:
        with self._writing, self._reading:
            self._reader.close()
            self._writer.close()


def _connect(path: Path | str) -> sqlite3.Connection:
    # Transactions are written out above: begun explicitly, never by the driver.
    return sqlite3.connect(path, isolation_level=None, check_same_thread=False)
