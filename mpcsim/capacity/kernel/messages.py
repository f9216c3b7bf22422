"""Life of a message: sent, connected, arrived, admitted, handled, completed.

``send_message`` gives it to its link, ``finish_transfer`` takes it from the network,
``deliver_message`` makes it a job of the receiving process, ``admit_job`` starts that,
``finish_handling`` acquires the locks that it needs, and ``complete_message`` runs the steps of the
call that waited for it, which send further messages. Each of these moments is recorded.
"""

from __future__ import annotations

import numpy as np

from mpcsim.capacity.kernel import admission, connection_pool, draws, event_queue, process_queues
from mpcsim.capacity.kernel.calls import completion
from mpcsim.capacity.kernel.records import (
    ADMITTED,
    ARRIVED,
    CALL_FAILS,
    COMPLETED,
    CONNECTED,
    DOWN,
    HANDLED,
    JOB_DONE,
    MESSAGE_ARRIVES,
    NONE,
    NOT_WAITING,
    REFUSED,
    SENT,
    SERVICE_MS,
    UP,
    CallRecords,
    ServiceRecords,
)
from mpcsim.sim.network.tcp.compiled import compiled
from mpcsim.sim.network.tcp.state import Records

WORKER, LATENCY, TASK = 1000, 2000, 3000
"""Purposes of draws."""


@compiled
def message_index(w: CallRecords, c: int, m: int) -> int:
    """Return the index of a message within its operation."""
    return int(m - w.operations[w.calls[c].operation].first_message)


# ---------------------------------------------------------------------- over the link


@compiled
def choose_process(w: CallRecords, s: ServiceRecords, c: int, role: int) -> None:
    """Assign a process of a role to a call: the next replica that is up (round robin), a random
    worker."""
    call = w.calls[c]
    of = w.roles[role]
    drawn = int(draws.uniform(draws.hash64(call.key, WORKER + role)) * of.workers)
    for k in range(of.replicas):
        replica = (of.next_replica + k) % of.replicas
        p = of.first + replica * of.workers + drawn
        if s.processes[p].state == UP:
            of.next_replica = (replica + 1) % of.replicas
            call.process[role] = p
            call.incarnation[role] = s.processes[p].incarnation
            s.processes[p].calls += 1
            return


@compiled
def draw_latency(w: CallRecords, direction: int, back: int) -> float:
    """Return the next latency of a direction of a link: there (0), or of what comes back for it
    (1)."""
    of = w.directions[direction]
    state = w.state[0]
    k = of.used[back]
    of.used[back] = k + 1
    state.most_used = max(state.most_used, k + 1)
    # One event reuses a latency only if thousands of calls fail at once.
    return float(w.latencies[direction, back, k % w.latencies.shape[2]] * of.slowdown)


@compiled
def send_message(w: CallRecords, n: Records, s: ServiceRecords, c: int, m: int, now: float) -> None:
    """Send a message of a call over its link; without a link it arrives at once."""
    call = w.calls[c]
    message = w.messages[m]
    k = message_index(w, c, m)
    call.pending += 1
    w.moments[c, k, SENT] = now
    if call.process[message.target] == NONE:
        choose_process(w, s, c, message.target)
    state = w.state[0]
    if message.link == NONE:
        w.moments[c, k, CONNECTED] = now
        event_queue.push(w.events, state, now, MESSAGE_ARRIVES, c, m)
        return
    number = state.free_transfer
    delivery = w.deliveries[number]
    state.free_transfer = delivery.following
    state.spare_transfers -= 1
    delivery.call = c
    delivery.message = m
    t = n.transfers[number]
    t.link = message.link
    t.side = message.side
    t.size = t.available = message.size
    t.stream = 0
    t.exclusive = 1
    direction = 2 * message.link + message.side
    key = draws.hash64(call.key, LATENCY + k)
    t.forward = draw_latency(w, direction, 0)
    t.backward = draw_latency(w, direction, 1)
    t.key = draws.hash64(key, 2) if w.directions[direction].lossy else np.uint64(0)
    connection = w.connection[c, message.exchange]
    if message.is_answer and connection != NONE:
        t.pair = n.heads[connection].owner
    else:
        t.pair = state.pairs_so_far
        state.pairs_so_far += 1
    t.session = call.process[message.target if message.is_answer else message.source]
    t.given = now
    t.order = state.placed
    state.placed += 1
    t.connection = -2
    connection_pool.hand_to_network(w, number)


