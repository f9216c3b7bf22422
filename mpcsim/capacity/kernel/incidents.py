"""What happens to the service from outside, while it is at work."""

from __future__ import annotations

from mpcsim.capacity.kernel import breaking, ending, heap, jobs
from mpcsim.capacity.kernel.records import (
    BACK,
    DEPLOYS,
    DIES,
    DOWN,
    GONE,
    HAPPENS,
    LEAVING,
    NONE,
    PAUSES,
    RESHARES,
    SLOWS,
    UP,
    Calls,
    Service,
)
from mpcsim.sim.network.tcp.compiled import compiled
from mpcsim.sim.network.tcp.state import Records


@compiled
def happen(w: Calls, n: Records, s: Service, i: int, over: int, now: float) -> None:
    """An incident begins, or is over."""
    incident = w.incidents[i]
    incident.active = 1 - over
    if incident.kind == DEPLOYS:
        _deploy_next(w, s, i, now)
    elif incident.kind == SLOWS:
        _slow(w, incident.of)
    elif incident.kind == RESHARES:
        _begin_order(w, i, now)
    else:
        for p in range(incident.of, incident.of + incident.count):
            if incident.kind == DIES and over:
                s.processes[p].state = UP
            elif incident.kind == DIES:
                breaking.kill(w, n, s, p, now)
                if s.processes[p].deploys != NONE:  # it will be back as soon as a deployment has it
                    _away(w, s, p, now)
            elif incident.kind == PAUSES and over:
                jobs.resume(s, p, now)
            elif incident.kind == PAUSES:
                jobs.pause(s, p, now)


# ---------------------------------------------------------------------- a link is slower


@compiled
def _slow(w: Calls, link: int) -> None:
    factor = 1.0
    for k in range(len(w.incidents)):
        other = w.incidents[k]
        if other.kind == SLOWS and other.of == link and other.active:
            factor *= other.factor
    w.ways[2 * link].slow = w.ways[2 * link + 1].slow = factor


# ---------------------------------------------------------------------- every key is recovered


@compiled
def _begin_order(w: Calls, i: int, now: float) -> None:
    """One more of the orders that go on at a time, until these are enough."""
    state = w.state[0]
    incident = w.incidents[i]
    o = state.free_order
    order = w.orders[o]
    following = order.following
    order.member = NONE
    order.incident = i
    if not ending.following_user(w, o, now):
        return
    state.free_order = following
    incident.open += 1
    if incident.open < incident.workers:
        heap.push(w.events, state, now, HAPPENS, i, 0)


# ---------------------------------------------------------------------- one replica after the other


@compiled
def _deploy_next(w: Calls, s: Service, i: int, now: float) -> None:
    """The next replica's processes take nothing new, and leave when they have nothing to do."""
    incident = w.incidents[i]
    while incident.open == 0 and incident.next < incident.count:
        for _ in range(incident.workers):
            p = incident.of + incident.next
            incident.next += 1
            process = s.processes[p]
            if process.deploys != NONE:  # another deployment has it
                continue
            process.deploys = i
            incident.open += 1
            if process.state == DOWN:
                _away(w, s, p, now)
                continue
            process.state = LEAVING
            if process.calls == 0:
                heap.push(w.events, w.state[0], now, GONE, p, process.lives)


@compiled
def _away(w: Calls, s: Service, p: int, now: float) -> None:
    process = s.processes[p]
    lasting = w.incidents[process.deploys].lasting
    heap.push(w.events, w.state[0], now + lasting, BACK, p, process.lives)


@compiled
def gone(w: Calls, s: Service, p: int, lives: int, now: float) -> None:
    """A process has finished what it had: it is away for a while."""
    process = s.processes[p]
    if process.state == LEAVING and process.lives == lives and process.calls == 0:
        process.state = DOWN
        process.lives += 1
        _away(w, s, p, now)


@compiled
def back(w: Calls, s: Service, p: int, lives: int, now: float) -> None:
    """It is there again; the next one goes."""
    process = s.processes[p]
    if process.deploys == NONE or process.lives != lives:
        return
    i = process.deploys
    process.deploys = NONE
    process.state = UP
    jobs.serve(s, p, now)  # what it had to do later for calls that are over
    w.incidents[i].open -= 1
    _deploy_next(w, s, i, now)
