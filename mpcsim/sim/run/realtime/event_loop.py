"""Coroutines run in an event loop of their own, in a thread, for callers inside a running loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, TypeVar

T = TypeVar("T")


def has_running_loop() -> bool:
    """Return whether the caller is inside a running event loop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def run_in_own_loop(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in a thread with an event loop of its own, and wait for it.

    An interrupt cancels it.
    """
    result: Future[T] = Future()
    cancel: list[Callable[[], object]] = []
    given_up = threading.Event()

    async def watched() -> T:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        if task is not None:
            cancel.append(lambda: loop.call_soon_threadsafe(task.cancel))
            if given_up.is_set():  # before there was anything to cancel
                task.cancel()
        return await work

    def target() -> None:
        try:
            result.set_result(asyncio.run(watched()))
        except BaseException as error:
            result.set_exception(error)

    thread = threading.Thread(target=target, name="mpcsim real time")
    thread.start()
    try:
        return result.result()
    except BaseException:
        given_up.set()
        for stop in cancel:
            with suppress(RuntimeError):  # the loop is closed: it was the session that failed
                stop()
        raise
    finally:
        thread.join()
