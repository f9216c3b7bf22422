"""Parallel replay in blocks on an executor; results are merged quantile sketches.

A block's samples follow from the seed and the block's position alone, and blocks are merged in
order, so the result does not depend on the processes.
"""

from __future__ import annotations

import hashlib
import pickle
import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import numpy as np

from mpcsim.errors import UsageError
from mpcsim.ids import PartyId
from mpcsim.processes import Processes
from mpcsim.sim.network.topology import Network
from mpcsim.sim.replay.critical_path_totals import CriticalPathTotals
from mpcsim.sim.replay.fitted import FittedTransfers, chunks
from mpcsim.sim.replay.kernels.arrays import Floats
from mpcsim.sim.replay.plan import CHUNK, Plan
from mpcsim.sim.replay.results import Approximation
from mpcsim.sim.replay.steps import GraphMessage, Step, Timeouts
from mpcsim.sim.run.compute import Compute
from mpcsim.sim.statistics.quantile_sketch import QuantileSketch
from mpcsim.sim.traces.records import Scope

BLOCK: Final = 256 * CHUNK
"""Samples of a block: some seconds' work."""
AHEAD: Final = 64
"""Largest number of blocks submitted and not merged yet, hence of cores in use."""


@dataclass(frozen=True)
class ReplayJob:
    """Arguments of a parallel replay; pickled for other processes."""

    steps: tuple[Step, ...]
    messages: tuple[GraphMessage, ...]
    scope: Scope
    timeouts_s: Timeouts
    network: Network
    costs: Compute
    samples: int
    seed: int
    parties: bool
    explain: bool
    approximate: bool
    tolerance: float

    def plan(self) -> Plan:
        """
        Raises:
            UsageError: the job cannot be replayed.
        """
        return Plan(
            self.steps, self.messages, self.network, self.costs, self.scope, self.timeouts_s
        )


@dataclass
class ReplayBlockResult:
    """Summary of some samples."""

    finished: QuantileSketch
    parties: dict[PartyId, QuantileSketch]
    totals: CriticalPathTotals | None
    failed: int

    def merge(self, other: ReplayBlockResult) -> None:
        """Add the summary of other samples."""
        self.finished.merge(other.finished)
        for i, more in other.parties.items():
            self.parties[i].merge(more)
        if self.totals is not None and other.totals is not None:
            self.totals.merge(other.totals)
        self.failed += other.failed


def replay_in_parallel(
    job: ReplayJob, executor: Executor | None, progress: Callable[[float], None]
) -> tuple[ReplayBlockResult, Approximation | None]:
    """Replay all samples of a job on an executor.

    Raises:
        UsageError: the job cannot be replayed, or its network cannot be pickled.
    """
    alike = job.plan().is_deterministic  # first: it may be refused
    blocks = [range(1)] if alike else _blocks(job.samples)
    with ExitStack() as stack:
        if executor is None:
            several = len(blocks) > 1
            own = Processes(len(blocks)) if several else ThreadPoolExecutor(1)
            executor = stack.enter_context(own)
        task = partial(_run_block, job, _job_digest(job))
        judged = executor.submit(task, None).result() if job.approximate else None
        if judged is not None and not judged.is_accepted:
            job = replace(job, approximate=False)
            task = partial(_run_block, job, _job_digest(job))
        parts = _in_order(executor, task, blocks)
        whole = next(parts)
        progress(1 / len(blocks))
        for number, part in enumerate(parts, start=2):
            whole.merge(part)
            progress(number / len(blocks))
        return whole, judged


class _PreparedJob:
    """A job with the plan and the fit that its blocks share."""

    def __init__(self, job: ReplayJob) -> None:
        self._job = job
        self._plan = job.plan()
        self._fitted = (
            FittedTransfers(self._plan, job.network, job.costs, job.seed)
            if job.approximate
            else None
        )

    def replay_block(self, samples: range) -> ReplayBlockResult:
        job, plan = self._job, self._plan
        repeats = job.samples if plan.is_deterministic else 1
        finished = np.empty(len(samples))
        ends = {i: np.empty(len(samples)) for i in plan.parties} if job.parties else {}
        totals = CriticalPathTotals(plan) if job.explain else None
        for at, run in chunks(plan, self._fitted, samples, seed=job.seed, explain=job.explain):
            here = slice(at.start - samples.start, at.stop - samples.start)
            finished[here] = run.finished
            for i, kept in ends.items():
                kept[here] = run.ends[i]
            if totals is not None:
                totals.add(run)
        sketches = {i: QuantileSketch.of(_finite_times(kept), repeats) for i, kept in ends.items()}
        answered = _finite_times(finished)
        failed = (len(finished) - len(answered)) * repeats
        return ReplayBlockResult(QuantileSketch.of(answered, repeats), sketches, totals, failed)

    def evaluate_fit(self) -> Approximation | None:
        return (
            None
            if self._fitted is None
            else self._fitted.evaluate(self._job.seed, self._job.tolerance)
        )


class _ThreadCache(threading.local):
    """The last job of this thread; plans are not thread-safe."""

    name = b""
    ready: _PreparedJob | None = None


_CACHE: Final = _ThreadCache()


def _run_block(job: ReplayJob, name: bytes, samples: range | None) -> Any:
    """Replay one block, in any process; without ``samples``, return the fit's error."""
    if _CACHE.ready is None or _CACHE.name != name:
        _CACHE.name, _CACHE.ready = name, _PreparedJob(job)
    return _CACHE.ready.evaluate_fit() if samples is None else _CACHE.ready.replay_block(samples)


def _finite_times(times: Floats) -> Floats:
    """Return the times of the runs that did not fail."""
    found: Floats = times[np.isfinite(times)]
    return found


def _blocks(samples: int) -> list[range]:
    return [range(first, min(first + BLOCK, samples)) for first in range(0, samples, BLOCK)]


def _in_order(
    executor: Executor, task: Callable[[range], ReplayBlockResult], blocks: list[range]
) -> Iterator[ReplayBlockResult]:
    """Yield the results of blocks in order; on exit, cancel those not begun."""
    under_way: deque[Future[ReplayBlockResult]] = deque()
    try:
        for block in blocks:
            under_way.append(executor.submit(task, block))
            if len(under_way) == AHEAD:
                yield under_way.popleft().result()
        while under_way:
            yield under_way.popleft().result()
    finally:
        for future in under_way:
            future.cancel()


def _job_digest(job: ReplayJob) -> bytes:
    """Return a digest that identifies the job."""
    try:
        return hashlib.sha256(pickle.dumps(job)).digest()
    except Exception as error:
        raise UsageError(f"network {job.network.name} cannot go elsewhere: {error}") from None
