"""One session a key at a time, and a bounded queue for those who would rather wait."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Hashable


class KeyQueue:
    """One holder a key; others wait, or with a capacity of 0 are refused at once."""

    def __init__(self, capacity: int, patience_s: float) -> None:
        """No key is taken.

        Args:
            capacity: how many may wait for one key.
            patience_s: how long one waits at most.
        """
        self.capacity = capacity
        self.patience_s = patience_s
        self._lines: dict[Hashable, deque[asyncio.Future[None]]] = {}
        """Who waits, for every key that is taken."""

    def taken(self, key: Hashable) -> bool:
        """Whether somebody holds the key."""
        return key in self._lines

    async def take(self, key: Hashable) -> Callable[[], None]:
        """Wait for the key; returns what gives it up (calling it twice does no harm).

        Raises:
            TimeoutError: somebody else holds it, and the queue is full or moves too slowly.
        """
        line = self._lines.get(key)
        if line is None:
            self._lines[key] = deque()
        else:
            if len(line) >= self.capacity:
                raise TimeoutError
            place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            line.append(place)
            try:
                async with asyncio.timeout(self.patience_s):
                    await place
            except BaseException:
                if place.done() and not place.cancelled():
                    self._next(key)  # it had just become ours
                elif place in line:
                    line.remove(place)
                raise
        given_up = False

        def leave() -> None:
            nonlocal given_up
            if not given_up:
                given_up = True
                self._next(key)

        return leave

    def _next(self, key: Hashable) -> None:
        line = self._lines[key]
        while line:
            place = line.popleft()
            if not place.done():
                place.set_result(None)
                return
        del self._lines[key]
