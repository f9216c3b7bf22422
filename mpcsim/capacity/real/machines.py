"""The kernel's processes and events, in the time of the running event loop.

Whoever handles a message hands a job to its process and goes on when it is done. What happens at a
time by itself (a caller's patience is over, the next attempt, an incident) happens then.
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
from mpcsim.capacity.simulation.driving import Drive
from mpcsim.capacity.simulation.layout import chained


class Machines:
    """Those of a deployment, and the kernel's events."""

    def __init__(self, drive: Drive, clock: Clock, asked: Callable[[int], None]) -> None:
        """
        Args:
            drive: whose records they are; nobody else steps.
            asked: is told of each call that begins.
        """
        from mpcsim.capacity.simulation import (
            stepping,  # here: it comes with half a second of numba
        )

        self.kernel = stepping
        self._drive = drive
        self._clock = clock
        self._asked = asked
        self._at_ms = 0.0
        self._jobs = list(range(len(drive.service.jobs)))
        """Records that are free."""
        self._waiting: dict[int, asyncio.Future[float]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._over = False

    def hand(
        self, process: int, key: np.uint64, first_stage: int, last_stage: int, source: int
    ) -> asyncio.Future[float]:
        """Give a process something to do.

        It does so, whether or not anybody goes on waiting.

        Args:
            process: its number.
            key: of the draws.
            first_stage: of what is to be done; ``last_stage``: the one after the last.
            source: the process that it comes from.

        Returns:
            Is told, when it is done, what it took if nothing else had gone on (milliseconds).
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
        job["waker"] = self.kernel.waker(self._drive.service, process, source)
        self.step(self.kernel.HAND, number)
        return done

    def step(self, what: int, of: int = NONE, number: int = NONE) -> None:
        """Have the kernel do something now; what follows from it at once is done, too."""
        found = self._step(what, of, number, self._clock.now_ms())
        if what == self.kernel.COME:
            self._asked(found)
        self._happen()

    def go_on(self) -> None:
        """Let happen what is planned, as time passes."""
        self._happen()

    def finish(self) -> None:
        """Whoever still waits goes on: time does not."""
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

    def _happen(self) -> None:
        """Let everything happen that is due, and be woken when something is next."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._over:
            return
        while True:
            through = self.kernel.soonest(self._drive.service)
            events = self._drive.calls.events
            event = float(events[0]["at"]) if self._drive.state["events"] else math.inf
            next_ms = min(through, event)
            if next_ms > self._clock.now_ms() + CLOSE_MS:
                break
            self._clock.at(next_ms)
            if through == next_ms:
                over = self._step(self.kernel.ADVANCE, NONE, NONE, next_ms)
                if over != NONE:
                    self._end(over)
            else:
                call = self._step(self.kernel.HAPPEN, NONE, NONE, next_ms)
                if call != NONE:
                    self._asked(call)
        if next_ms < math.inf:
            wait_ms = next_ms - self._clock.now_ms()
            self._timer = asyncio.get_running_loop().call_later(wait_ms / 1000, self._happen)

    def _end(self, number: int) -> None:
        done = self._waiting.pop(number)
        if not done.done():  # nobody has given it up
            done.set_result(float(self._drive.service.jobs[number]["worked"]))
        self._jobs.append(number)

    def _more_jobs(self) -> None:
        jobs: Any = self._drive.service.jobs
        have = len(jobs)
        more = np.concatenate([jobs, chained(kernel.JOB, have)])
        self._drive.service = self._drive.service._replace(jobs=more)
        self._jobs = list(range(have, 2 * have))
