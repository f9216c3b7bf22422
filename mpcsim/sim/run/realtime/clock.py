"""Virtual-time event loop for asyncio: instead of waiting for a timer it advances its clock.

Coroutines, timeouts and locks work as ever; ``asyncio.sleep(3600)`` returns at once, an hour later
by ``loop.time()``, which starts at 0. The order of events does not depend on how fast the machine
is, so the same program and the same random numbers give the same times.

* **Computation takes no time**, unless ``cpu_factor`` sets the virtual seconds of a second of CPU
  time (1: as on this machine; 2: on a machine half as fast). Then runs differ a
  little each time. All callbacks share one core, the loop's; each job in a thread has its own.
* **Threads** (``asyncio.to_thread``, ``run_in_executor``): while one works, time stands still and
  the loop waits for real. Jobs run one at a time, in the order in which they were handed over, and
  only when the loop has nothing else to do. The result arrives at the time of the handing over, or
  later by the job's CPU time times ``cpu_factor``.
* **At a deadlock** (nothing to do, no timer, no job) the loop raises
  ``Deadlock`` and names the tasks that wait. A job that does not end for ``patience_s``, and tasks
  that are rescheduled without letting time pass, raise ``VirtualTimeStuck``.

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
"""Longest real time, in seconds, of a job in a thread."""
MAX_ROUNDS: Final = 1_000_000
"""Most iterations of the loop at one instant; a busy service needs thousands."""
BUSY_ROUNDS: Final = 1_000
"""Iterations at one instant after which jobs in threads no longer wait for an idle loop."""


class Deadlock(MpcError):
    """Deadlock: tasks wait, and no timer, job or callback can wake them."""


class VirtualTimeStuck(MpcError):
    """Virtual time cannot advance: a job does not end, or tasks poll without waiting."""


class SocketsUnsupported(UsageError):
    """Sockets, pipes and subprocesses, whose other end lives in real time, are not supported."""

    def __init__(self) -> None:
        super().__init__(
            "an event loop in virtual time waits for timers and threads only: no sockets, pipes or "
            "subprocesses (call an ASGI application in process, or use real time)"
        )


def run(work: Coroutine[Any, Any, T], *, cpu_factor: float = 0.0) -> T:
    """Run a coroutine in virtual time, as ``asyncio.run`` does in real time.

    Raises:
        UsageError: bad ``cpu_factor``, a socket, or an event loop runs in this thread already.
        Deadlock: no event is left, and the coroutine still waits.
        VirtualTimeStuck: the clock cannot advance.
    """
    if has_running_loop():
        work.close()
        raise UsageError("an event loop is running in this thread: use another thread")
    with asyncio.Runner(loop_factory=partial(VirtualLoop, cpu_factor=cpu_factor)) as runner:
        return runner.run(work)


class VirtualLoop(asyncio.SelectorEventLoop):
    """Event loop whose clock is advanced instead of waited for.

    Time passes only while the loop runs. After a ``Deadlock`` the tasks are still there: cancel
    them, as ``run`` does.
    """

    def __init__(self, *, cpu_factor: float = 0.0, patience_s: float = PATIENCE_S) -> None:
        """Make a loop at time 0.

        Args:
            cpu_factor: virtual seconds for each second of CPU time.
            patience_s: real seconds that a job in a thread may take.

        Raises:
            UsageError: ``cpu_factor`` is below 0 or not finite.
        """
        self.has_external_work: Callable[[], bool] = lambda: False
        """Predicate: whether foreign threads are at work whose results tasks of this loop await."""
        self._cpu_factor = cpu_factor
        self._patience_s = patience_s
        self._now_s = 0.0
        self._cpu_mark_s = 0.0
        self._free = 0
        """Nesting depth of ``free``: computation takes no time while it is above 0."""
        self._home: int | None = None
        """Identifier of the thread that runs the loop."""
        self._rounds = 0
        """Iterations since the clock last advanced, or a job ended."""
        self._jobs: deque[_Job[Any]] = deque()
        """Jobs in order; only the first runs."""
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="virtual time")
        self._watched = _Selector(self._advance_clock)
        super().__init__(self._watched)
        super().set_default_executor(self._pool)
        if not 0 <= cpu_factor < math.inf:
            self.close()
            raise UsageError(f"cpu_factor is {cpu_factor}: below 0, or not finite")

    def time(self) -> float:
        """Return virtual seconds; in a job's thread they continue from its submission."""
        if threading.get_ident() == self._home:
            self._charge()
        elif (job_time := getattr(_this_thread, "time", None)) is not None:
            return float(job_time())
        return self._now_s

    def run_forever(self) -> None:
        """Run until ``stop`` is called, in virtual time."""
        self._home, self._cpu_mark_s = threading.get_ident(), time.thread_time()
        try:
            super().run_forever()
        finally:
            self._home = None

    # ------------------------------------------------------------------ the clock

    def _charge(self) -> None:
        """Advance the clock by the CPU time since the last call, times the factor."""
        if self._cpu_factor:
            mark = time.thread_time()
            self._now_s += (mark - self._cpu_mark_s) * self._charge_factor
            self._cpu_mark_s = mark

    @property
    def _charge_factor(self) -> float:
        return 0.0 if self._free else self._cpu_factor

    @contextmanager
    def free(self) -> Iterator[None]:
        """Exempt computation within the context from the clock: it takes no time."""
        self._charge()
        self._free += 1
        try:
            yield
        finally:
            self._charge()
            self._free -= 1

    def _advance_clock(self, timeout: float | None) -> float:
        """Advance the clock to the first timer, if nothing else can be done.

        Args:
            timeout: seconds until the first timer; 0: a callback is ready; None: no timer.

        Returns:
            Real seconds to wait for a job or a foreign thread.
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
        # A job's result may make a callback ready.
        if self._job_at_work() or (timeout != 0 and self.has_external_work()):
            return self._patience_s
        if timeout is None:
            if self._watched.refused:
                raise SocketsUnsupported
            raise Deadlock("nothing can happen any more" + self._describe_waiting())
        if timeout > 0:
            self._now_s += timeout
            self._rounds = 0
            # The loop's own work until here took place while it waited.
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
        """Submit a job to an executor; the module's text says when it runs, and its virtual
        time."""
        self._check_closed()  # type: ignore[attr-defined]
        future: asyncio.Future[T] = self.create_future()
        work = partial(func, *args)
        self._jobs.append(_Job(work, executor or self._pool, future, self.time()))
        return future

    def set_default_executor(self, executor: ThreadPoolExecutor) -> None:  # type: ignore[override]
        """Set the executor of jobs without one."""
        super().set_default_executor(executor)
        self._pool.shutdown(wait=False)
        self._pool = executor

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:
        """Shut down the default executor, waiting in real time."""
        self._pool.shutdown()

    def _job_at_work(self) -> bool:
        """Return whether a job is running; start the first if none is."""
        while self._jobs:
            job = self._jobs[0]
            if job.running is None and job.future.done():  # cancelled before it began
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
        """Notify the loop, from the job's thread, that the job has ended."""
        with suppress(RuntimeError):  # the loop is closed
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
    """Result of a job: its value or error, and its CPU time."""

    value: Any
    error: BaseException | None
    cpu_s: float


