"""Single steps of the kernel, for a caller in Python that carries the messages itself.

The caller (``mpcsim.capacity.real``) says when a job reaches its process and how a call ends;
processes, CPU scheduling, retries and incidents are the kernel's, with the same draws.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from mpcsim.capacity.kernel import (
    cpu_scheduler,
    draws,
    event_queue,
    messages,
    process_queues,
    simulation_loop,
)
from mpcsim.capacity.kernel.calls import completion, orders
from mpcsim.capacity.kernel.records import NONE, ORDER_DUE, CallRecords, ServiceRecords
from mpcsim.capacity.simulation.call_graph import NODE
from mpcsim.sim.network.tcp.compiled import entry
from mpcsim.sim.network.tcp.state import Records

# Actions of `step`.
START_ARRIVAL: Final = 0
"""Begin the call of the next arrival."""
CHOOSE_PROCESS: Final = 1
"""Assign a process of a role (``number``) to a call (``of``)."""
ENQUEUE_JOB: Final = 2
"""Hand a job (``of``) to its process."""
FINISH_STAGE: Final = 3
"""Finish the stage that ends first: a job may be done."""
END_CALL: Final = 4
"""End a call (``of``) with an outcome (``number``)."""
RELEASE_CALL: Final = 5
"""Free a call (``of``) that the service has left."""
APPLY_EVENT: Final = 6
"""Apply the next event: a call may begin."""


@entry
def step(
    w: CallRecords, n: Records, s: ServiceRecords, action: int, of: int, number: int, now: float
) -> tuple[int, int]:
    """Carry out one action.

    Returns:
        The job that is done, the call that begins, or NONE; and which array must grow before the
        action can be carried out (``simulation_loop.room_needed``; 0: it has been).
    """
    needed = simulation_loop.room_needed(w, n)
    if needed:
        return NONE, needed
    w.state[0].now = now
    found = NONE
    order = NONE
    if action == START_ARRIVAL:
        order = orders.new_order(w, now)
    elif action == CHOOSE_PROCESS:
        messages.choose_process(w, s, of, number)
    elif action == ENQUEUE_JOB:
        process_queues.enqueue_job(s, of, now)
    elif action == FINISH_STAGE:
        found = process_queues.finish_stage(s, cpu_scheduler.next_resource(s.resources), now)
    elif action == END_CALL:
        completion.end_call(w, of, number, now)
    elif action == RELEASE_CALL:
        w.calls[of].pending -= 1
        completion.free_call_if_over(w, s, of, now)
    elif action == APPLY_EVENT:
        event_queue.pop(w.events, w.state[0])
        event = w.events[w.state[0].events]
        if event.kind == ORDER_DUE:
            order = event.of
        else:
            simulation_loop.apply_common_event(w, n, s, event.kind, event.of, event.number, now)
    if order != NONE:
        found = orders.new_call(w, order, now)
        w.calls[found].pending = 1
        messages.choose_process(w, s, found, NODE)
    return found, 0


@entry
def next_completion_ms(s: ServiceRecords) -> float:
    """Return when the next stage ends; infinite: nothing runs."""
    resource = cpu_scheduler.next_resource(s.resources)
    return s.resources[resource].next_at if resource != NONE else math.inf


@entry
def waker_core(s: ServiceRecords, p: int, source: int) -> int:
    """Return the core of a sending process (``messages.waker_core``)."""
    return messages.waker_core(s, p, source)


@entry
def hash64(key: np.uint64, number: int) -> np.uint64:
    """Return the key of a draw (``draws.hash64``)."""
    return draws.hash64(key, number)


@entry
def draw_latency(w: CallRecords, direction: int, back: int) -> float:
    """Return the next latency of a direction of a link (``messages.draw_latency``)."""
    return messages.draw_latency(w, direction, back)
