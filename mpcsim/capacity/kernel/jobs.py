"""What processes do with their jobs.

A job has stages, one after the other. Its process's event loop does one job at a time, in the
order in which they came; a turn of the loop takes all that wait when it begins, and shares among
them what the turn itself costs: hence a busy loop pays less for each. Two stages in the event loop
are two turns: others that wait come in between. A process that has not done anything for a while
finds its caches cold, and pays for that. What is done in threads waits for one of the process's.
"""

from __future__ import annotations

import math

import numpy as np

from mpcsim.capacity.kernel import cores, draws
from mpcsim.capacity.kernel.records import (
    DOWN,
    LOOP,
    LOOP_DISK,
    NONE,
    THREAD,
    THREAD_DISK,
    Record,
    Service,
)
from mpcsim.sim.network.tcp.compiled import compiled

WAKES, AHEAD, TAKES = 10_000_000, 20_000_000, 30_000_000
"""What draws are for, besides stages."""


@compiled
def _in_loop(kind: int) -> bool:
    return bool(kind == LOOP) or bool(kind == LOOP_DISK)


@compiled
def _same_turn(before: int, kind: int) -> bool:
    """Whether a stage of some kind goes on right after another: a loop's next turn comes when all
    have had theirs."""
    if before == LOOP and kind == LOOP:
        return False
    return _in_loop(before) == _in_loop(kind)


@compiled
def _on_disk(kind: int) -> bool:
    return bool(kind == LOOP_DISK) or bool(kind == THREAD_DISK)


@compiled
def account(process: Record, runners: Record, now: float) -> None:
    """Note what the process was like up to now."""
    passed = now - process.since
    process.since = now
    if passed <= 0.0:
        return
    if runners[process.loop].job != NONE:
        process.loop_taken += passed
    process.queued += passed * process.waiting
    process.thread_taken += passed * process.threads_taken
    process.thread_queued += passed * process.thread_waiting


@compiled
def _stands(process: Record) -> bool:
    """Whether nothing of it is done now."""
    return bool(process.paused > 0 or process.state == DOWN)


@compiled
def _work(
    s: Service,
    j: int,
    extra: float,
    now: float,
) -> None:
    """The job begins its present stage on the runner that it has."""
    job = s.jobs[j]
    stage = s.stages[job.stage]
    process = s.processes[job.process]
    runner = s.runners[job.runner]
    on_disk = _on_disk(stage.kind)
    at = process.disk if on_disk else process.cores
    locks = 1 if stage.kind == LOOP or stage.kind == THREAD else 0
    if runner.place != NONE and (runner.place != at or runner.locks != locks):
        _leave(s, job.runner, job.key, job.stage, now)
    runner.locks = locks
    u = draws.uniform(draws.mixed(job.key, job.stage))
    runner.left = (
        draws.quantile(s.tables, s.levels, s.evens, stage.table, u)
        * s.speeds[process.speeds, job.stage]
        + extra
    )
    job.worked += runner.left
    if not on_disk:
        process.cpu += runner.left
        cores.account(process, runner.left, now)
    if runner.place != NONE:
        cores.go_on(s.places[at], s.processes, s.runners, now)
    elif not _stands(process):
        _enter(s, job.runner, at, job.waker, job.key, job.stage, now)


@compiled
def _enter(s: Service, k: int, at: int, waker: int, key: np.uint64, stage: int, now: float) -> None:
    """A runner comes to a place, because of a job at a stage."""
    s.runners[k].place = at
    drawn = draws.uniform(draws.mixed(key, WAKES + stage))
    again = draws.uniform(draws.mixed(key, AHEAD + stage))
    cores.enter(s.places[at], s.processes, s.runners, k, waker, drawn, again, now)


@compiled
def _leave(s: Service, k: int, key: np.uint64, stage: int, now: float) -> None:
    """A runner leaves its place, because of a job at a stage."""
    place = s.places[s.runners[k].place]
    s.runners[k].place = NONE
    drawn = draws.uniform(draws.mixed(key, TAKES + stage))
    cores.leave(place, s.processes, s.runners, k, drawn, now)


@compiled
def _serve_loop(
    s: Service,
    p: int,
    now: float,
) -> None:
    """The event loop takes its next job, if it is free and there is one."""
    process = s.processes[p]
    if s.runners[process.loop].job != NONE or process.head == NONE or _stands(process):
        return
    chill = 0.0
    if process.to_do == 0:
        process.to_do = process.batch = process.waiting
        process.turns += 1.0
        if now > process.idle_since and process.cooling > 0.0:
            chill = 1.0 - math.exp(-(now - process.idle_since) / process.cooling)
            process.chills += chill
    process.to_do -= 1
    j = process.head
    process.head = s.jobs[j].following
    if process.head == NONE:
        process.tail = NONE
    process.waiting -= 1
    s.jobs[j].runner = process.loop
    s.runners[process.loop].job = j
    extra = process.turn / process.batch + process.cold * chill
    _work(s, j, extra, now)


