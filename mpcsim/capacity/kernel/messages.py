"""A message's way: over its link, past a limit, through its process, to what waited for it.

The network has it from ``send`` (or from ``release``, if it had to wait for a connection) to
``arrive``: see ``course.carry``.
"""

from __future__ import annotations

import numpy as np

from mpcsim.capacity.kernel import draws, ending, heap, jobs, waiting
from mpcsim.capacity.kernel.records import (
    ADMITTED,
    ARRIVES,
    BREAKS,
    CARRIED,
    DOWN,
    HANDLED,
    NONE,
    NOTHING,
    OVER,
    REFUSED,
    SENT,
    THERE,
    UP,
    WORK,
    WORKED,
    Calls,
    Record,
    Service,
)
from mpcsim.sim.network.tcp.compiled import compiled
from mpcsim.sim.network.tcp.state import MESSAGES, Records

WORKER, LATENCY, TASK = 1000, 2000, 3000
"""What draws are for."""


@compiled
def local(w: Calls, c: int, m: int) -> int:
    """The number of a message in its operation."""
    return int(m - w.operations[w.calls[c].operation].first_message)


# ---------------------------------------------------------------------- over the link


@compiled
def choose(w: Calls, s: Service, c: int, role: int) -> None:
    """Who of a role gets a call: the replicas that are up in turn, any worker of it."""
    call = w.calls[c]
    of = w.roles[role]
    drawn = int(draws.uniform(draws.mixed(call.key, WORKER + role)) * of.workers)
    for k in range(of.replicas):
        replica = (of.turn + k) % of.replicas
        p = of.first + replica * of.workers + drawn
        if s.processes[p].state == UP:
            of.turn = (replica + 1) % of.replicas
            call.process[role] = p
            call.lives[role] = s.processes[p].lives
            s.processes[p].calls += 1
            return


@compiled
def latency(w: Calls, way: int, back: int) -> float:
    """Draw the latency of one direction of a link: there, or of what comes back for it."""
    of = w.ways[way]
    state = w.state[0]
    k = of.used[back]
    of.used[back] = k + 1
    state.most_used = max(state.most_used, k + 1)
    # Only if thousands of calls break at once does one event use a latency again.
    return float(w.latencies[way, back, k % w.latencies.shape[2]] * of.slow)


@compiled
def send(w: Calls, n: Records, s: Service, c: int, m: int, now: float) -> None:
    """A message of a call leaves."""
    call = w.calls[c]
    message = w.messages[m]
    k = local(w, c, m)
    call.open += 1
    w.at[c, k, SENT] = now
    if call.process[message.target] == NONE:
        choose(w, s, c, message.target)
    state = w.state[0]
    if message.link == NONE:
        w.at[c, k, CARRIED] = now
        heap.push(w.events, state, now, ARRIVES, c, m)
        return
    number = state.free_transfer
    flight = w.flights[number]
    state.free_transfer = flight.following
    state.spare_transfers -= 1
    flight.call = c
    flight.message = m
    t = n.transfers[number]
    t.link = message.link
    t.side = message.side
    t.size = t.available = message.size
    t.stream = 0
    t.exclusive = 1
    way = 2 * message.link + message.side
    key = draws.mixed(call.key, LATENCY + k)
    t.forward = latency(w, way, 0)
    t.backward = latency(w, way, 1)
    t.key = draws.mixed(key, 2) if w.ways[way].lossy else np.uint64(0)
    carrier = w.carrier[c, message.exchange]
    if message.answers and carrier != NONE:
        t.pair = n.heads[carrier].owner
    else:
        t.pair = state.pairs_so_far
        state.pairs_so_far += 1
    t.session = call.process[message.target if message.answers else message.source]
    t.given = now
    t.order = state.placed
    state.placed += 1
    t.connection = -2
    _give(w, number)


@compiled
def _give(w: Calls, number: int) -> None:
    """A transfer is the network's as soon as the present event is over."""
    state = w.state[0]
    w.flights[number].following = NONE
    if state.last_given == NONE:
        state.first_given = number
    else:
        w.flights[state.last_given].following = number
    state.last_given = number


@compiled
def release(w: Calls, n: Records, s: Service, c: int, exchange: int, now: float) -> None:
    """An exchange of a call is over; its connection may carry another."""
    k = w.carrier[c, exchange]
    w.carrier[c, exchange] = NONE
    head = n.heads[k]
    line = w.lines[head.link * len(s.processes) + head.session]
    waiting.account(line, now)
    line.inside -= 1
    if not n.links[head.link].http2:
        head.owner = -1
        _serve(w, n, s, line, now)


