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

    def __init__(self, capacity: int, max_wait_s: float, slots: float = 1) -> None:
        """No key is taken.

        Args:
            capacity: how many may wait for one key.
            patience_s: how long one waits at most.
            places: how many may hold one key at a time.
        """
        self.capacity = capacity
        self.max_wait_s = max_wait_s
        self.slots = slots
        self._held: Counter[Hashable] = Counter()
        self.listener: Callable[[Hashable, bool], None] | None = None
        """Hears which key is taken (True) and given up (False)."""
        self._waiters: dict[Hashable, deque[asyncio.Future[None]]] = {}
        """Who waits, for every key that is held."""

    def is_taken(self, key: Hashable) -> bool:
        """Whether somebody holds the key."""
        return key in self._waiters

    @property
    def held(self) -> int:
        """How many places are taken, of all keys together."""
        return sum(list(self._held.values()))

    @property
    def waiting(self) -> int:
        """How many wait for one."""
        return sum(map(len, list(self._waiters.values())))

    async def acquire(
        self, key: Hashable, wait_for_disconnect: Callable[[], Awaitable[None]] | None = None
    ) -> Callable[[], None]:
        """Wait for the key; returns what gives it up (calling it twice does no harm).

        Args:
            gone: returns once nobody wants the key any more.

        Raises:
            TimeoutError: others hold it, and the queue is full or moves too slowly, or nobody
                wants it any more.
        """
        waiters = self._waiters.setdefault(key, deque())
        if self._held[key] < self.slots:
            self._held[key] += 1
        else:
            if len(waiters) >= self.capacity:
                raise TimeoutError
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            waiters.append(waiter)
            try:
                async with (
                    asyncio.timeout(self.max_wait_s) as patience,
                    _until_disconnect(patience, wait_for_disconnect),
                ):
                    await waiter
            except BaseException:
                if waiter.done() and not waiter.cancelled():
                    self._hand_on(key)  # it had just become ours
                elif waiter in waiters:
                    waiters.remove(waiter)
                raise
        released = False
        self._notify_listener(key, taken=True)

        def release() -> None:
            nonlocal released
            if not released:
                released = True
                self._notify_listener(key, taken=False)
                self._hand_on(key)

        return release

    def _notify_listener(self, key: Hashable, taken: bool) -> None:
        if self.listener is not None:
            self.listener(key, taken)

    def _hand_on(self, key: Hashable) -> None:
        waiters = self._waiters[key]
        while waiters:
            waiter = waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return
        self._held[key] -= 1
        if not self._held[key]:
            del self._held[key], self._waiters[key]


@asynccontextmanager
async def _until_disconnect(
    patience: asyncio.Timeout, wait_for_disconnect: Callable[[], Awaitable[None]] | None
) -> AsyncIterator[None]:
    """Patience ends as soon as somebody has gone."""
    if wait_for_disconnect is None:
        yield
        return
    loop = asyncio.get_running_loop()

    async def watch() -> None:
        await wait_for_disconnect()
        if not patience.expired():
            patience.reschedule(loop.time())

    watching = loop.create_task(watch())
    try:
        yield
    finally:
        watching.cancel()
