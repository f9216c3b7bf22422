"""The kernel's processes and events, driven by a running event loop.

Whoever handles a message hands a job to its process and awaits its end. Events without a message
(time-outs, retries, incidents) happen at their time.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from mpcsim.capacity.kernel import records as kernel
from mpcsim.capacity.kernel.records import NONE
from mpcsim.capacity.real.clock import CLOSE_MS, Clock
from mpcsim.capacity.simulation.driver import KernelDriver
from mpcsim.capacity.simulation.layout import free_chain


class AsyncKernel:
    """Kernel without messages, in an event loop's time."""

    def __init__(self, drive: KernelDriver, clock: Clock, asked: Callable[[int], None]) -> None:
        """Args: drive: owner of the records; nobody else steps. asked: called with each call that
        begins."""
        from mpcsim.capacity.simulation import (
            stepping,  # here: it comes with half a second of numba
        )

        self.kernel = stepping
        self._drive = drive
        self._clock = clock
        self._start_call = asked
        self._at_ms = 0.0
        self._jobs = list(range(len(drive.service.jobs)))
        """Free records."""
        self._waiting: dict[int, asyncio.Future[float]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._over = False

    def enqueue_job(
        self, process: int, key: np.uint64, first_stage: int, last_stage: int, source: int
    ) -> asyncio.Future[float]:
        """Hand a job to a process, which executes it whether or not anybody awaits it.

        Args:
            process: its number.
            key: of the draws.
            first_stage: of the job; ``last_stage``: the one after the last.
            source: process that it comes from.

        Returns:
            Future of its service time (milliseconds), done when the job is.
        """
        done: asyncio.Future[float] = asyncio.get_running_loop().create_future()
        if first_stage == last_stage or process == NONE or self._over:
            done.set_result(0.0)
            return done
        if not self._jobs:
            self._more_jobs()
        number = self._jobs.pop()
        self._waiting[number] = done
        job = self._drive.service.jobs[number]
        job["process"], job["key"] = process, key
        job["stage"], job["last_stage"] = first_stage, last_stage
        job["waker_core"] = self.kernel.waker_core(self._drive.service, process, source)
        self.step(self.kernel.ENQUEUE_JOB, number)
        return done

    def step(self, what: int, of: int = NONE, number: int = NONE) -> None:
        """Carry out an action of the kernel now, and all events that are due."""
        found = self._step(what, of, number, self._clock.now_ms())
        if what == self.kernel.START_ARRIVAL:
            self._start_call(found)
        self._apply_due_events()

    def start_timer(self) -> None:
        """Apply due events, and be woken for the next one."""
        self._apply_due_events()

    def finish(self) -> None:
        """Release whoever still waits: virtual time ends."""
        self._over = True
        if self._timer is not None:
            self._timer.cancel()
        for done in self._waiting.values():
            if not done.done():
                done.set_result(0.0)

    def _step(self, what: int, of: int, number: int, now: float) -> int:
        drive = self._drive
        self._at_ms = max(self._at_ms, now)
        while True:
            found, lacks = self.kernel.step(
                drive.calls, drive.network, drive.service, what, of, number, self._at_ms
            )
            if not lacks:
                return int(found)
            drive.make_room(lacks)

    def _apply_due_events(self) -> None:
        """Apply all events that are due, and set the timer for the next."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._over:
            return
        while True:
            through = self.kernel.next_completion_ms(self._drive.service)
            events = self._drive.calls.events
            event = float(events[0]["at"]) if self._drive.state["events"] else math.inf
            next_ms = min(through, event)
            if next_ms > self._clock.now_ms() + CLOSE_MS:
                break
            self._clock.at(next_ms)
            if through == next_ms:
                over = self._step(self.kernel.FINISH_STAGE, NONE, NONE, next_ms)
                if over != NONE:
                    self._finish_job(over)
            else:
                call = self._step(self.kernel.APPLY_EVENT, NONE, NONE, next_ms)
                if call != NONE:
                    self._start_call(call)
        if next_ms < math.inf:
            wait_ms = next_ms - self._clock.now_ms()
            self._timer = asyncio.get_running_loop().call_later(
                wait_ms / 1000, self._apply_due_events
            )

    def _finish_job(self, number: int) -> None:
        done = self._waiting.pop(number)
        if not done.done():  # nobody has given it up
            done.set_result(float(self._drive.service.jobs[number]["worked_ms"]))
        self._jobs.append(number)

    def _more_jobs(self) -> None:
        jobs: Any = self._drive.service.jobs
        have = len(jobs)
        more = np.concatenate([jobs, free_chain(kernel.JOB, have)])
        self._drive.service = self._drive.service._replace(jobs=more)
        self._jobs = list(range(have, 2 * have))
