"""Messages get connections: the network's own kernel carries them, segment by segment.

A request and its answer have a connection to themselves, as in HTTP/1.1; connections are a
process's own, and there are not more of them over a link than its pool may have. This is apart from
all else because whatever calls the network is compiled together with it.
"""

from __future__ import annotations

from mpcsim.capacity.kernel import waiting
from mpcsim.capacity.kernel.records import CARRIED, NONE, Calls
from mpcsim.sim.network.tcp import traffic
from mpcsim.sim.network.tcp.compiled import compiled
from mpcsim.sim.network.tcp.state import Records


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
        _note(w, n, processes, number, k, now)
    state.last_given = NONE


@compiled
def _note(w: Calls, n: Records, processes: int, number: int, k: int, now: float) -> None:
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
