"""Incidents: crashes, pauses, rolling restarts, slower links, and the resharing of all keys."""

from __future__ import annotations

from mpcsim.capacity.kernel import event_queue, process_failures, process_queues
from mpcsim.capacity.kernel.calls import orders
from mpcsim.capacity.kernel.records import (
    BULK_RESHARE,
    DOWN,
    DRAINING,
    INCIDENT_CHANGES,
    NONE,
    PROCESS_CRASH,
    PROCESS_DRAINED,
    PROCESS_PAUSE,
    PROCESS_RESTARTS,
    ROLLING_RESTART,
    SLOWDOWN,
    UP,
    CallRecords,
    ServiceRecords,
)
from mpcsim.sim.network.tcp.compiled import compiled
from mpcsim.sim.network.tcp.state import Records


@compiled
def apply_incident(
    w: CallRecords, n: Records, s: ServiceRecords, i: int, over: int, now: float
) -> None:
    """Begin an incident, or end it (``over``)."""
    incident = w.incidents[i]
    incident.active = 1 - over
    if incident.kind == ROLLING_RESTART:
        _restart_next_replica(w, s, i, now)
    elif incident.kind == SLOWDOWN:
        _set_slowdown(w, incident.of)
    elif incident.kind == BULK_RESHARE:
        _start_recovery(w, i, now)
    else:
        for p in range(incident.of, incident.of + incident.count):
            if incident.kind == PROCESS_CRASH and over:
                s.processes[p].state = UP
            elif incident.kind == PROCESS_CRASH:
                process_failures.kill_process(w, n, s, p, now)
                if s.processes[p].restarted_by != NONE:  # the rolling restart brings it back
                    _schedule_return(w, s, p, now)
            elif incident.kind == PROCESS_PAUSE and over:
                process_queues.resume_process(s, p, now)
            elif incident.kind == PROCESS_PAUSE:
                process_queues.pause_process(s, p, now)


# ---------------------------------------------------------------------- slower links


@compiled
def _set_slowdown(w: CallRecords, link: int) -> None:
    """Set the factor of a link's latencies: the product of those of all active slowdowns."""
    factor = 1.0
    for k in range(len(w.incidents)):
        other = w.incidents[k]
        if other.kind == SLOWDOWN and other.of == link and other.active:
            factor *= other.factor
    w.directions[2 * link].slowdown = w.directions[2 * link + 1].slowdown = factor


# ---------------------------------------------------------------------- bulk resharing


@compiled
def _start_recovery(w: CallRecords, i: int, now: float) -> None:
    """Begin one more of the recoveries that run at a time, until these are enough."""
    state = w.state[0]
    incident = w.incidents[i]
    o = state.free_order
    order = w.orders[o]
    following = order.following
    order.closed_user = NONE
    order.incident = i
    if not orders.next_recovery(w, o, now):
        return
    state.free_order = following
    incident.pending += 1
    if incident.pending < incident.workers:
        event_queue.push(w.events, state, now, INCIDENT_CHANGES, i, 0)


# ---------------------------------------------------------------------- rolling restarts


@compiled
def _restart_next_replica(w: CallRecords, s: ServiceRecords, i: int, now: float) -> None:
    """Drain the processes of the next replica, once those of the one before are back."""
    incident = w.incidents[i]
    while incident.pending == 0 and incident.next < incident.count:
        for _ in range(incident.workers):
            p = incident.of + incident.next
            incident.next += 1
            process = s.processes[p]
            if process.restarted_by != NONE:  # another rolling restart has it
                continue
            process.restarted_by = i
            incident.pending += 1
            if process.state == DOWN:
                _schedule_return(w, s, p, now)
                continue
            process.state = DRAINING
            if process.calls == 0:
                event_queue.push(w.events, w.state[0], now, PROCESS_DRAINED, p, process.incarnation)


@compiled
def _schedule_return(w: CallRecords, s: ServiceRecords, p: int, now: float) -> None:
    """Schedule the moment at which a restarted process is up again."""
    process = s.processes[p]
    duration_ms = w.incidents[process.restarted_by].duration_ms
    event_queue.push(
        w.events, w.state[0], now + duration_ms, PROCESS_RESTARTS, p, process.incarnation
    )


@compiled
def stop_drained_process(
    w: CallRecords, s: ServiceRecords, p: int, incarnation: int, now: float
) -> None:
    """Stop a draining process whose last call is over; it is down for a while."""
    process = s.processes[p]
    if process.state == DRAINING and process.incarnation == incarnation and process.calls == 0:
        process.state = DOWN
        process.incarnation += 1
        _schedule_return(w, s, p, now)


@compiled
def restart_process(
    w: CallRecords, s: ServiceRecords, p: int, incarnation: int, now: float
) -> None:
    """Bring a restarted process up again, and drain the next replica."""
    process = s.processes[p]
    if process.restarted_by == NONE or process.incarnation != incarnation:
        return
    i = process.restarted_by
    process.restarted_by = NONE
    process.state = UP
    process_queues.start_waiting_jobs(s, p, now)  # deferred work of calls that are over
    w.incidents[i].pending -= 1
    _restart_next_replica(w, s, i, now)
