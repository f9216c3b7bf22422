"""Measure what each request costs a server, by what made it go on: input of the capacity model.

Off, unless the variable ``MPCSIM_METER`` names a folder. Then the middleware ``MeterMiddleware``
times the server's tasks step by step, and one line a request is written at the end (the file is
named after the process id): its parts, one for the request's arrival and one for each reply that it
waited for, with the CPU time of the event loop, iteration by iteration and after the last send, the
CPU time of threads, and the time spent waiting for the disk. What an event loop does outside of
tasks (parsing, system calls) is in no line; it is known from the CPU time of the whole process.

With ``MPCSIM_METER_CURVES`` set, too, the lines also say how much of these times the libraries of
curve arithmetic took. That slows Python down: such times are good for this only.
"""

from __future__ import annotations

import asyncio
import atexit
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Generator, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import astuple, dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any, Final, TypeVar

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mpcsim.service.web import request_ids

T = TypeVar("T")

VARIABLE: Final = "MPCSIM_METER"
CURVES_VARIABLE: Final = "MPCSIM_METER_CURVES"
ON: Final = VARIABLE in os.environ
CURVES: Final = CURVES_VARIABLE in os.environ
_CURVE_LIBRARIES: Final = ("_libsecp256k1", "_sodium")


@dataclass
class RequestPart:
    """Cost of a request from one arrival to the next. Nanoseconds."""

    what: str
    """``request``, or whose answer it is: ``http://127.0.0.1:20001/sign``."""
    loop: int = 0
    """CPU time in the event loop until a thread is asked for something;"""
    after: int = 0
    """and from then on."""
    later: int = 0
    """CPU time in the event loop after the last thing that was sent; in neither of these. (Where a
    thread was asked for something, that is not told apart.)"""
    thread: int = 0
    """CPU time in threads that hold the interpreter lock."""
    free: int = 0
    """CPU time in threads that do not."""
    loop_disk: int = 0
    thread_disk: int = 0
    loop_curve: int = 0
    """Curve arithmetic in the event loop."""
    thread_curve: int = 0
    turns: list[int] = field(default_factory=list)
    """Parts of ``loop``: steps in different iterations of the event loop, between which other tasks
    run."""


@dataclass
class RequestCosts:
    """A request."""

    request_id: str | None
    path: str
    began: float
    parts: list[RequestPart] = field(default_factory=list)
    in_thread: RequestPart | None = None
    """The last one for which a thread was asked for something."""
    turn: int = 0
    """Number of the event loop's turn in which it went on last."""
    sends: RequestPart | None = None
    """The last one that has sent something,"""
    sent: int = 0
    """and when, by the thread's clock."""


_CURRENT: Final[ContextVar[RequestCosts | None]] = ContextVar("account", default=None)
_ENDED: Final[list[RequestCosts]] = []


