"""An asyncio event loop in virtual time: it does not wait for a timer, it turns its clock forward.

Coroutines, timeouts and locks work as ever; ``asyncio.sleep(3600)`` returns at once, an hour later
by ``loop.time()``, which starts at 0. The order of events does not depend on how fast the machine
is, so the same program and the same random numbers give the same times.

* **Computation takes no time**, unless ``cpu_factor`` says how many seconds each second of CPU
  time takes (1: what it takes here and now; 2: on a machine half as fast). Then runs differ a
  little each time. All callbacks share one core, the loop's; each job in a thread has its own.
* **Threads** (``asyncio.to_thread``, ``run_in_executor``): while one works, time stands still and
  the loop waits for real. Jobs run one at a time, in the order in which they were handed over, and
  only when the loop has nothing else to do. The result arrives at the time of the handing over, or
  later by the job's CPU time times ``cpu_factor``.
* **When nothing can happen any more** (nothing to do, no timer, no job) the loop raises
  ``Deadlock`` and names the tasks that wait. A job that does not end for ``patience_s``, and tasks
  that go round without letting time pass, raise ``VirtualTimeStuck``.

What it cannot do: sockets, pipes and subprocesses, whose other end lives in real time, are refused
with ``SocketsUnsupported``. A job cannot wait for a timer of the loop, nor for another job. Threads
that the loop has not started are not seen unless ``has_external_work`` reports them: without that,
time may pass before their results are there, or a ``Deadlock`` is raised.
"""

from __future__ import annotations

import asyncio
import math
import selectors
import threading
import time
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Generic, TypeVar

from mpcsim.errors import MpcError, UsageError
from mpcsim.sim.run.realtime.event_loop import has_running_loop

T = TypeVar("T")

PATIENCE_S: Final = 300.0
"""How long, for real, a job in a thread may work."""
MAX_ROUNDS: Final = 1_000_000
"""Rounds of the loop at one instant before it is given up; a busy service needs thousands."""
BUSY_ROUNDS: Final = 1_000
"""Rounds at one instant after which jobs in threads no longer wait for the loop to be idle."""


class Deadlock(MpcError):
    """Tasks wait, and nothing that the loop knows of will ever wake them."""


class VirtualTimeStuck(MpcError):
    """Time cannot go on: a job does not end, or tasks go round without waiting for anything."""


class SocketsUnsupported(UsageError):
    """Something real was to be waited for: a socket, a pipe, a subprocess."""

    def __init__(self) -> None:
        super().__init__(
            "an event loop in virtual time waits for timers and threads only: no sockets, pipes or "
            "subprocesses (call an ASGI application in process, or use real time)"
        )


