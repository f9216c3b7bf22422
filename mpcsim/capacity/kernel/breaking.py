"""What becomes of calls whose processes are lost.

A process that is killed takes with it what it was doing and what it knew. A call breaks that had a
request open at it or from it, or a job there; its caller learns it as soon as the news can be
there. One whose answer has left already does not need it any more.
"""

from __future__ import annotations

from mpcsim.capacity.kernel import ending, jobs, messages, waiting
from mpcsim.capacity.kernel.records import (
    BROKEN,
    CALLED,
    DOWN,
    NONE,
    NOTHING,
    ROLES,
    SENT,
    THERE,
    TURN,
    Calls,
    Service,
)
from mpcsim.sim.network.tcp.compiled import compiled
from mpcsim.sim.network.tcp.state import Records

NODE = 1


@compiled
def break_(w: Calls, n: Records, s: Service, c: int, now: float) -> None:
    """A caller learns that a call has failed; what is under way of it leads to nothing."""
    call = w.calls[c]
    call.open -= 1  # the news
    call.broken = 1
    ending.end(w, c, BROKEN, now)
    for j in range(len(s.jobs)):
        if s.jobs[j].call == c and s.jobs[j].parked != NOTHING:
            _unpark(w, s, j, now)
            messages.free_job(w, s, j)
            call.open -= 1
    for exchange in range(w.operations[call.operation].exchanges):
        k = w.carrier[c, exchange]
        if k == NONE:
            continue
        there, back = n.connections[k].half[0], n.connections[k].half[1]
        quiet = (
            there.messages_queued == there.messages_delivered
            and back.messages_queued == back.messages_delivered
        )
        # Otherwise the connection becomes free when what is under way has arrived.
        if quiet or n.links[n.heads[k].link].http2:
            messages.release(w, n, s, c, exchange, now)
    ending.forget(w, s, c, now)


@compiled
def _unpark(w: Calls, s: Service, j: int, now: float) -> None:
    parked = s.jobs[j].parked
    if parked == TURN:
        waiting.stop_taking(w, s, j)
    elif parked != CALLED:
        waiting.stop_entering(w, s, j, now)


@compiled
def kill(w: Calls, n: Records, s: Service, p: int, now: float) -> None:
    """A process is no more."""
    process = s.processes[p]
    if process.state == DOWN:
        return
    jobs.clear(s, p, now)
    for c in range(len(w.calls)):
        if w.calls[c].number == NONE:
            continue
        for role in range(ROLES):
            if _needs(w, c, role, p, process.lives):
                messages.report(w, c, role, now)
                break
    for j in range(len(s.jobs)):
        job = s.jobs[j]
        if job.call == NONE or job.process != p:
            continue
        if job.parked != NOTHING:
            _unpark(w, s, j, now)
        c = job.call
        messages.free_job(w, s, j)
        w.calls[c].open -= 1
        ending.forget(w, s, c, now)  # nothing else may be left of it
    process.state = DOWN
    process.lives += 1
    process.calls = 0


@compiled
def _needs(w: Calls, c: int, role: int, p: int, lives: int) -> bool:
    """Whether a call has something to do with a process in a role that it has not answered yet."""
    call = w.calls[c]
    if call.process[role] != p or call.lives[role] != lives:
        return False
    if role == NODE:
        return True
    operation = w.operations[call.operation]
    first = operation.first_message
    for k in range(operation.messages):
        message = w.messages[first + k]
        if message.exchange == NONE or message.answers or w.at[c, k, SENT] < 0.0:
            continue
        if message.source != role and message.target != role:
            continue
        moment = SENT if message.target == role else THERE
        answered = False
        for other in range(operation.messages):
            answer = w.messages[first + other]
            if answer.exchange == message.exchange and answer.answers:
                answered = answered or w.at[c, other, moment] >= 0.0
        if not answered:
            return True
    return False
