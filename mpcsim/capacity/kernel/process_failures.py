"""Crash of a process: its jobs and its memory are lost, and so are the calls that depend on it.

A call depends on a process that has sent or received a request of it that is not answered, or that
handles a message of it (``_depends_on``). Its caller learns of the failure after the latency from
the crashed role to the caller (``messages.report_failure``).
"""

from __future__ import annotations

from mpcsim.capacity.kernel import admission, connection_pool, messages, process_queues
from mpcsim.capacity.kernel.calls import completion
from mpcsim.capacity.kernel.records import (
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
    first = operation.first_message
    for k in range(operation.messages):
        message = w.messages[first + k]
        if message.exchange == NONE or message.is_answer or w.moments[c, k, SENT] < 0.0:
            continue
        if message.source != role and message.target != role:
            continue
        moment = SENT if message.target == role else ARRIVED
        answered = False
        for other in range(operation.messages):
            answer = w.messages[first + other]
            if answer.exchange == message.exchange and answer.is_answer:
                answered = answered or w.moments[c, other, moment] >= 0.0
        if not answered:
            return True
    return False