def run(work: Coroutine[Any, Any, T], *, cpu_factor: float = 0.0) -> T:
    """``asyncio.run`` in virtual time.

    Raises:
        UsageError: bad ``cpu_factor``, a socket, or an event loop runs in this thread already.
        Deadlock: nothing can happen any more, and the coroutine still waits.
        TimeStandsStill: the clock cannot go on.
    """
    if has_running_loop():
        work.close()
        raise UsageError("an event loop is running in this thread: use another thread")
    with asyncio.Runner(loop_factory=partial(VirtualLoop, cpu_factor=cpu_factor)) as runner:
        return runner.run(work)


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop whose clock is turned forward instead of waited for.

    Time passes only while the loop runs. After a ``Deadlock`` the tasks are still there: cancel
    them, as ``run`` does.
    """

    def __init__(self, *, cpu_factor: float = 0.0, patience_s: float = PATIENCE_S) -> None:
        """A loop at time 0.

        Args:
            cpu_factor: virtual seconds for each second of CPU time.
            patience_s: real seconds that a job in a thread may take.

        Raises:
            UsageError: ``cpu_factor`` is below 0 or not finite.
        """
        self.has_external_work: Callable[[], bool] = lambda: False
        """Whether somebody else's threads are at work whose results tasks of this loop await."""
        self._cpu_factor = cpu_factor
        self._patience_s = patience_s
        self._now_s = 0.0
        self._cpu_mark_s = 0.0
        self._free = 0
        """How many say that what is computed now takes no time."""
        self._home: int | None = None
        """The thread that runs the loop."""
        self._rounds = 0
        """Since the clock was last turned, or a job ended."""
        self._jobs: deque[_Job[Any]] = deque()
        """Only the first is ever at work."""
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="virtual time")
        self._watched = _Selector(self._advance_clock)
        super().__init__(self._watched)
        super().set_default_executor(self._pool)
        if not 0 <= cpu_factor < math.inf:
            self.close()
            raise UsageError(f"cpu_factor is {cpu_factor}: below 0, or not finite")

    def time(self) -> float:
        """Virtual seconds. In a job's thread they go on from when the job was handed over."""
        if threading.get_ident() == self._home:
            self._charge()
        elif (job_time := getattr(_this_thread, "time", None)) is not None:
            return float(job_time())
        return self._now_s

    def run_forever(self) -> None:
        """See ``asyncio``."""
        self._home, self._cpu_mark_s = threading.get_ident(), time.thread_time()
        try:
            super().run_forever()
        finally:
            self._home = None

    # ------------------------------------------------------------------ the clock

    def _charge(self) -> None:
        """Let the CPU time since the last call pass."""
        if self._cpu_factor:
            mark = time.thread_time()
            self._now_s += (mark - self._cpu_mark_s) * self._charge_factor
            self._cpu_mark_s = mark

    @property
    def _charge_factor(self) -> float:
        return 0.0 if self._free else self._cpu_factor

    @contextmanager
    def free(self) -> Iterator[None]:
        """Whatever is computed meanwhile takes no time."""
        self._charge()
        self._free += 1
        try:
            yield
        finally:
            self._charge()
            self._free -= 1

    def _advance_clock(self, timeout: float | None) -> float:
        """Nothing has come from outside. Turn the clock forward if that is due.

        Args:
            timeout: until the first timer; 0: something can be done now; None: no timer.

        Returns:
            How many real seconds to wait for something from outside.
        """
        if timeout == 0:
            self._rounds += 1
            if self._rounds > MAX_ROUNDS and not self._cpu_factor:
                self._rounds = 0
                raise VirtualTimeStuck(
                    f"{MAX_ROUNDS} rounds without time passing: does a task poll with sleep(0)?"
                    + self._describe_waiting()
                )
            if self._rounds <= BUSY_ROUNDS:
                return 0.0
        # Their result may be what can be done now.
        if self._job_at_work() or (timeout != 0 and self.has_external_work()):
            return self._patience_s
        if timeout is None:
            if self._watched.refused:
                raise SocketsUnsupported
            raise Deadlock("nothing can happen any more" + self._describe_waiting())
        if timeout > 0:
            self._now_s += timeout
            self._rounds = 0
            # What the loop itself did until here, it did while it waited.
            self._cpu_mark_s = time.thread_time()
        return 0.0

    def _describe_waiting(self) -> str:
        tasks = sorted(asyncio.all_tasks(self), key=lambda task: task.get_name())
        return f"; at {self._now_s * 1000:.3f} ms wait " + ", ".join(map(_describe_task, tasks))

    # ------------------------------------------------------------------ jobs in threads

    # typeshed spells the arguments with Unpack; the meaning is the same.
    def run_in_executor(  # type: ignore[override]
        self, executor: Executor | None, func: Callable[..., T], *args: Any
    ) -> asyncio.Future[T]:
        """See ``asyncio``, and this module on when it runs and what it costs."""
        self._check_closed()  # type: ignore[attr-defined]
        future: asyncio.Future[T] = self.create_future()
        work = partial(func, *args)
        self._jobs.append(_Job(work, executor or self._pool, future, self.time()))
        return future

    def set_default_executor(self, executor: ThreadPoolExecutor) -> None:  # type: ignore[override]
        """See ``asyncio``."""
        super().set_default_executor(executor)
        self._pool.shutdown(wait=False)
        self._pool = executor

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:
        """See ``asyncio``; waits for real."""
        self._pool.shutdown()

    def _job_at_work(self) -> bool:
        """Whether a job is running; the first begins if none is."""
        while self._jobs:
            job = self._jobs[0]
            if job.running is None and job.future.done():  # given up before it began
                self._jobs.popleft()
                continue
            if job.running is None:
                self._start_job(job)
            return True
        return False

    def _start_job(self, job: _Job[Any]) -> None:
        job.cpu_factor = self._charge_factor
        try:
            job.running = job.executor.submit(_run_job, job.work, job.given_s, job.cpu_factor)
        except RuntimeError as error:  # the executor has been shut down
            job.running = Future()
            job.running.set_exception(error)
        job.running.add_done_callback(lambda running: self._on_job_done(job, running))

    def _on_job_done(self, job: _Job[Any], running: Future[_JobResult]) -> None:
        """In the job's thread: it has ended."""
        with suppress(RuntimeError):  # the loop is closed: nobody wants to know
            self.call_soon_threadsafe(self._job_ended, job, running)

    def _job_ended(self, job: _Job[Any], running: Future[_JobResult]) -> None:
        self._jobs.popleft()
        self._rounds = 0
        if running.cancelled():
            job.future.cancel()
            return
        failed = running.exception()  # of the executor; the job's own is part of the result
        ended = _JobResult(None, failed, 0.0) if failed else running.result()
        due = job.given_s + ended.cpu_s * job.cpu_factor
        if due > self.time():
            self.call_at(due, job.deliver, ended)
        else:
            job.deliver(ended)