@compiled
def _serve(w: Calls, n: Records, s: Service, line: Record, now: float) -> None:
    """A connection is free: it is the next one's."""
    waiting.account(line, now)
    _skip(w, s, line, now)
    if line.head != NONE:
        _give(w, _pop(w, line))


@compiled
def _serve_shared(w: Calls, n: Records, s: Service, line: Record, k: int, now: float) -> None:
    """A connection that all share (HTTP/2) may have room for those at the head of its line."""
    waiting.account(line, now)
    more = 0
    _skip(w, s, line, now)
    while line.head != NONE:
        half = n.connections[k].half[n.transfers[line.head].side ^ n.heads[k].flip]
        if half.messages_queued - half.messages_delivered + more >= MESSAGES:
            return
        _give(w, _pop(w, line))
        more += 1
        _skip(w, s, line, now)


@compiled
def _skip(w: Calls, s: Service, line: Record, now: float) -> None:
    """Take those at the head of a line off whose calls have failed."""
    while line.head != NONE and w.calls[w.flights[line.head].call].broken:
        number = _pop(w, line)
        c = w.flights[number].call
        free_transfer(w, number)
        w.calls[c].open -= 1
        ending.forget(w, s, c, now)


@compiled
def _pop(w: Calls, line: Record) -> int:
    number = line.head
    line.head = w.flights[number].following
    if line.head == NONE:
        line.tail = NONE
    line.waiting -= 1
    return int(number)


@compiled
def free_transfer(w: Calls, number: int) -> None:
    """Nobody needs a transfer's record any more."""
    state = w.state[0]
    w.flights[number].following = state.free_transfer
    state.free_transfer = number
    state.spare_transfers += 1


@compiled
def arrive(w: Calls, n: Records, s: Service, k: int, now: float) -> None:
    """A transfer is at the other end of its connection, or TCP has given that up."""
    number = n.connections[k].arrival_number
    c, m = w.flights[number].call, w.flights[number].message
    free_transfer(w, number)
    message = w.messages[m]
    broken = w.calls[c].broken
    head = n.heads[k]
    if n.links[head.link].http2:
        line = w.lines[head.link * len(s.processes) + head.session]
        _serve_shared(w, n, s, line, k, now)
    ended = message.answers and not n.connections[k].arrival_failed  # else when its call breaks
    if (ended or broken) and w.carrier[c, message.exchange] != NONE:
        release(w, n, s, c, message.exchange, now)
    if n.connections[k].arrival_failed:
        if not broken:
            report(w, c, message.target, now)
        w.calls[c].open -= 1
        ending.forget(w, s, c, now)
    elif message.service > 0.0 and not broken:
        heap.push(w.events, w.state[0], now + message.service, ARRIVES, c, m)
    else:
        deliver(w, n, s, c, m, now)


# ---------------------------------------------------------------------- to its process


@compiled
def deliver(w: Calls, n: Records, s: Service, c: int, m: int, now: float) -> None:
    """A message is there: a job for its process, if that is there, too."""
    call = w.calls[c]
    message = w.messages[m]
    k = local(w, c, m)
    w.at[c, k, THERE] = now
    p = call.process[message.target]
    if not call.broken and _lost(s, p, call.lives[message.target]):
        report(w, c, message.target, now)
        call.open -= 1
        return
    if call.broken:
        call.open -= 1
        ending.forget(w, s, c, now)
        return
    j = _job(w, s, c, m, p)
    enters = 1 if message.enters == NONE else waiting.enter(w, s, j, message.enters, now)
    if enters == 1:
        admit(w, s, j, now)
    elif enters == NONE:
        refuse(w, n, s, j, now)


@compiled
def _job(w: Calls, s: Service, c: int, m: int, p: int) -> int:
    """The handling of a message by a process."""
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
    job.parked = NOTHING
    job.worked = 0.0
    job.waker = waker(s, p, call.process[message.source])
    job.key = draws.mixed(call.key, TASK + local(w, c, m))
    job.stage = message.first_stage
    job.last_stage = message.last_stage
    job.later = 0
    return int(j)


