"""A process that ends at one of its durable writes."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from mpcsim.service.storage.database import Database

NEVER = 10**9


class Crash(BaseException):
    """The process is gone."""


@contextmanager
def crashing(at: int, when: str) -> Iterator[list[str]]:
    """Crash before or after the commit of write number ``at`` (from 0); later writes never happen.

    Yields:
        The stores written to so far, in order: names of files without endings.
    """
    original = Database.transaction
    written: list[str] = []

    @contextmanager
    def transaction(database: Any) -> Iterator[Any]:
        number = len(written)
        written.append(Path(database._path).stem)
        if number > at or (number == at and when == "before"):
            raise Crash
        with original(database) as cursor:
            yield cursor
        if number == at:
            raise Crash

    Database.transaction = transaction  # type: ignore[method-assign,assignment]
    try:
        yield written
    finally:
        Database.transaction = original  # type: ignore[method-assign]


def no_waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is written survives the end of a process; only a power cut would be another matter."""
    original = Database.__init__

    def opened(database: Any, *arguments: Any) -> None:
        original(database, *arguments)
        database._writer.execute("PRAGMA synchronous = OFF")

    monkeypatch.setattr(Database, "__init__", opened)