@dataclass(frozen=True)
class _JobResult:
    """What a job came to."""

    value: Any
    error: BaseException | None
    cpu_s: float


@dataclass(eq=False)
class _Job(Generic[T]):
    """Work for a thread."""

    work: Callable[[], T]
    executor: Executor
    future: asyncio.Future[T]
    given_s: float
    """When it was handed over, in virtual time."""
    running: Future[_JobResult] | None = None
    cpu_factor: float = 0.0
    """Once it runs."""

    def deliver(self, ended: _JobResult) -> None:
        if self.future.done():  # given up meanwhile
            return
        if ended.error is not None:
            self.future.set_exception(ended.error)
        else:
            self.future.set_result(ended.value)


_this_thread = threading.local()
"""``time``: virtual seconds by the clock of the job that runs in this thread, if one does."""


def _run_job(work: Callable[[], Any], given_s: float, cpu_factor: float) -> _JobResult:
    """A job, in its thread or process."""
    began = time.thread_time()
    _this_thread.time = lambda: given_s + (time.thread_time() - began) * cpu_factor
    value: Any = None
    error: BaseException | None = None
    try:
        value = work()
    except BaseException as raised:
        error = raised
    finally:
        _this_thread.time = None
    return _JobResult(value, error, time.thread_time() - began)


class _Selector(selectors.DefaultSelector):
    """Knows the loop's own wake-up pipe and nothing else."""

    def __init__(self, turn: Callable[[float | None], float]) -> None:
        super().__init__()
        self.refused = False
        """Whether a socket was: asyncio may do no more than log it."""
        self._advance_clock = turn

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        if self.get_map():  # the first is the loop's own
            self.refused = True
            raise SocketsUnsupported
        return super().register(fileobj, events, data)

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        found = super().select(0)
        if found:
            return found
        wait_s = self._advance_clock(timeout)
        if not wait_s:
            return found
        found = super().select(wait_s)
        if not found:
            raise VirtualTimeStuck(f"a thread has been at work for {wait_s:g} s")
        return found


def _describe_task(task: asyncio.Task[Any]) -> str:
    """A task, and the line of its own code at which it waits."""
    coroutine = task.get_coro()
    name = f"{task.get_name()} ({getattr(coroutine, '__qualname__', coroutine)})"
    for frame in task.get_stack(limit=1):
        name += f" at {frame.f_code.co_filename}:{frame.f_lineno}"
    return name