@compiled
def finish_transfer(w: CallRecords, n: Records, s: ServiceRecords, k: int, now: float) -> None:
    """Take a transfer from the network: it has arrived, or TCP has given it up."""
    number = n.connections[k].arrival_number
    c, m = w.deliveries[number].call, w.deliveries[number].message
    connection_pool.free_transfer(w, number)
    message = w.messages[m]
    failed = w.calls[c].failed
    head = n.heads[k]
    if n.links[head.link].http2:
        queue = w.connection_queues[head.link * len(s.processes) + head.session]
        connection_pool.serve_http2(w, n, s, queue, k, now)
    # If TCP has given up, the end of the call releases the connection.
    ended = message.is_answer and not n.connections[k].arrival_failed
    if (ended or failed) and w.connection[c, message.exchange] != NONE:
        connection_pool.release_connection(w, n, s, c, message.exchange, now)
    if n.connections[k].arrival_failed:
        if not failed:
            report_failure(w, c, message.target, now)
        w.calls[c].pending -= 1
        completion.free_call_if_over(w, s, c, now)
    elif message.service_ms > 0.0 and not failed:
        event_queue.push(w.events, w.state[0], now + message.service_ms, MESSAGE_ARRIVES, c, m)
    else:
        deliver_message(w, n, s, c, m, now)


# ---------------------------------------------------------------------- to its process


@compiled
def deliver_message(
    w: CallRecords, n: Records, s: ServiceRecords, c: int, m: int, now: float
) -> None:
    """Make an arrived message a job of its process, past its limit; a lost process fails the
    call."""
    call = w.calls[c]
    message = w.messages[m]
    k = message_index(w, c, m)
    w.moments[c, k, ARRIVED] = now
    p = call.process[message.target]
    if not call.failed and _is_lost(s, p, call.incarnation[message.target]):
        report_failure(w, c, message.target, now)
        call.pending -= 1
        return
    if call.failed:
        call.pending -= 1
        completion.free_call_if_over(w, s, c, now)
        return
    j = _new_job(w, s, c, m, p)
    entered = 1 if message.enters == NONE else admission.enter_limit(w, s, j, message.enters, now)
    if entered == 1:
        admit_job(w, s, j, now)
    elif entered == NONE:
        refuse_message(w, n, s, j, now)


@compiled
def _new_job(w: CallRecords, s: ServiceRecords, c: int, m: int, p: int) -> int:
    """Return a new job: the handling of a message by a process."""
    state = w.state[0]
    call = w.calls[c]
    message = w.messages[m]
    j = state.free_job
    job = s.jobs[j]
    state.free_job = job.following
    state.spare_jobs -= 1
    job.following = NONE
    job.number = state.jobs_so_far
    state.jobs_so_far += 1
    job.process = p
    job.call = c
    job.message = m
    job.waits_for = NOT_WAITING
    job.worked_ms = 0.0
    job.waker_core = waker_core(s, p, call.process[message.source])
    job.key = draws.hash64(call.key, TASK + message_index(w, c, m))
    job.stage = message.first_stage
    job.last_stage = message.last_stage
    job.deferred = 0
    return int(j)


@compiled
def _enqueue_deferred(w: CallRecords, s: ServiceRecords, j: int, now: float) -> None:
    """Queue the work that a process does after the answer has been sent, if the message causes
    any."""
    job = s.jobs[j]
    message = w.messages[job.message]
    if message.last_stage == message.end_stage:
        return
    w.calls[job.call].pending += 1
    k = _new_job(w, s, job.call, job.message, job.process)
    other = s.jobs[k]
    other.stage = message.last_stage
    other.last_stage = message.end_stage
    other.deferred = 1
    process_queues.enqueue_job(s, k, now)


@compiled
def waker_core(s: ServiceRecords, p: int, source: int) -> int:
    """Return the core of the sending process, if it is on the same machine; else NONE."""
    if source == NONE or s.processes[source].cpu != s.processes[p].cpu:
        return NONE
    return int(s.runners[s.processes[source].loop].core)


