"""Queues of a process: its event loop and its thread pool.

A job is a sequence of stages (CPU or disk bursts). The event loop executes one job at a time, first
come, first served. An iteration of the loop takes all jobs that wait at its beginning and divides
its own cost ``iteration_ms`` among them, so that a busy loop pays less for each (as epoll returns
many events at once); consecutive loop stages of a job need an iteration each. An iteration after a
pause of ``t`` costs ``cold_ms * (1 - exp(-t / cooling_ms))`` more: caches are cold. Stages in
threads wait for a free thread of the pool.
"""

from __future__ import annotations

import math

import numpy as np

from mpcsim.capacity.kernel import cpu_scheduler, draws
from mpcsim.capacity.kernel.records import (
    DOWN,
    LOOP,
    LOOP_DISK,
    NONE,
    THREAD,
    THREAD_DISK,
    Record,
    ServiceRecords,
)
from mpcsim.sim.network.tcp.compiled import compiled

WAKE_UP, PREEMPTION, STEALING = 10_000_000, 20_000_000, 30_000_000
"""Purposes of draws, besides the stages themselves."""


@compiled
def _is_loop_stage(kind: int) -> bool:
    """Return whether the event loop executes a stage, or blocks in it."""
    return bool(kind == LOOP) or bool(kind == LOOP_DISK)


@compiled
def _continues_iteration(before: int, kind: int) -> bool:
    """Return whether a stage follows its predecessor at once; a second loop stage needs a new
    iteration."""
    if before == LOOP and kind == LOOP:
        return False
    return _is_loop_stage(before) == _is_loop_stage(kind)


@compiled
def _is_disk_stage(kind: int) -> bool:
    """Return whether a stage occupies the disk."""
    return bool(kind == LOOP_DISK) or bool(kind == THREAD_DISK)


@compiled
def account_queues(process: Record, runners: Record, now: float) -> None:
    """Add the time since the last change to the integrals of a process's queues."""
    elapsed = now - process.accounted_to
    process.accounted_to = now
    if elapsed <= 0.0:
        return
    if runners[process.loop].job != NONE:
        process.loop_busy_ms += elapsed
    process.queued_ms += elapsed * process.waiting
    process.thread_busy_ms += elapsed * process.busy_threads
    process.thread_queued_ms += elapsed * process.thread_waiting


@compiled
def _is_stopped(process: Record) -> bool:
    """Return whether a process is paused or down."""
    return bool(process.paused > 0 or process.state == DOWN)


@compiled
def _start_stage(
    s: ServiceRecords,
    j: int,
    extra_ms: float,
    now: float,
) -> None:
    """Start the present stage of a job on its runner: draw its service time and request the
    resource."""
    job = s.jobs[j]
    stage = s.stages[job.stage]
    process = s.processes[job.process]
    runner = s.runners[job.runner]
    on_disk = _is_disk_stage(stage.kind)
    at = process.disk if on_disk else process.cpu
    needs_gil = 1 if stage.kind == LOOP or stage.kind == THREAD else 0
    if runner.resource != NONE and (runner.resource != at or runner.needs_gil != needs_gil):
        _leave_resource(s, job.runner, job.key, job.stage, now)
    runner.needs_gil = needs_gil
    u = draws.uniform(draws.hash64(job.key, job.stage))
    runner.remaining_ms = (
        draws.quantile(s.tables, s.levels, s.evens, stage.table, u)
        * s.speeds[process.speeds, job.stage]
        + extra_ms
    )
    job.worked_ms += runner.remaining_ms
    if not on_disk:
        process.cpu_ms += runner.remaining_ms
        cpu_scheduler.add_cpu_time(process, runner.remaining_ms, now)
    if runner.resource != NONE:
        cpu_scheduler.resume_running(s.resources[at], s.processes, s.runners, now)
    elif not _is_stopped(process):
        _enter_resource(s, job.runner, at, job.waker_core, job.key, job.stage, now)


@compiled
def _enter_resource(
    s: ServiceRecords, k: int, at: int, waker: int, key: np.uint64, stage: int, now: float
) -> None:
    """Add runner ``k`` to a resource, for a stage of a job with this key."""
    s.runners[k].resource = at
    u = draws.uniform(draws.hash64(key, WAKE_UP + stage))
    v = draws.uniform(draws.hash64(key, PREEMPTION + stage))
    cpu_scheduler.enqueue_runner(s.resources[at], s.processes, s.runners, k, waker, u, v, now)


@compiled
def _leave_resource(s: ServiceRecords, k: int, key: np.uint64, stage: int, now: float) -> None:
    """Remove runner ``k`` from its resource, after a stage of a job with this key."""
    resource = s.resources[s.runners[k].resource]
    s.runners[k].resource = NONE
    u = draws.uniform(draws.hash64(key, STEALING + stage))
    cpu_scheduler.dequeue_runner(resource, s.processes, s.runners, k, u, now)


@compiled
def _start_loop_job(
    s: ServiceRecords,
    p: int,
    now: float,
) -> None:
    """Start the next job of the event loop, if it is idle and one waits."""
    process = s.processes[p]
    if s.runners[process.loop].job != NONE or process.head == NONE or _is_stopped(process):
        return
    coldness = 0.0
    if process.left_in_batch == 0:
        process.left_in_batch = process.batch = process.waiting
        process.iterations += 1.0
        if now > process.idle_since and process.cooling_ms > 0.0:
            coldness = 1.0 - math.exp(-(now - process.idle_since) / process.cooling_ms)
            process.coldness += coldness
    process.left_in_batch -= 1
    j = process.head
    process.head = s.jobs[j].following
    if process.head == NONE:
        process.tail = NONE
    process.waiting -= 1
    s.jobs[j].runner = process.loop
    s.runners[process.loop].job = j
    extra_ms = process.iteration_ms / process.batch + process.cold_ms * coldness
    _start_stage(s, j, extra_ms, now)