@compiled
def _serve_threads(
    s: Service,
    p: int,
    now: float,
) -> None:
    """A free thread takes the next job that waits for one."""
    process = s.processes[p]
    if process.thread_head == NONE or process.threads_taken == process.threads or _stands(process):
        return
    k = process.first_thread
    while s.runners[k].job != NONE:
        k += 1
    j = process.thread_head
    process.thread_head = s.jobs[j].following
    if process.thread_head == NONE:
        process.thread_tail = NONE
    process.thread_waiting -= 1
    process.threads_taken += 1
    s.jobs[j].runner = k
    s.runners[k].job = j
    _work(s, j, 0.0, now)


@compiled
def _line_up(s: Service, j: int) -> None:
    """The job waits for what its present stage needs."""
    job = s.jobs[j]
    process = s.processes[job.process]
    kind = s.stages[job.stage].kind
    job.following = NONE
    if _in_loop(kind):
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
def serve(s: Service, p: int, now: float) -> None:
    """Whoever of a process is free takes what waits."""
    _serve_loop(s, p, now)
    _serve_threads(s, p, now)


@compiled
def hand(
    s: Service,
    j: int,
    now: float,
) -> None:
    """A job comes to its process."""
    job = s.jobs[j]
    account(s.processes[job.process], s.runners, now)
    job.came = now
    job.worked = 0.0
    job.runner = NONE
    _line_up(s, j)
    serve(s, job.process, now)


@compiled
def advance(
    s: Service,
    at: int,
    now: float,
) -> int:
    """Somebody is through at a place.

    Returns:
        The job that is over by that; NONE: it has more stages.
    """
    k = cores.through(s.places[at], s.processes, s.runners, now)
    if k == NONE:
        return NONE
    runner = s.runners[k]
    j = runner.job
    job = s.jobs[j]
    p = job.process
    process = s.processes[p]
    account(process, s.runners, now)
    before = s.stages[job.stage].kind
    job.stage += 1
    job.waker = runner.core
    over = job.stage == job.last_stage
    in_loop = _in_loop(before)
    if not over and _same_turn(before, s.stages[job.stage].kind):
        _work(s, j, 0.0, now)
        return NONE
    runner.job = NONE
    job.runner = NONE
    if not over:
        _line_up(s, j)
    if in_loop:
        process.idle_since = now
    else:
        process.threads_taken -= 1
        _leave(s, k, job.key, job.stage, now)
    serve(s, p, now)
    if in_loop and runner.job == NONE:
        _leave(s, k, job.key, job.stage, now)
    return int(j) if over else NONE


@compiled
def pause(s: Service, p: int, now: float) -> None:
    """A process stands still."""
    process = s.processes[p]
    account(process, s.runners, now)
    process.paused += 1
    if process.paused > 1:
        return
    for k in range(process.loop, process.first_thread + process.threads):
        _hold_up(s, k, now)


@compiled
def _hold_up(s: Service, k: int, now: float) -> None:
    """A runner leaves its place in the middle of something, if it is at one."""
    if s.runners[k].place != NONE:
        job = s.jobs[s.runners[k].job]
        _leave(s, k, job.key, job.stage, now)


@compiled
def resume(s: Service, p: int, now: float) -> None:
    """It goes on where it was."""
    process = s.processes[p]
    account(process, s.runners, now)
    process.paused -= 1
    if _stands(process):
        return
    for k in range(process.loop, process.first_thread + process.threads):
        runner = s.runners[k]
        if runner.job != NONE:
            job = s.jobs[runner.job]
            at = process.disk if _on_disk(s.stages[job.stage].kind) else process.cores
            _enter(s, k, at, NONE, job.key, job.stage, now)
    _serve_loop(s, p, now)
    for _ in range(min(process.thread_waiting, process.threads)):
        _serve_threads(s, p, now)


@compiled
def clear(s: Service, p: int, now: float) -> None:
    """A process loses all that it was doing; its jobs are nowhere."""
    process = s.processes[p]
    account(process, s.runners, now)
    for k in range(process.loop, process.first_thread + process.threads):
        runner = s.runners[k]
        if runner.job == NONE:
            continue
        _hold_up(s, k, now)
        kind = s.stages[s.jobs[runner.job].stage].kind
        if not _on_disk(kind):
            process.cpu -= max(0.0, runner.left)
        runner.job = NONE
    process.head = process.tail = process.thread_head = process.thread_tail = NONE
    process.waiting = process.thread_waiting = process.threads_taken = process.to_do = 0
