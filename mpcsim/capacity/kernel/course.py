"""The course of calls through the service: the kernel's main loop. Times are milliseconds."""

from __future__ import annotations

import math

from mpcsim.capacity.kernel import (
    breaking,
    cores,
    draws,
    ending,
    heap,
    incidents,
    jobs,
    messages,
    waiting,
)
from mpcsim.capacity.kernel.records import (
    AGAIN,
    ARRIVALS,
    ARRIVES,
    BACK,
    BREAKS,
    CALLS,
    CARRIED,
    CONNECTIONS,
    ENTERS,
    EVENTS,
    FULL,
    GIVES_UP,
    GONE,
    HAPPENS,
    JOBS,
    JOINS,
    KEPT,
    LATE,
    LATENCIES,
    MARGIN,
    MOMENTS,
    NONE,
    ORDERS,
    PROCEEDS,
    REACHED,
    ROLES,
    TIMED_OUT,
    TRANSFERS,
    TURN,
    WORKED,
    Calls,
    Service,
)
from mpcsim.sim.network.tcp import traffic
from mpcsim.sim.network.tcp.compiled import compiled, entry
from mpcsim.sim.network.tcp.state import Records


@entry
def run(w: Calls, n: Records, s: Service, stop: float) -> int:
    """Go on up to a time.

    Returns:
        Why it has come back before.
    """
    state = w.state[0]
    while True:
        lacks = lacking(w, n)
        if lacks != REACHED:
            return lacks
        come = w.arrivals[state.next].due if state.next < len(w.arrivals) else math.inf
        place = cores.soonest(s.places)
        through = s.places[place].next if place != NONE else math.inf
        event = w.events[0].at if state.events else math.inf
        until = min(min(come, through), min(event, stop))
        found, at = traffic.advance(
            n.connections,
            n.heads,
            n.times,
            n.pool,
            n.links,
            n.transfers,
            False,
            state.now,
            min(until, state.known),
        )
        if found >= 0:
            state.now = at
            messages.arrive(w, n, s, found, at)
            carry(w, n, len(s.processes), at)
            continue
        if until > state.known:
            state.now = state.known
            return ARRIVALS
        if until == math.inf:
            return REACHED
        state.now = until
        if through == until:
            j = jobs.advance(s, place, until)
            if j != NONE:
                messages.handled(w, n, s, j, until)
        elif event == until:
            heap.pop(w.events, state)
            e = w.events[state.events]
            _happen(w, n, s, e.kind, e.of, e.number, until)
        elif come == until:
            _come(w, n, s, until)
        else:
            return REACHED
        carry(w, n, len(s.processes), until)


@compiled
def lacking(w: Calls, n: Records) -> int:
    """What the next event might find no room for."""
    state = w.state[0]
    if state.rows + MARGIN > len(w.rows):
        return FULL
    if state.kept == len(w.kept):
        return KEPT
    if state.free_call == NONE:
        return CALLS
    if state.free_order == NONE:
        return ORDERS
    if state.events + MARGIN + len(w.calls) > len(w.events):  # all may break at once
        return EVENTS
    if n.pool[0].spare < 0 and n.pool[0].used + MARGIN > len(n.connections):
        return CONNECTIONS
    if state.spare_jobs < MARGIN:
        return JOBS
    if state.spare_transfers < MARGIN:
        return TRANSFERS
    if state.most_used + MARGIN > w.latencies.shape[2]:
        return LATENCIES
    return REACHED


@compiled
def _happen(w: Calls, n: Records, s: Service, kind: int, of: int, number: int, now: float) -> None:
    """An event, of one of its kinds."""
    if kind == ARRIVES:
        messages.deliver(w, n, s, of, number, now)
    elif kind == AGAIN:
        _begin(w, n, s, of, now)
    elif kind == BREAKS:
        breaking.break_(w, n, s, of, now)
    elif befall(w, n, s, kind, of, number, now) or s.jobs[of].number != number:
        return  # that was it, or the job is no more
    elif kind == WORKED:
        messages.handled(w, n, s, of, now)
    elif kind == ENTERS:
        messages.admit(w, s, of, now)
    elif kind == PROCEEDS:
        messages.proceed(w, n, s, of, now)
    elif kind == GIVES_UP and s.jobs[of].parked == TURN:
        waiting.stop_taking(w, s, of)
        messages.refuse(w, n, s, of, now)