@compiled
def _later(w: Calls, s: Service, j: int, now: float) -> None:
    """What a process does about a message when all that it leads to has been sent."""
    job = s.jobs[j]
    message = w.messages[job.message]
    if message.last_stage == message.end_stage:
        return
    w.calls[job.call].open += 1
    k = _job(w, s, job.call, job.message, job.process)
    other = s.jobs[k]
    other.stage = message.last_stage
    other.last_stage = message.end_stage
    other.later = 1
    jobs.hand(s, k, now)


@compiled
def waker(s: Service, p: int, source: int) -> int:
    """The core of a process that sends something to another of its machine; NONE: it is elsewhere,
    or not known."""
    if source == NONE or s.processes[source].cores != s.processes[p].cores:
        return NONE
    return int(s.runners[s.processes[source].loop].core)


@compiled
def _lost(s: Service, p: int, lives: int) -> bool:
    """Whether a process is not there, or knows nothing any more."""
    return bool(p == NONE or s.processes[p].state == DOWN or s.processes[p].lives != lives)


@compiled
def report(w: Calls, c: int, role: int, now: float) -> None:
    """The caller of a call that has failed at a role will learn it."""
    call = w.calls[c]
    call.open += 1
    at = now
    while role != NONE:
        way = w.roles[role].way
        if way != NONE:
            at += latency(w, way, 0)
        role = w.roles[role].further
    heap.push(w.events, w.state[0], at, BREAKS, c, call.number)


@compiled
def admit(w: Calls, s: Service, j: int, now: float) -> None:
    """The handling of a message may begin."""
    job = s.jobs[j]
    job.parked = NOTHING
    w.at[job.call, local(w, job.call, job.message), ADMITTED] = now
    if job.stage == job.last_stage:
        heap.push(w.events, w.state[0], now, WORKED, j, job.number)
    else:
        jobs.hand(s, j, now)


# ---------------------------------------------------------------------- to what waited for it


@compiled
def free_job(w: Calls, s: Service, j: int) -> None:
    """Nobody needs a job's record any more."""
    state = w.state[0]
    job = s.jobs[j]
    job.call = job.number = NONE
    job.following = state.free_job
    state.free_job = j
    state.spare_jobs += 1


@compiled
def handled(w: Calls, n: Records, s: Service, j: int, now: float) -> None:
    """Its process has handled a message: what waited for it goes on, if its turn has come."""
    job = s.jobs[j]
    c, m = job.call, job.message
    if job.later:
        free_job(w, s, j)
        w.calls[c].open -= 1
        ending.forget(w, s, c, now)
        return
    _later(w, s, j, now)
    k = local(w, c, m)
    w.at[c, k, HANDLED] = now
    w.at[c, k, WORK] = job.worked
    if w.messages[m].takes and not w.calls[c].broken:
        takes = waiting.take(w, s, j, now)
        if takes == NONE:
            refuse(w, n, s, j, now)
        if takes != 1:
            return
    proceed(w, n, s, j, now)


@compiled
def refuse(w: Calls, n: Records, s: Service, j: int, now: float) -> None:
    """It will not get what it needs."""
    job = s.jobs[j]
    c, no = job.call, w.messages[job.message].refusal
    free_job(w, s, j)
    if no != NONE:
        send(w, n, s, c, no, now)
    else:
        ending.end(w, c, REFUSED, now)
    w.calls[c].open -= 1
    ending.forget(w, s, c, now)


@compiled
def proceed(w: Calls, n: Records, s: Service, j: int, now: float) -> None:
    """What waited for a message goes on."""
    c, m = s.jobs[j].call, s.jobs[j].message
    free_job(w, s, j)
    call = w.calls[c]
    message = w.messages[m]
    w.at[c, local(w, c, m), OVER] = now
    if message.gives:
        waiting.give(w, s, c, message.gives, now)
    if message.leaves != NONE:
        waiting.leave(w, s, c, message.leaves, now)
    if not call.broken:
        first = w.operations[call.operation].first_step
        for place in range(message.first_needed, message.last_needed):
            k = w.lists[place]
            w.missing[c, k - first] -= 1
            if w.missing[c, k - first] == 0:
                run_step(w, n, s, c, k, now)
    call.open -= 1
    ending.forget(w, s, c, now)


@compiled
def run_step(w: Calls, n: Records, s: Service, c: int, k: int, now: float) -> None:
    """A step of a call, all of whose needs are there."""
    step = w.steps[k]
    if step.ends != NONE:
        ending.end(w, c, step.ends, now)
    for place in range(step.first_send, step.last_send):
        send(w, n, s, c, w.lists[place], now)