@compiled
def _start_thread_job(
    s: ServiceRecords,
    p: int,
    now: float,
) -> None:
    """Start the next job of the thread pool, if a thread is free and one waits."""
    process = s.processes[p]
    if (
        process.thread_head == NONE
        or process.busy_threads == process.threads
        or _is_stopped(process)
    ):
        return
    k = process.first_thread
    while s.runners[k].job != NONE:
        k += 1
    j = process.thread_head
    process.thread_head = s.jobs[j].following
    if process.thread_head == NONE:
        process.thread_tail = NONE
    process.thread_waiting -= 1
    process.busy_threads += 1
    s.jobs[j].runner = k
    s.runners[k].job = j
    _start_stage(s, j, 0.0, now)


@compiled
def _queue_job(s: ServiceRecords, j: int) -> None:
    """Append a job to the queue that its present stage needs."""
    job = s.jobs[j]
    process = s.processes[job.process]
    kind = s.stages[job.stage].kind
    job.following = NONE
    if _is_loop_stage(kind):
        if process.tail == NONE:
            process.head = j
        else:
            s.jobs[process.tail].following = j
        process.tail = j
        process.waiting += 1
    else:
        if process.thread_tail == NONE:
            process.thread_head = j
        else:
            s.jobs[process.thread_tail].following = j
        process.thread_tail = j
        process.thread_waiting += 1


@compiled
def start_waiting_jobs(s: ServiceRecords, p: int, now: float) -> None:
    """Start waiting jobs of a process, as far as its loop and threads are free."""
    _start_loop_job(s, p, now)
    _start_thread_job(s, p, now)


@compiled
def enqueue_job(
    s: ServiceRecords,
    j: int,
    now: float,
) -> None:
    """Hand a job to its process."""
    job = s.jobs[j]
    account_queues(s.processes[job.process], s.runners, now)
    job.worked_ms = 0.0
    job.runner = NONE
    _queue_job(s, j)
    start_waiting_jobs(s, job.process, now)


@compiled
def finish_stage(
    s: ServiceRecords,
    at: int,
    now: float,
) -> int:
    """Finish the stage that ends now at a resource, and start the next one.

    Returns:
        The job, if that was its last stage; else NONE.
    """
    k = cpu_scheduler.finish_or_preempt(s.resources[at], s.processes, s.runners, now)
    if k == NONE:
        return NONE
    runner = s.runners[k]
    j = runner.job
    job = s.jobs[j]
    p = job.process
    process = s.processes[p]
    account_queues(process, s.runners, now)
    before = s.stages[job.stage].kind
    job.stage += 1
    job.waker_core = runner.core
    done = job.stage == job.last_stage
    in_loop = _is_loop_stage(before)
    if not done and _continues_iteration(before, s.stages[job.stage].kind):
        _start_stage(s, j, 0.0, now)
        return NONE
    runner.job = NONE
    job.runner = NONE
    if not done:
        _queue_job(s, j)
    if in_loop:
        process.idle_since = now
    else:
        process.busy_threads -= 1
        _leave_resource(s, k, job.key, job.stage, now)
    start_waiting_jobs(s, p, now)
    if in_loop and runner.job == NONE:
        _leave_resource(s, k, job.key, job.stage, now)
    return int(j) if done else NONE


@compiled
def pause_process(s: ServiceRecords, p: int, now: float) -> None:
    """Stop all runners of a process in the middle of their work."""
    process = s.processes[p]
    account_queues(process, s.runners, now)
    process.paused += 1
    if process.paused > 1:
        return
    for k in range(process.loop, process.first_thread + process.threads):
        _suspend_runner(s, k, now)


@compiled
def _suspend_runner(s: ServiceRecords, k: int, now: float) -> None:
    """Remove a runner from its resource, if it is at one; its remaining service is kept."""
    if s.runners[k].resource != NONE:
        job = s.jobs[s.runners[k].job]
        _leave_resource(s, k, job.key, job.stage, now)


@compiled
def resume_process(s: ServiceRecords, p: int, now: float) -> None:
    """Continue the work of a paused process where it stopped."""
    process = s.processes[p]
    account_queues(process, s.runners, now)
    process.paused -= 1
    if _is_stopped(process):
        return
    for k in range(process.loop, process.first_thread + process.threads):
        runner = s.runners[k]
        if runner.job != NONE:
            job = s.jobs[runner.job]
            at = process.disk if _is_disk_stage(s.stages[job.stage].kind) else process.cpu
            _enter_resource(s, k, at, NONE, job.key, job.stage, now)
    _start_loop_job(s, p, now)
    for _ in range(min(process.thread_waiting, process.threads)):
        _start_thread_job(s, p, now)


@compiled
def drop_jobs(s: ServiceRecords, p: int, now: float) -> None:
    """Delete everything that a process was doing or had queued."""
    process = s.processes[p]
    account_queues(process, s.runners, now)
    for k in range(process.loop, process.first_thread + process.threads):
        runner = s.runners[k]
        if runner.job == NONE:
            continue
        _suspend_runner(s, k, now)
        kind = s.stages[s.jobs[runner.job].stage].kind
        if not _is_disk_stage(kind):
            process.cpu_ms -= max(0.0, runner.remaining_ms)
        runner.job = NONE
    process.head = process.tail = process.thread_head = process.thread_tail = NONE
    process.waiting = process.thread_waiting = process.busy_threads = process.left_in_batch = 0
