"""CPU scheduler of a machine, after Linux's CFS; and its disk.

==================  ============================================================================
run queue           one for each core (``_next_waiting``); first come, first served
wake-up placement   a woken runner goes to its last core or an idle one, but with probability
                    ``wake_affine`` to its waker's core (``_select_core``)
preemption          there, with probability ``preempt``, it preempts a runner whose process has
                    had more CPU time lately (``_has_lower_vruntime``); else it queues
time slice          ``SLICE_MS`` while others wait for the core (``finish_or_preempt``)
idle balancing      a core that becomes idle steals a waiting runner with probability ``steal``,
                    unless that has waited for less than ``migration_cost_ms`` (Linux's
                    ``sched_migration_cost_ns``) (``_stealable_runner``)
interpreter lock    runners of a process that need it are one schedulable entity and share its
                    core equally (``_is_same_entity``, ``charge_elapsed_time``)
disk                infinite server: every runner at full speed (its measured times contain the
                    queueing of those that write together)
==================  ============================================================================

The probabilities are fitted to measured throughput (``mpcsim.capacity.calibration.scheduling``).
Left out: priorities, cgroups, NUMA, hyper-threads, and the cost of a context switch by itself.
"""

from __future__ import annotations

import math

from mpcsim.capacity.kernel.records import NONE, Record
from mpcsim.sim.network.tcp.compiled import compiled

SLICE_MS = 4.0
"""Time slice while others wait for the core: a tick of Linux's scheduler (250 Hz)."""
DECAY_MS = 50.0
"""Time constant with which CPU time of a process is forgotten."""


@compiled
def charge_elapsed_time(resource: Record, processes: Record, runners: Record, now: float) -> None:
    """Subtract the time since the last change from the remaining service of running runners."""
    elapsed = now - resource.accounted_to
    resource.accounted_to = now
    if elapsed <= 0.0:
        return
    resource.used_ms += elapsed * resource.busy
    k = resource.first
    while k != NONE:
        runner = runners[k]
        if runner.running:
            runner.remaining_ms -= (
                elapsed / processes[runner.process].gil_users if runner.needs_gil else elapsed
            )
        k = runner.following


@compiled
def _schedule_next_event(resource: Record, processes: Record, runners: Record) -> None:
    """Find the next completion (``finishing``), or the next end of a time slice, if nothing else
    changes."""
    resource.next_at = math.inf
    resource.finishing = NONE
    k = resource.first
    while k != NONE:
        runner = runners[k]
        if runner.running:
            sharing = processes[runner.process].gil_users if runner.needs_gil else 1
            completes_at = resource.accounted_to + max(0.0, runner.remaining_ms) * sharing
            if completes_at < resource.next_at:
                resource.next_at = completes_at
                resource.finishing = k
        k = runner.following
    if resource.waiting == 0:
        return
    k = resource.first
    while k != NONE:
        runner = runners[k]
        if (
            runner.running
            and runner.state_since + SLICE_MS < resource.next_at
            and _next_waiting(resource, runners, k) != k
        ):
            resource.next_at = max(resource.accounted_to, runner.state_since + SLICE_MS)
            resource.finishing = NONE
        k = runner.following


# ---------------------------------------------------------------------- chain of runners


@compiled
def _append_runner(resource: Record, runners: Record, k: int) -> None:
    """Append a runner to the chain."""
    runners[k].previous = resource.last
    runners[k].following = NONE
    if resource.last == NONE:
        resource.first = k
    else:
        runners[resource.last].following = k
    resource.last = k


@compiled
def _prepend_runner(resource: Record, runners: Record, k: int) -> None:
    """Insert a runner at the beginning of the chain."""
    runners[k].previous = NONE
    runners[k].following = resource.first
    if resource.first == NONE:
        resource.last = k
    else:
        runners[resource.first].previous = k
    resource.first = k


@compiled
def _remove_runner(resource: Record, runners: Record, k: int) -> None:
    """Remove a runner from the chain."""
    runner = runners[k]
    if runner.previous == NONE:
        resource.first = runner.following
    else:
        runners[runner.previous].following = runner.following
    if runner.following == NONE:
        resource.last = runner.previous
    else:
        runners[runner.following].previous = runner.previous


# ---------------------------------------------------------------------- cores


