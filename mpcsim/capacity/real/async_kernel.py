"""The kernel's processes and events, driven by a running event loop.

The handler of a message hands a job to its process and awaits its end. Events without a message
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

    def __init__(self, driver: KernelDriver, clock: Clock, on_call: Callable[[int], None]) -> None:
        """
        Args:
            driver: owner of the records; it must not run meanwhile.
            on_call: called with each call that begins.
        """
        from mpcsim.capacity.simulation import (
            stepping,  # here: importing numba takes half a second
        )

        self.stepping = stepping
        self._driver = driver
        self._clock = clock
        self._on_call = on_call
        self._at_ms = 0.0
        self._jobs = list(range(len(driver.service.jobs)))
        """Free records."""
        self._waiting: dict[int, asyncio.Future[float]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._over = False

    def enqueue_job(
        self, process: int, key: np.uint64, first_stage: int, last_stage: int, source: int
    ) -> asyncio.Future[float]:
        """Hand a job to a process, which executes it even if its end is not awaited.

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
            self._grow_jobs()
        number = self._jobs.pop()
        self._waiting[number] = done
        job = self._driver.service.jobs[number]
        job["process"], job["key"] = process, key
        job["stage"], job["last_stage"] = first_stage, last_stage
        job["waker_core"] = self.stepping.waker_core(self._driver.service, process, source)
        self.step(self.stepping.ENQUEUE_JOB, number)
        return done

    def step(self, what: int, of: int = NONE, number: int = NONE) -> None:
        """Carry out an action of the kernel now, and all events that are due."""
        found = self._step(what, of, number, self._clock.now_ms())
        if what == self.stepping.START_ARRIVAL:
            self._on_call(found)
        self.apply_due_events()

    def finish(self) -> None:
        """Complete all waiting futures: virtual time ends."""
        self._over = True
        if self._timer is not None:
            self._timer.cancel()
        for done in self._waiting.values():
            if not done.done():
                done.set_result(0.0)

    def _step(self, what: int, of: int, number: int, now: float) -> int:
        driver = self._driver
        self._at_ms = max(self._at_ms, now)
        while True:
            found, needed = self.stepping.step(
                driver.calls, driver.network, driver.service, what, of, number, self._at_ms
            )
            if not needed:
                return int(found)
            driver.make_room(needed)

    def apply_due_events(self) -> None:
        """Apply all events that are due, and set the timer for the next."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._over:
            return
        while True:
            completion_ms = self.stepping.next_completion_ms(self._driver.service)
            events = self._driver.calls.events
            event = float(events[0]["at"]) if self._driver.state["events"] else math.inf
            next_ms = min(completion_ms, event)
            if next_ms > self._clock.now_ms() + CLOSE_MS:
                break
            self._clock.at(next_ms)
            if completion_ms == next_ms:
                job = self._step(self.stepping.FINISH_STAGE, NONE, NONE, next_ms)
                if job != NONE:
                    self._finish_job(job)
            else:
                call = self._step(self.stepping.APPLY_EVENT, NONE, NONE, next_ms)
                if call != NONE:
                    self._on_call(call)
        if next_ms < math.inf:
            wait_ms = next_ms - self._clock.now_ms()
            self._timer = asyncio.get_running_loop().call_later(
                wait_ms / 1000, self.apply_due_events
            )

    def _finish_job(self, number: int) -> None:
        done = self._waiting.pop(number)
        if not done.done():  # it has not been cancelled
            done.set_result(float(self._driver.service.jobs[number]["worked_ms"]))
        self._jobs.append(number)

    def _grow_jobs(self) -> None:
        jobs: Any = self._driver.service.jobs
        have = len(jobs)
        more = np.concatenate([jobs, free_chain(kernel.JOB, have)])
        self._driver.service = self._driver.service._replace(jobs=more)
        self._jobs = list(range(have, 2 * have))