class MeterMiddleware:
    """ASGI middleware: opens an account for each request."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app
        self._installed = False
        atexit.register(write_costs, Path(os.environ[VARIABLE], f"{os.getpid()}.jsonl"))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        if not self._installed:
            asyncio.get_running_loop().set_task_factory(_timed_task)
            if CURVES:
                sys.setprofile(_CLOCK.on_profile_event)
            self._installed = True
        account = RequestCosts(
            request_ids.current_request_id(),
            scope["path"],
            time.monotonic(),
            [RequestPart("request")],
        )
        # Never put back: the task's last step is part of it.
        _CURRENT.set(account)
        _ENDED.append(account)

        async def telling(message: Message) -> None:
            await send(message)
            on_sent()

        await self.app(scope, receive, telling)


def on_reply(what: str) -> None:
    """An answer has come that the present request has waited for."""
    if ON and (account := _CURRENT.get()) is not None:
        account.parts.append(RequestPart(what))


def on_sent() -> None:
    """Note that something has been sent on behalf of the present request."""
    if ON and (account := _CURRENT.get()) is not None:
        account.sends = part = account.parts[-1]
        account.sent = time.thread_time_ns()
        if part.later and part.turns:  # that was not the last thing, then
            part.loop += part.later
            part.turns[-1] += part.later
            part.later = 0


def time_in_thread(work: Callable[[], T], *, locks: bool = True) -> Callable[[], T]:
    """Work that is going to be done in a thread, on behalf of the present request.

    Args:
        locks: whether it holds the interpreter lock.
    """
    account = _CURRENT.get() if ON else None
    if account is None:
        return work
    part = account.parts[-1]
    account.in_thread = part

    def timed() -> T:
        if CURVES:
            sys.setprofile(_CLOCK.on_profile_event)
        began, curve = time.thread_time_ns(), _CLOCK.curve
        try:
            return work()
        finally:
            spent = time.thread_time_ns() - began
            part.thread_curve += _CLOCK.curve - curve
            if locks:
                part.thread += spent
            else:
                part.free += spent

    return timed


@contextmanager
def time_disk_wait() -> Iterator[None]:
    """Count the time in the block as waiting for the disk."""
    account = _CURRENT.get() if ON else None
    if account is None:
        yield
        return
    wall, cpu = time.perf_counter_ns(), time.thread_time_ns()
    try:
        yield
    finally:
        waited = time.perf_counter_ns() - wall - (time.thread_time_ns() - cpu)
        if threading.current_thread() is threading.main_thread():
            account.parts[-1].loop_disk += waited
        else:
            account.parts[-1].thread_disk += waited


def write_costs(path: Path) -> None:
    """Append what requests have cost to a file, a line each."""
    with path.open("a", encoding="utf-8") as file:
        for account in _ENDED:
            parts = [astuple(part) for part in account.parts]
            line = [account.request_id, account.path, account.began, parts]
            file.write(json.dumps(line, separators=(",", ":")) + "\n")
    _ENDED.clear()


class _TimedCoroutine(Coroutine[Any, Any, T]):
    """A coroutine whose steps are timed."""

    def __init__(self, work: Coroutine[Any, Any, T]) -> None:
        self._work = work

    def send(self, value: Any) -> Any:
        with _TimedStep():
            return self._work.send(value)

    def throw(self, *error: Any) -> Any:
        with _TimedStep():
            return self._work.throw(*error)

    def close(self) -> None:
        self._work.close()

    def __await__(self) -> Generator[Any, Any, T]:
        return self._work.__await__()


class _TimedStep:
    """Counts a step for the part that it ends in."""

    __slots__ = ("_asked", "_began", "_curve", "_turn")

    def __enter__(self) -> None:
        account = _CURRENT.get()
        self._turn = _ITERATIONS.present()
        self._asked = None if account is None else account.in_thread
        self._curve = _CLOCK.curve
        self._began = time.thread_time_ns()

    def __exit__(self, *error: object) -> None:
        now = time.thread_time_ns()
        if (account := _CURRENT.get()) is not None:
            part = account.parts[-1]
            part.loop_curve += _CLOCK.curve - self._curve
            if self._asked is part:
                part.after += now - self._began
            else:
                self._count(account, part, now)

    def _count(self, account: RequestCosts, part: RequestPart, now: int) -> None:
        until = max(self._began, account.sent) if account.sends is part else now
        part.later += now - until
        spent = until - self._began
        if not spent:
            return
        part.loop += spent
        if not part.turns or self._turn != account.turn:
            part.turns.append(spent)
        else:
            part.turns[-1] += spent
        account.turn = self._turn


class _LoopIterations:
    """Numbers the turns of the event loop."""

    def __init__(self) -> None:
        self._number = 0
        self._ends = False

    def present(self) -> int:
        """The number of the present one."""
        if not self._ends:
            self._ends = True
            asyncio.get_running_loop().call_soon(self._next)
        return self._number

    def _next(self) -> None:
        self._number += 1
        self._ends = False


class _CurveClock(threading.local):
    """CPU time that a thread has spent in the libraries of curve arithmetic."""

    curve = 0
    _began = 0

    def on_profile_event(self, frame: FrameType, event: str, function: Any) -> None:
        """Handle a ``sys.setprofile`` event."""
        if getattr(function, "__module__", None) not in _CURVE_LIBRARIES:
            return
        if event == "c_call":
            self._began = time.thread_time_ns()
        elif event in ("c_return", "c_exception"):
            self.curve += time.thread_time_ns() - self._began


_CLOCK: Final = _CurveClock()
_ITERATIONS: Final = _LoopIterations()


def _timed_task(loop: asyncio.AbstractEventLoop, work: Any, **options: Any) -> asyncio.Task[Any]:
    return asyncio.Task(_TimedCoroutine(work), loop=loop, **options)