@compiled
def _is_same_entity(runners: Record, k: int, other: int) -> bool:
    """Return whether two runners are one schedulable entity: the same, or under one interpreter
    lock."""
    if k == other:
        return True
    one, two = runners[k], runners[other]
    return bool(one.needs_gil) and bool(two.needs_gil) and bool(one.process == two.process)


@compiled
def add_cpu_time(process: Record, cpu_ms: float, now: float) -> None:
    """Add CPU time to the exponentially forgotten sum of a process."""
    process.recent_ms = cpu_ms + process.recent_ms * math.exp((process.recent_at - now) / DECAY_MS)
    process.recent_at = now


@compiled
def _has_lower_vruntime(processes: Record, p: int, other: int, now: float) -> bool:
    """Return whether process ``p`` has received less CPU time than ``other``, recent time weighing
    more."""
    one, two = processes[p], processes[other]
    first = one.recent_ms * math.exp((one.recent_at - now) / DECAY_MS)
    return bool(first < two.recent_ms * math.exp((two.recent_at - now) / DECAY_MS))


@compiled
def _set_running(
    resource: Record, runners: Record, k: int, core: int, running: int, now: float
) -> None:
    """Start (``running`` 1) or stop the schedulable entity of runner ``k`` on a core."""
    other = resource.first
    while other != NONE:
        if _is_same_entity(runners, k, other):
            runners[other].core = core
            runners[other].running = running
            runners[other].state_since = now
        other = runners[other].following
    resource.busy += 1 if running else -1
    resource.waiting += -1 if running else 1


@compiled
def _move_to_back(resource: Record, runners: Record, k: int) -> None:
    """Move all runners of a schedulable entity to the end of the chain."""
    last = resource.last
    other = resource.first
    while other != NONE:
        following = runners[other].following
        if _is_same_entity(runners, k, other):
            _remove_runner(resource, runners, other)
            _append_runner(resource, runners, other)
        if other == last:
            return
        other = following


@compiled
def _runner_on(resource: Record, runners: Record, core: int) -> int:
    """Return the first runner that runs on a core; NONE: the core is idle."""
    k = resource.first
    while k != NONE:
        if runners[k].running and runners[k].core == core:
            return int(k)
        k = runners[k].following
    return NONE


@compiled
def _next_waiting(resource: Record, runners: Record, k: int) -> int:
    """Return the first runner in the run queue of the core of runner ``k``; ``k``: the queue is
    empty."""
    other = resource.first
    while other != NONE:
        if not runners[other].running and runners[other].core == runners[k].core:
            return int(other)
        other = runners[other].following
    return k


@compiled
def _idle_core(resource: Record, runners: Record) -> int:
    """Return the first idle core; NONE: there is none."""
    if resource.busy >= resource.cores:
        return NONE
    core = 0
    while _runner_on(resource, runners, core) != NONE:
        core += 1
    return core


@compiled
def _select_core(resource: Record, runners: Record, k: int, waker: int, u: float) -> int:
    """Return the core for a runner that wakes up.

    Args:
        waker: core of its waker; NONE: the waker is on another machine.
        u: uniform draw for wake-affine placement.
    """
    before = runners[k].core if runners[k].core != NONE else k % resource.cores
    if waker == NONE:
        waker = before
    if u < resource.wake_affine:
        return int(waker)
    if _runner_on(resource, runners, before) == NONE:
        return int(before)
    free = _idle_core(resource, runners)
    return int(waker if free == NONE else free)


