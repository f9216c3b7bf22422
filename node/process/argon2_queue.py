"""Queue of Argon2id computations, fair between users: many passwords of one hold up nobody else.

A computation takes a core and 64 MiB for 50 ms and more, so the number of concurrent ones is
bounded. The others wait: those of one user in order of arrival, and users are served round robin
(``FairScheduler``). The number that may wait is bounded for each user and in all; beyond that a
request is refused.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, Final, Generic, TypeVar

from mpcsim.resource_limits import memory_limit, usable_cores
from mpcsim.service.web import meter
from node.errors import CallerGone, PasswordsBusy

T = TypeVar("T")

MAX_WAITING: Final = 256
"""Highest number of waiting computations: 13 to 25 s of computing on one core; most
callers wait for 30 s."""
MAX_WAITING_PER_USER: Final = 16
"""Highest number of waiting computations of one user."""
NICE: Final = 10
"""Niceness of the threads (Linux). They keep the interpreter lock for moments only, in which a
higher one would hold up everybody."""


COMPUTATION_BYTES: Final = 64 << 20
"""Memory of a computation, with the cost of new vaults."""
OTHER_BYTES: Final = 128 << 20
"""Memory of a process without its computations, and some to spare."""


def default_concurrency(workers: int = 1) -> int:
    """Return the number of computations at a time, for each of so many processes, at least 1.

    A core stays for signing, where there are two or more, and a limit of memory is kept
    (``mpcsim.resource_limits``).
    """
    places = (usable_cores() - 1) // workers
    if (memory := memory_limit()) is not None:
        places = min(places, (memory // workers - OTHER_BYTES) // COMPUTATION_BYTES)
    return max(1, places)


class QueueFull(Exception):
    """The queue is full."""


class FairScheduler(Generic[T]):
    """Round robin over users; the items of one user keep their order."""

    def __init__(self, in_all: int = MAX_WAITING, of_one: int = MAX_WAITING_PER_USER) -> None:
        """
        Args:
            in_all: how many may wait.
            of_one: how many of one user.
        """
        self.in_all = in_all
        self.of_one = of_one
        self._lines: OrderedDict[str, deque[T]] = OrderedDict()
        """Waiting items by user, the next user's first; no queue is empty."""
        self._count = 0

    def __len__(self) -> int:
        """Return the number of waiting items."""
        return self._count

    @property
    def users(self) -> int:
        """Number of users that wait."""
        return len(self._lines)

    def check(self, user: str) -> None:
        """
        Raises:
            Full: this user has to wait until there is room.
        """
        if self._count >= self.in_all or len(self._lines.get(user, ())) >= self.of_one:
            raise QueueFull

    def add(self, user: str, item: T) -> None:
        """Line up.

        Raises:
            Full: there is no room.
        """
        self.check(user)
        self._lines.setdefault(user, deque()).append(item)
        self._count += 1

    def next(self) -> T | None:
        """Remove and return the next item; None if nothing waits. Its user's turn comes again after
        the others'."""
        if not self._lines:
            return None
        user, line = self._lines.popitem(last=False)
        item = line.popleft()
        if line:
            self._lines[user] = line
        self._count -= 1
        return item

    def remove(self, user: str, item: T) -> bool:
        """Leave; False if it does not wait (any more)."""
        line = self._lines.get(user, deque())
        try:
            line.remove(item)
        except ValueError:
            return False
        if not line:
            del self._lines[user]
        self._count -= 1
        return True


class Computation(Generic[T]):
    """Computation in the queue, or in a thread."""

    def __init__(self, user: str, work: Callable[[], T], queue: Argon2Queue) -> None:
        self.user = user
        self.work = work
        self.future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        """Future result; cancelled if nobody waits for its turn any more."""
        self.watcher: asyncio.Task[None] | None = None
        """Whether whoever asked is still there."""
        self._queue = queue

    async def result(self) -> T:
        """Wait for it; whoever is cancelled meanwhile gives up its turn.

        Raises:
            CallerGone: it has gone before its turn came.
        """
        try:
            return await asyncio.shield(self.future)
        except asyncio.CancelledError:
            self.abandon()
            raise

    def abandon(self) -> None:
        """Give up the computation if its turn has not come. A running one cannot be stopped."""
        if self._queue.drop(self):
            self.future.cancel()

    def on_caller_gone(self) -> None:
        """Fail the computation because its caller has hung up; otherwise as ``abandon``."""
        if self._queue.drop(self):
            self.future.set_exception(CallerGone())
            self.future.exception()  # maybe nobody asks