@compiled
def _is_lost(s: ServiceRecords, p: int, incarnation: int) -> bool:
    """Return whether a process is down, or has been restarted since."""
    return bool(
        p == NONE or s.processes[p].state == DOWN or s.processes[p].incarnation != incarnation
    )


@compiled
def report_failure(w: CallRecords, c: int, role: int, now: float) -> None:
    """Schedule the news, for its caller, that a call has failed at a role."""
    call = w.calls[c]
    call.pending += 1
    at = now
    while role != NONE:
        direction = w.roles[role].direction
        if direction != NONE:
            at += draw_latency(w, direction, 0)
        role = w.roles[role].next_role
    event_queue.push(w.events, w.state[0], at, CALL_FAILS, c, call.number)


@compiled
def admit_job(w: CallRecords, s: ServiceRecords, j: int, now: float) -> None:
    """Start the handling of a message."""
    job = s.jobs[j]
    job.waits_for = NOT_WAITING
    w.moments[job.call, message_index(w, job.call, job.message), ADMITTED] = now
    if job.stage == job.last_stage:
        event_queue.push(w.events, w.state[0], now, JOB_DONE, j, job.number)
    else:
        process_queues.enqueue_job(s, j, now)


# ---------------------------------------------------------------------- to what waited for it


@compiled
def free_job(w: CallRecords, s: ServiceRecords, j: int) -> None:
    """Return the record of a job to the free list."""
    state = w.state[0]
    job = s.jobs[j]
    job.call = job.number = NONE
    job.following = state.free_job
    state.free_job = j
    state.spare_jobs += 1


@compiled
def finish_handling(w: CallRecords, n: Records, s: ServiceRecords, j: int, now: float) -> None:
    """End the handling of a message: acquire its locks, then complete it."""
    job = s.jobs[j]
    c, m = job.call, job.message
    if job.deferred:
        free_job(w, s, j)
        w.calls[c].pending -= 1
        completion.free_call_if_over(w, s, c, now)
        return
    _enqueue_deferred(w, s, j, now)
    k = message_index(w, c, m)
    w.moments[c, k, HANDLED] = now
    w.moments[c, k, SERVICE_MS] = job.worked_ms
    if w.messages[m].acquires and not w.calls[c].failed:
        locked = admission.acquire_locks(w, s, j, now)
        if locked == NONE:
            refuse_message(w, n, s, j, now)
        if locked != 1:
            return
    complete_message(w, n, s, j, now)


@compiled
def refuse_message(w: CallRecords, n: Records, s: ServiceRecords, j: int, now: float) -> None:
    """Refuse a message: its refusal is sent to whoever waits for an answer, or ends the call."""
    job = s.jobs[j]
    c, refusal = job.call, w.messages[job.message].refusal
    free_job(w, s, j)
    if refusal != NONE:
        send_message(w, n, s, c, refusal, now)
    else:
        completion.end_call(w, c, REFUSED, now)
    w.calls[c].pending -= 1
    completion.free_call_if_over(w, s, c, now)


@compiled
def complete_message(w: CallRecords, n: Records, s: ServiceRecords, j: int, now: float) -> None:
    """Run the steps of a call that waited for this message only."""
    c, m = s.jobs[j].call, s.jobs[j].message
    free_job(w, s, j)
    call = w.calls[c]
    message = w.messages[m]
    w.moments[c, message_index(w, c, m), COMPLETED] = now
    if message.releases:
        admission.release_locks(w, s, c, message.releases, now)
    if message.leaves != NONE:
        admission.leave_limit(w, s, c, message.leaves, now)
    if not call.failed:
        first = w.operations[call.operation].first_step
        for position in range(message.first_needed, message.last_needed):
            k = w.lists[position]
            w.unmet_needs[c, k - first] -= 1
            if w.unmet_needs[c, k - first] == 0:
                run_step(w, n, s, c, k, now)
    call.pending -= 1
    completion.free_call_if_over(w, s, c, now)


@compiled
def run_step(w: CallRecords, n: Records, s: ServiceRecords, c: int, k: int, now: float) -> None:
    """Run a step of a call: send its messages, or end the call."""
    step = w.steps[k]
    if step.ends != NONE:
        completion.end_call(w, c, step.ends, now)
    for position in range(step.first_send, step.last_send):
        send_message(w, n, s, c, w.lists[position], now)