@dataclass(eq=False)
class _Job(Generic[T]):
    """Job for a thread, with the future of its result."""

    work: Callable[[], T]
    executor: Executor
    future: asyncio.Future[T]
    given_s: float
    """Virtual time of submission."""
    running: Future[_JobResult] | None = None
    cpu_factor: float = 0.0
    """Factor of its CPU time, set when it starts."""

    def deliver(self, ended: _JobResult) -> None:
        if self.future.done():  # cancelled meanwhile
            return
        if ended.error is not None:
            self.future.set_exception(ended.error)
        else:
            self.future.set_result(ended.value)


_this_thread = threading.local()
"""Thread-local ``time``: the virtual clock of the job that runs in this thread, if one does."""


def _run_job(work: Callable[[], Any], given_s: float, cpu_factor: float) -> _JobResult:
    """Run a job, in its thread or process."""
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
    """Selector with the loop's own wake-up pipe alone."""

    def __init__(self, turn: Callable[[float | None], float]) -> None:
        super().__init__()
        self.refused = False
        """Whether a socket was refused: asyncio may only log the error."""
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
    """Return a task's name, and the line of its code at which it waits."""
    coroutine = task.get_coro()
    name = f"{task.get_name()} ({getattr(coroutine, '__qualname__', coroutine)})"
    for frame in task.get_stack(limit=1):
        name += f" at {frame.f_code.co_filename}:{frame.f_lineno}"
    return name
