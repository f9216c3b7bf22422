"""Work that is not left half done when whoever waits for it no longer does."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, TypeVar

from mpcsim.service.web import meter

T = TypeVar("T")
U = TypeVar("U")


async def shielded(work: Awaitable[T]) -> T:
    """Wait until work is done, even if the waiting is cancelled: that takes effect afterwards."""
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is None:
        return task.result()
    if not task.cancelled():
        task.exception()  # seen, if not heard
    raise cancelled


async def in_thread(function: Callable[..., T], *values: Any) -> T:
    """Call a function that computes long or waits for the disk; others go on meanwhile.

    A thread cannot be stopped. So the caller waits for it in any case, and what the caller holds
    a lock for is not done after the lock is gone.
    """
    return await shielded(asyncio.to_thread(meter.time_in_thread(partial(function, *values))))


async def gather_both(one: Awaitable[T], other: Awaitable[U]) -> tuple[T, U]:
    """Wait for two awaitables of different types as ``gather_all`` does."""
    first, second = await gather_all([one, other])
    return first, second  # type: ignore[return-value]


async def gather_all(calls: Sequence[Awaitable[T]]) -> list[T]:
    """Wait for every call, then raise the first error, if any: no call goes on unobserved."""
    results = await asyncio.gather(*calls, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return results  # type: ignore[return-value]