class Argon2Queue:
    """Threads, and who waits for one. Everything but the computing is in the event loop."""

    def __init__(
        self,
        places: int | None = None,
        turns: FairScheduler[Computation[Any]] | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """
        Args:
            places: computations at a time; by default ``default_concurrency()``.
            turns: who may wait.
            clock: monotonic seconds, for what the listener hears.
        """
        self.places = places or default_concurrency()
        self.listener: Callable[[float], None] | None = None
        """Hears how many seconds each has waited, when its turn comes."""
        self.running = 0
        """Number of computations that are running."""
        self._scheduler: FairScheduler[Computation[Any]] = (
            FairScheduler() if turns is None else turns
        )
        self._since: dict[Computation[Any], float] = {}
        self._clock = clock
        self._pool = ThreadPoolExecutor(
            self.places, thread_name_prefix="node argon2", initializer=_lower_priority
        )

    @property
    def waiting(self) -> int:
        """Number of computations that wait."""
        return len(self._scheduler)

    def check(self, user: str) -> None:
        """Check that there is room, before anything is begun that leads here.

        Raises:
            PasswordsBusy: there is none now.
        """
        try:
            if self.running >= self.places:
                self._scheduler.check(user)
        except QueueFull:
            raise PasswordsBusy from None

    def submit(
        self,
        user: str,
        work: Callable[[], T],
        gone: Callable[[], Coroutine[Any, Any, None]] | None = None,
    ) -> Computation[T]:
        """Compute in a thread, when it is this user's turn.

        Args:
            gone: returns once nobody waits for the result.

        Raises:
            PasswordsBusy: too many wait already; nothing will be computed.
        """
        self.check(user)
        asked = Computation(user, meter.time_in_thread(work, locks=False), self)
        if self.running < self.places:
            self._begin(asked, 0.0)
            return asked
        self._scheduler.add(user, asked)
        self._since[asked] = self._clock()
        if gone is not None:
            asked.watcher = asyncio.create_task(_drop_when_gone(gone(), asked))
        return asked

    def drop(self, asked: Computation[Any]) -> bool:
        """Take it out of the queue; False if it is not there."""
        if not self._scheduler.remove(asked.user, asked):
            return False
        self._end_waiting(asked)
        return True

    def close(self) -> None:
        """Cancel all waiting computations; running ones are left alone."""
        while (asked := self._scheduler.next()) is not None:
            self._end_waiting(asked)
            asked.future.cancel()
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _end_waiting(self, asked: Computation[Any]) -> float:
        """End the waiting of a computation, and return how long it was."""
        if asked.watcher is not None:
            asked.watcher.cancel()
        return self._clock() - self._since.pop(asked)

    def _begin(self, asked: Computation[Any], waited_s: float) -> None:
        self.running += 1
        if self.listener is not None:
            self.listener(waited_s)
        working = asyncio.get_running_loop().run_in_executor(self._pool, asked.work)
        working.add_done_callback(lambda done: self._done(asked, done))

    def _done(self, asked: Computation[Any], done: asyncio.Future[Any]) -> None:
        self.running -= 1
        if done.cancelled():  # the node stops
            asked.future.cancel()
            return
        if (error := done.exception()) is not None:
            asked.future.set_exception(error)
            asked.future.exception()  # maybe nobody asks
        else:
            asked.future.set_result(done.result())
        if (following := self._scheduler.next()) is not None:
            self._begin(following, self._end_waiting(following))


async def _drop_when_gone(gone: Awaitable[None], asked: Computation[Any]) -> None:
    await gone
    asked.on_caller_gone()


def _lower_priority() -> None:
    """Lower the thread's priority where threads have one of their own."""
    if sys.platform == "linux":
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICE)
