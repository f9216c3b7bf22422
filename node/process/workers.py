"""Workers for long computations, and for tasks that outlive their request.

Two pools of threads for the whole node bound how many computations, and how much memory of
Argon2id, there are at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, TypeVar

from mpcsim.resource_limits import usable_cores
from mpcsim.service.web import meter
from node.process.argon2_queue import Argon2Queue

T = TypeVar("T")

THREADS: Final = usable_cores() + 1
"""Number of threads: one more than can run at a time, since some wait for the interpreter lock."""
CLOSING_S: Final = 5.0
"""Seconds that background tasks may take when the node stops."""


class Workers:
    """Threads, and tasks that outlive the request that began them."""

    def __init__(self, argon2: Argon2Queue | None = None) -> None:
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="node worker")
        # Apart: many passwords must not hold up anybody's key generation.
        self.argon2 = argon2 or Argon2Queue()
        self._tasks: set[asyncio.Task[Any]] = set()

    def submit(self, work: Callable[[], T]) -> asyncio.Future[T]:
        """Run a computation in a thread.

        It cannot be stopped once it runs: await the result under ``asyncio.shield``, so that a
        request that is given up leaves at once and the result still arrives.
        """
        future = asyncio.get_running_loop().run_in_executor(self._pool, meter.time_in_thread(work))
        future.add_done_callback(_retrieve_exception)
        return future

    def run_in_background(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Run a coroutine that goes on even if whoever began it is gone."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(_retrieve_exception)
        return task

    async def close(self) -> None:
        """Wait for background tasks for a while; then stop."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=CLOSING_S)
        for task in self._tasks:
            task.cancel()
        self._pool.shutdown(wait=False, cancel_futures=True)
        self.argon2.close()


def _retrieve_exception(future: asyncio.Future[Any]) -> None:
    """Retrieve a future's exception: its waiters have it, and without any it need not be
    reported."""
    if not future.cancelled():
        future.exception()
