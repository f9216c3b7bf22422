"""Locks for tests of who waits for whom."""

from __future__ import annotations

import threading


class AnnouncingLock:
    """A re-entrant lock that sets an event when somebody has to wait for it."""

    def __init__(self, waited_for: threading.Event) -> None:
        self._lock, self._waited_for = threading.RLock(), waited_for
        self.release = self._lock.release

    def acquire(self, timeout: float = -1) -> bool:
        if self._lock.acquire(blocking=False):
            return True
        self._waited_for.set()
        return self._lock.acquire(timeout=timeout)

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()
