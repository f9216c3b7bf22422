"""Bounded FIFO queue for places: a keyed semaphore with a capacity and a longest wait.

The gateway has three: to sign with a key (one session), to make a key of a user and curve (one),
and to make any key (as many as ``--making-limit`` says).
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable
from contextlib import asynccontextmanager


class KeyQueue:
    """Keyed semaphore; requests beyond it wait in order, or with a capacity of 0 are refused."""

    def __init__(self, capacity: int, max_wait_s: float, slots: float = 1) -> None:
        """
        Args:
            capacity: requests that may wait for one key.
            max_wait_s: longest wait.
            slots: holders of one key at a time.
        """
        self.capacity = capacity
        self.max_wait_s = max_wait_s
        self.slots = slots
        self._holders: Counter[Hashable] = Counter()
        self.listener: Callable[[Hashable, bool], None] | None = None
        """Callback for each key that is taken (True) or given up (False)."""
        self._waiters: dict[Hashable, deque[asyncio.Future[None]]] = {}
        """Waiting requests of every key that is held."""

    def is_taken(self, key: Hashable) -> bool:
        """Return whether a key is held."""
        return key in self._waiters

    @property
    def holder_count(self) -> int:
        """Number of holders, of all keys together."""
        return sum(list(self._holders.values()))

    @property
    def waiting_count(self) -> int:
        """Number of waiting requests, for all keys together."""
        return sum(map(len, list(self._waiters.values())))

    async def acquire(
        self, key: Hashable, wait_for_disconnect: Callable[[], Awaitable[None]] | None = None
    ) -> Callable[[], None]:
        """Wait for a key.

        Args:
            wait_for_disconnect: awaitable that ends when the caller does not want the key any more.

        Returns:
            Callback that gives the key up; a second call does nothing.

        Raises:
            TimeoutError: the key is held, and the queue is full or moves too slowly, or the caller
                has disconnected.
        """
        waiters = self._waiters.setdefault(key, deque())
        if self._holders[key] < self.slots:
            self._holders[key] += 1
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
                    self._hand_on(key)  # granted just before the wait ended
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
        self._holders[key] -= 1
        if not self._holders[key]:
            del self._holders[key], self._waiters[key]


@asynccontextmanager
async def _until_disconnect(
    patience: asyncio.Timeout, wait_for_disconnect: Callable[[], Awaitable[None]] | None
) -> AsyncIterator[None]:
    """End a timeout early when the caller disconnects."""
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