@compiled
def enqueue_runner(
    resource: Record,
    processes: Record,
    runners: Record,
    k: int,
    waker: int,
    u: float,
    v: float,
    now: float,
) -> None:
    """Add runner ``k``, with ``remaining_ms`` of service, to a resource.

    Args:
        waker: as for ``_select_core``.
        u: uniform draw for its placement; ``v``: for preemption.
    """
    runner = runners[k]
    charge_elapsed_time(resource, processes, runners, now)
    if runner.needs_gil:
        processes[runner.process].gil_users += 1
    if resource.cores == 0:
        runner.running = 1
        resource.busy += 1
        _append_runner(resource, runners, k)
    elif runner.needs_gil and processes[runner.process].gil_users > 1:
        other = resource.first
        while not _is_same_entity(runners, k, other):
            other = runners[other].following
        runner.core = runners[other].core
        runner.running = runners[other].running
        runner.state_since = runners[other].state_since
        _append_runner(resource, runners, k)
    else:
        core = _select_core(resource, runners, k, waker, u)
        current = _runner_on(resource, runners, core)
        runner.core = core
        runner.running = 0
        runner.state_since = now
        resource.waiting += 1
        if current == NONE:
            _append_runner(resource, runners, k)
            _set_running(resource, runners, k, core, 1, now)
        elif v < resource.preempt and _has_lower_vruntime(
            processes, runner.process, runners[current].process, now
        ):
            _set_running(resource, runners, current, core, 0, now)
            _remove_runner(resource, runners, current)
            _prepend_runner(resource, runners, current)
            _prepend_runner(resource, runners, k)
            _set_running(resource, runners, k, core, 1, now)
        else:
            _append_runner(resource, runners, k)
    _schedule_next_event(resource, processes, runners)


@compiled
def resume_running(resource: Record, processes: Record, runners: Record, now: float) -> None:
    """Recompute the next event of a resource after a runner there got more service to do."""
    charge_elapsed_time(resource, processes, runners, now)
    _schedule_next_event(resource, processes, runners)


@compiled
def dequeue_runner(
    resource: Record, processes: Record, runners: Record, k: int, u: float, now: float
) -> None:
    """Remove runner ``k`` from a resource: it is done, or stopped.

    Args:
        u: uniform draw for whether its core steals a waiting runner.
    """
    runner = runners[k]
    charge_elapsed_time(resource, processes, runners, now)
    _remove_runner(resource, runners, k)
    if runner.needs_gil:
        processes[runner.process].gil_users -= 1
    if runner.needs_gil and processes[runner.process].gil_users:
        _schedule_next_event(resource, processes, runners)
        return
    if not runner.running:
        resource.waiting -= 1
    else:
        resource.busy -= 1
        if resource.waiting:
            _refill_core(resource, runners, k, u, now)
    _schedule_next_event(resource, processes, runners)


@compiled
def _refill_core(resource: Record, runners: Record, k: int, u: float, now: float) -> None:
    """Give the core that runner ``k`` has left to the next in its run queue, or to a stolen
    runner."""
    core = runners[k].core
    other = _next_waiting(resource, runners, k)
    if other == k and u < resource.steal:
        other = _stealable_runner(resource, runners, k, now)
    if other != k:
        _set_running(resource, runners, other, core, 1, now)


@compiled
def _stealable_runner(resource: Record, runners: Record, k: int, now: float) -> int:
    """Return the first runner that waits for another core for long enough; ``k``: there is none."""
    other = resource.first
    while other != NONE:
        if (
            not runners[other].running
            and now - runners[other].state_since >= resource.migration_cost_ms
        ):
            return int(other)
        other = runners[other].following
    return k


@compiled
def next_resource(resources: Record) -> int:
    """Return the resource with the earliest event; NONE: no runner is at any."""
    found = NONE
    at = math.inf
    for k in range(len(resources)):
        if resources[k].next_at < at:
            at = resources[k].next_at
            found = k
    return found


@compiled
def finish_or_preempt(resource: Record, processes: Record, runners: Record, now: float) -> int:
    """Return the runner whose service is complete; NONE: a time slice has ended, and another one
    runs."""
    charge_elapsed_time(resource, processes, runners, now)
    if resource.finishing != NONE:
        return int(resource.finishing)
    k = resource.first
    longest = NONE
    while k != NONE:
        runner = runners[k]
        contended = runner.running and _next_waiting(resource, runners, k) != k
        if contended and (longest == NONE or runner.state_since < runners[longest].state_since):
            longest = k
        k = runner.following
    other = _next_waiting(resource, runners, longest)
    core, free = runners[longest].core, _idle_core(resource, runners)
    _set_running(resource, runners, longest, core, 0, now)
    if free != NONE:
        _set_running(resource, runners, other, free, 1, now)
        _set_running(resource, runners, longest, core, 1, now)
    else:
        _move_to_back(resource, runners, longest)
        _set_running(resource, runners, other, core, 1, now)
    _schedule_next_event(resource, processes, runners)
    return NONE