@compiled
def befall(w: Calls, n: Records, s: Service, kind: int, of: int, number: int, now: float) -> bool:
    """An event that is the same whoever carries the messages.

    Returns:
        Whether it is one.
    """
    if kind == LATE:
        if w.calls[of].number == number and w.calls[of].waited_for:
            ending.end(w, of, TIMED_OUT, now)
            ending.forget(w, s, of, now)
    elif kind == JOINS:
        join(w, of, number, now)
    elif kind == HAPPENS:
        incidents.happen(w, n, s, of, number, now)
    elif kind == GONE:
        incidents.gone(w, s, of, number, now)
    elif kind == BACK:
        incidents.back(w, s, of, number, now)
    else:
        return False
    return True


# ---------------------------------------------------------------------- calls begin


@compiled
def _come(w: Calls, n: Records, s: Service, now: float) -> None:
    """The next arrival."""
    _begin(w, n, s, next_order(w, now), now)


@compiled
def next_order(w: Calls, now: float) -> int:
    """What is asked for by the next arrival."""
    state = w.state[0]
    o = state.free_order
    order = w.orders[o]
    state.free_order = order.following
    order.number = state.orders_so_far
    state.orders_so_far += 1
    order.key = draws.mixed(draws.mixed(w.client[0].seed, 1), state.arrivals_so_far)
    state.arrivals_so_far += 1
    order.operation = w.arrivals[state.next].operation
    order.user = w.arrivals[state.next].user
    order.member = NONE
    order.incident = NONE
    order.due = now
    order.attempts = 0
    state.next += 1
    return int(o)


@compiled
def join(w: Calls, member: int, user: int, now: float) -> None:
    """Somebody begins who thinks and asks again and again."""
    state = w.state[0]
    o = state.free_order
    order = w.orders[o]
    state.free_order = order.following
    order.user = user
    order.member = member
    order.rounds = 0
    order.incident = NONE
    ending.renew(w, o, now)


@compiled
def _begin(w: Calls, n: Records, s: Service, o: int, now: float) -> None:
    """An attempt."""
    c = next_call(w, o, now)
    messages.run_step(w, n, s, c, w.operations[w.calls[c].operation].first_step, now)


@compiled
def next_call(w: Calls, o: int, now: float) -> int:
    """The next attempt of an order, with nothing sent yet."""
    state = w.state[0]
    order = w.orders[o]
    client = w.client[0 if order.incident == NONE else 1]
    c = state.free_call
    call = w.calls[c]
    state.free_call = call.following
    call.following = NONE
    call.order = o
    call.operation = order.operation
    call.user = order.user
    call.key = draws.mixed(order.key, order.attempts)
    call.number = state.calls_so_far
    state.calls_so_far += 1
    order.attempts += 1
    call.began = now
    call.open = 0
    call.waited_for = 1
    call.broken = 0
    call.turns = 0
    call.limits = 0
    for role in range(ROLES):
        call.process[role] = NONE
    ending.count(w, 1, now)
    operation = w.operations[call.operation]
    for k in range(operation.steps):
        w.missing[c, k] = w.steps[operation.first_step + k].needs
    for k in range(operation.messages):
        for moment in range(MOMENTS):
            w.at[c, k, moment] = -1.0
    for k in range(operation.exchanges):
        w.carrier[c, k] = NONE
    if client.timeout < math.inf:
        heap.push(w.events, state, now + client.timeout, LATE, c, call.number)
    return int(c)


# ---------------------------------------------------------------------- connections
#
# A request and its answer have a connection to themselves, as in HTTP/1.1; connections are a
# process's own, and there are not more of them over a link than its pool may have.


@compiled
def carry(w: Calls, n: Records, processes: int, now: float) -> None:
    """Put what was given to the network on connections, or in line for one."""
    state = w.state[0]
    while state.first_given != NONE:
        number = state.first_given
        state.first_given = w.flights[number].following
        k = traffic.place(
            n.connections, n.heads, n.times, n.pool, n.links, n.transfers, number, now
        )
        _note_carried(w, n, processes, number, k, now)
    state.last_given = NONE


@compiled
def _note_carried(w: Calls, n: Records, processes: int, number: int, k: int, now: float) -> None:
    """A transfer has a connection, or waits for one."""
    t = n.transfers[number]
    line = w.lines[t.link * processes + t.session]
    flight = w.flights[number]
    c = flight.call
    message = w.messages[flight.message]
    if k >= 0:
        m = flight.message - w.operations[w.calls[c].operation].first_message
        w.at[c, m, CARRIED] = now
        if w.carrier[c, message.exchange] == NONE:
            waiting.account(line, now)
            line.inside += 1
            w.carrier[c, message.exchange] = k
        return
    t.connection = -2
    waiting.account(line, now)
    flight.following = NONE
    if line.tail == NONE:
        line.head = number
    else:
        w.flights[line.tail].following = number
    line.tail = number
    line.waiting += 1
