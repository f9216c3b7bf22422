"""Pools of connections: one for each link and client process, shared by its exchanges.

With HTTP/1.1 an exchange (a request and its answer) has a connection to itself; when all of the
pool are busy, its request waits in order. With HTTP/2 all exchanges share one connection, which
carries so many messages at a time. Transfers reach the network's kernel when the present event is
over (``place_transfers``); it carries them segment by segment.
"""

from __future__ import annotations

from mpcsim.capacity.kernel import admission
from mpcsim.capacity.kernel.calls import completion
from mpcsim.capacity.kernel.records import CONNECTED, NONE, CallRecords, Record, ServiceRecords
from mpcsim.sim.network.tcp import traffic
from mpcsim.sim.network.tcp.compiled import compiled
from mpcsim.sim.network.tcp.state import MESSAGES, Records


@compiled
def place_transfers(w: CallRecords, n: Records, processes: int, now: float) -> None:
    """Give the transfers of the present event to the network: each gets a connection, or waits for
    one."""
    state = w.state[0]
    while state.first_handed != NONE:
        number = state.first_handed
        state.first_handed = w.deliveries[number].following
        k = traffic.place(n, number, now)
        _note_placement(w, n, processes, number, k, now)
    state.last_handed = NONE


@compiled
def _note_placement(
    w: CallRecords, n: Records, processes: int, number: int, k: int, now: float
) -> None:
    """Record the connection of a transfer (``k``), or queue it for one (``k`` below 0)."""
    t = n.transfers[number]
    queue = w.connection_queues[t.link * processes + t.session]
    delivery = w.deliveries[number]
    c = delivery.call
    message = w.messages[delivery.message]
    if k >= 0:
        m = delivery.message - w.operations[w.calls[c].operation].first_message
        w.moments[c, m, CONNECTED] = now
        if w.connection[c, message.exchange] == NONE:
            admission.account_queue(queue, now)
            queue.inside += 1
            w.connection[c, message.exchange] = k
        return
    t.connection = -2
    admission.account_queue(queue, now)
    admission.append(queue, w.deliveries, number)
    queue.waiting += 1


@compiled
def hand_to_network(w: CallRecords, number: int) -> None:
    """Append a transfer to the chain that ``place_transfers`` takes after the present event."""
    state = w.state[0]
    w.deliveries[number].following = NONE
    if state.last_handed == NONE:
        state.first_handed = number
    else:
        w.deliveries[state.last_handed].following = number
    state.last_handed = number


@compiled
def release_connection(
    w: CallRecords, n: Records, s: ServiceRecords, c: int, exchange: int, now: float
) -> None:
    """Release the connection of an exchange that is over, and serve the next in its queue."""
    k = w.connection[c, exchange]
    w.connection[c, exchange] = NONE
    head = n.heads[k]
    queue = w.connection_queues[head.link * len(s.processes) + head.session]
    admission.account_queue(queue, now)
    queue.inside -= 1
    if not n.links[head.link].http2:
        head.owner = -1
        _serve_next(w, n, s, queue, now)


@compiled
def _serve_next(w: CallRecords, n: Records, s: ServiceRecords, queue: Record, now: float) -> None:
    """Hand over the first waiting transfer whose call has not failed."""
    admission.account_queue(queue, now)
    _drop_failed(w, s, queue, now)
    if queue.head != NONE:
        hand_to_network(w, _pop_transfer(w, queue))


@compiled
def serve_http2(
    w: CallRecords, n: Records, s: ServiceRecords, queue: Record, k: int, now: float
) -> None:
    """Hand over waiting transfers, as far as a shared HTTP/2 connection has room for them."""
    admission.account_queue(queue, now)
    more = 0
    _drop_failed(w, s, queue, now)
    while queue.head != NONE:
        half = n.connections[k].half[n.transfers[queue.head].side ^ n.heads[k].flip]
        if half.messages_queued - half.messages_delivered + more >= MESSAGES:
            return
        hand_to_network(w, _pop_transfer(w, queue))
        more += 1
        _drop_failed(w, s, queue, now)


@compiled
def _drop_failed(w: CallRecords, s: ServiceRecords, queue: Record, now: float) -> None:
    """Remove transfers of failed calls from the head of a queue."""
    while queue.head != NONE and w.calls[w.deliveries[queue.head].call].failed:
        number = _pop_transfer(w, queue)
        c = w.deliveries[number].call
        free_transfer(w, number)
        w.calls[c].pending -= 1
        completion.free_call_if_over(w, s, c, now)


@compiled
def _pop_transfer(w: CallRecords, queue: Record) -> int:
    """Remove the first transfer of a queue, and return its number."""
    number = queue.head
    queue.head = w.deliveries[number].following
    if queue.head == NONE:
        queue.tail = NONE
    queue.waiting -= 1
    return int(number)


@compiled
def free_transfer(w: CallRecords, number: int) -> None:
    """Return the record of a transfer to the free list."""
    state = w.state[0]
    w.deliveries[number].following = state.free_transfer
    state.free_transfer = number
    state.spare_transfers += 1
