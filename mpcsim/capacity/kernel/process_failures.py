"""Failures of calls: by the crash of a process, and by an answer that does not come in time.

A crash loses the jobs and the memory of a process, and so the calls that depend on it.

A call depends on a process that has sent or received a request of it that is not answered, or that
handles a message of it (``_depends_on``). Its caller learns of the failure after the latency from
the crashed role to the caller (``messages.report_failure``).

A role that has waited ``timeout_ms`` for the answer to a request gives up and reports the failure
(``fail_if_overdue``); who was asked continues with it.
"""

from __future__ import annotations

import math

from mpcsim.capacity.kernel import (
    admission,
    connection_pool,
    event_queue,
    messages,
    process_queues,
)
from mpcsim.capacity.kernel.calls import completion
from mpcsim.capacity.kernel.records import (
    ANSWER_OVERDUE,
    ARRIVED,
    BROKEN,
    DOWN,
    KEY_LOCK,
    NONE,
    NOT_WAITING,
    ROLES,
    SENT,
    WAKE_SCHEDULED,
    CallRecords,
    ServiceRecords,
)
from mpcsim.sim.network.tcp.compiled import compiled
from mpcsim.sim.network.tcp.state import Records

NODE = 1


@compiled
def fail_call(w: CallRecords, n: Records, s: ServiceRecords, c: int, now: float) -> None:
    """End a call whose caller learns that it has failed, and drop what waits on its behalf."""
    call = w.calls[c]
    call.pending -= 1  # the news of the failure
    call.failed = 1
    completion.end_call(w, c, BROKEN, now)
    for j in range(len(s.jobs)):
        if s.jobs[j].call == c and s.jobs[j].waits_for != NOT_WAITING:
            _leave_queue(w, s, j, now)
            messages.free_job(w, s, j)
            call.pending -= 1
    for exchange in range(w.operations[call.operation].exchanges):
        k = w.connection[c, exchange]
        if k == NONE:
            continue
        there, back = n.connections[k].half[0], n.connections[k].half[1]
        idle = (
            there.messages_queued == there.messages_delivered
            and back.messages_queued == back.messages_delivered
        )
        # A busy HTTP/1.1 connection is released when what is under way on it has arrived.
        if idle or n.links[n.heads[k].link].http2:
            connection_pool.release_connection(w, n, s, c, exchange, now)
    completion.free_call_if_over(w, s, c, now)


@compiled
def _leave_queue(w: CallRecords, s: ServiceRecords, j: int, now: float) -> None:
    """Remove a job from the limit or lock that it waits for."""
    waits_for = s.jobs[j].waits_for
    if waits_for == KEY_LOCK:
        admission.leave_lock_queue(w, s, j)
    elif waits_for != WAKE_SCHEDULED:
        admission.leave_limit_queue(w, s, j, now)


@compiled
def kill_process(w: CallRecords, n: Records, s: ServiceRecords, p: int, now: float) -> None:
    """Crash a process: drop its jobs, and report the failure of all calls that depend on it."""
    process = s.processes[p]
    if process.state == DOWN:
        return
    process_queues.drop_jobs(s, p, now)
    for c in range(len(w.calls)):
        if w.calls[c].number == NONE:
            continue
        for role in range(ROLES):
            if _depends_on(w, c, role, p, process.incarnation):
                messages.report_failure(w, c, role, now)
                break
    for j in range(len(s.jobs)):
        job = s.jobs[j]
        if job.call == NONE or job.process != p:
            continue
        if job.waits_for != NOT_WAITING:
            _leave_queue(w, s, j, now)
        c = job.call
        messages.free_job(w, s, j)
        w.calls[c].pending -= 1
        completion.free_call_if_over(w, s, c, now)
    process.state = DOWN
    process.incarnation += 1
    process.calls = 0


@compiled
def _depends_on(w: CallRecords, c: int, role: int, p: int, incarnation: int) -> bool:
    """Return whether a call has an unanswered request at or from a process in a role."""
    call = w.calls[c]
    if call.process[role] != p or call.incarnation[role] != incarnation:
        return False
    if role == NODE:
        return True
    operation = w.operations[call.operation]
    for k in range(operation.messages):
        message = w.messages[operation.first_message + k]
        if message.exchange == NONE or message.is_answer or w.moments[c, k, SENT] < 0.0:
            continue
        if message.source != role and message.target != role:
            continue
        if not _is_answered(w, c, message.exchange, SENT if message.target == role else ARRIVED):
            return True
    return False


@compiled
def _is_answered(w: CallRecords, c: int, exchange: int, moment: int) -> bool:
    """Return whether an answer of an exchange has had a moment: has been sent, or has arrived."""
    operation = w.operations[w.calls[c].operation]
    for k in range(operation.messages):
        answer = w.messages[operation.first_message + k]
        if answer.exchange == exchange and answer.is_answer and w.moments[c, k, moment] >= 0.0:
            return True
    return False


@compiled
def fail_if_overdue(w: CallRecords, c: int, number: int, now: float) -> None:
    """Fail a call if the answer to one of its requests is overdue; look again when the next one may
    be."""
    call = w.calls[c]
    if call.number != number or not call.awaited:
        return
    operation = w.operations[call.operation]
    due = now + operation.timeout_ms
    for k in range(operation.messages):
        request = w.messages[operation.first_message + k]
        sent = w.moments[c, k, SENT]
        if request.timeout_ms == math.inf or request.is_answer or sent < 0.0:
            continue
        if _is_answered(w, c, request.exchange, ARRIVED):
            continue
        if sent + request.timeout_ms <= now:
            messages.report_failure(w, c, request.source, now)
            return
        due = min(due, sent + request.timeout_ms)
    event_queue.push(w.events, w.state[0], due, ANSWER_OVERDUE, c, number)
