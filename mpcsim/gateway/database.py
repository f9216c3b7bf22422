"""SQLite as all services here use it: durable at return, one connection, any thread.

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
    """A connection and its lock."""

    def __init__(self, path: Path | str, schema: str) -> None:
        """Open or create the file (readable by its owner only) and the tables.

        Raises:
            sqlite3.DatabaseError: not a database, or one of another layout.
        """
        self._lock = RLock()
        if str(path) != IN_MEMORY:
            os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
        # Transactions are written out below: begun explicitly, never by the driver.
        self._connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        self._connection.execute("PRAGMA journal_mode = WAL")
        # A commit that has returned survives a power cut, not only a killed process.
        self._connection.execute("PRAGMA synchronous = FULL")
        self._connection.execute("PRAGMA foreign_keys = ON")
        self._connection.executescript(schema)

    def rows(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        with self._lock:
            return self._connection.execute(statement, values).fetchall()

    def row(self, statement: str, *values: Any) -> tuple[Any, ...] | None:
        """The first row, if any."""
        with self._lock:
            found: tuple[Any, ...] | None = self._connection.execute(statement, values).fetchone()
            return found

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Cursor]:
        """All of it or nothing; durable when the block is left."""
        with self._lock:
            cursor = self._connection.cursor()
            cursor.execute("BEGIN IMMEDIATE")
            try:
                yield cursor
            except BaseException:
                cursor.execute("ROLLBACK")
                raise
            cursor.execute("COMMIT")

    def close(self) -> None:
        with self._lock:
            self._connection.close()
