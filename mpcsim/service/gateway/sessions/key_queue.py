"""So many at a time, and a bounded queue for those who would rather wait.

Of one key, one session at a time; of all keys that are being made, as many as the gateway is told.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable
from contextlib import asynccontextmanager


class KeyQueue:
    """So many holders a key; others wait in order, or with a capacity of 0 are refused at once."""

    def __init__(self, capacity: int, patience_s: float, places: float = 1) -> None:
        """No key is taken.

        Args:
            capacity: how many may wait for one key.
            patience_s: how long one waits at most.
            places: how many may hold one key at a time.
        """
        self.capacity = capacity
        self.patience_s = patience_s
        self.places = places
        self._held: Counter[Hashable] = Counter()
        self.listener: Callable[[Hashable, bool], None] | None = None
        """Hears which key is taken (True) and given up (False)."""
        self._lines: dict[Hashable, deque[asyncio.Future[None]]] = {}
        """Who waits, for every key that is held."""

    def taken(self, key: Hashable) -> bool:
        """Whether somebody holds the key."""
        return key in self._lines

    @property
    def held(self) -> int:
        """How many places are taken, of all keys together."""
        return sum(list(self._held.values()))

    @property
    def waiting(self) -> int:
        """How many wait for one."""
        return sum(map(len, list(self._lines.values())))

    async def take(
        self, key: Hashable, gone: Callable[[], Awaitable[None]] | None = None
    ) -> Callable[[], None]:
        """Wait for the key; returns what gives it up (calling it twice does no harm).

        Args:
            gone: returns once nobody wants the key any more.

        Raises:
            TimeoutError: others hold it, and the queue is full or moves too slowly, or nobody
                wants it any more.
        """
        line = self._lines.setdefault(key, deque())
        if self._held[key] < self.places:
            self._held[key] += 1
        else:
            if len(line) >= self.capacity:
                raise TimeoutError
            place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            line.append(place)
            try:
                async with asyncio.timeout(self.patience_s) as patience, _watched(patience, gone):
                    await place
            except BaseException:
                if place.done() and not place.cancelled():
                    self._next(key)  # it had just become ours
                elif place in line:
                    line.remove(place)
                raise
        given_up = False
        self._tell(key, taken=True)

        def leave() -> None:
            nonlocal given_up
            if not given_up:
                given_up = True
                self._tell(key, taken=False)
                self._next(key)

        return leave

    def _tell(self, key: Hashable, taken: bool) -> None:
        if self.listener is not None:
            self.listener(key, taken)

    def _next(self, key: Hashable) -> None:
        line = self._lines[key]
        while line:
            place = line.popleft()
            if not place.done():
                place.set_result(None)
                return
        self._held[key] -= 1
        if not self._held[key]:
            del self._held[key], self._lines[key]


@asynccontextmanager
async def _watched(
    patience: asyncio.Timeout, gone: Callable[[], Awaitable[None]] | None
) -> AsyncIterator[None]:
    """Patience ends as soon as somebody has gone."""
    if gone is None:
        yield
        return
    loop = asyncio.get_running_loop()

    async def watch() -> None:
        await gone()
        if not patience.expired():
            patience.reschedule(loop.time())

    watching = loop.create_task(watch())
    try:
        yield
    finally:
        watching.cancel()
