"""Many exchanges on modelled connections, from compiled code, to compare with measurements."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mpcsim.ids import PartyId
from mpcsim.sim.network.tcp import connection as connections
from mpcsim.sim.network.tcp import kernel
from mpcsim.sim.network.tcp.compiled import entry
from mpcsim.sim.network.tcp.wire import hash64
from mpcsim.sim.network.topology import Link, Network, Site
from mpcsim.sim.network.traffic import Traffic
from mpcsim.sim.network.traffic import connection_records as records
from mpcsim.sim.network.transport import Connection, Draws


def bare(profile: str, algorithm: str, **settings: Any) -> Connection:
    """A connection of nothing but TCP."""
    settings |= {"cold": True, "tls_round_trips": 0, "overhead_bytes": 0}
    return Connection(profile=profile, congestion=algorithm, **settings)


def row(connection: Connection, hops: int, one_way_ms: float, mbit_per_s: float) -> Network:
    """Sites in a row, joined by links that are alike."""
    names = [f"site {k}" for k in range(hops + 1)]
    links = (
        Link(names[k], names[k + 1], one_way_ms, mbit_per_s)  # type: ignore[arg-type]
        for k in range(hops)
    )
    ends = {PartyId(1): names[0], PartyId(2): names[-1]}
    return Network({name: Site(name) for name in names}, tuple(links), ends, connection)


def loss_free(network: Network, one_way_ms: float, up: int, down: int) -> tuple[float, float]:
    """The first exchange between the ends of ``row``, and the second, through the public door."""
    traffic = Traffic(network)
    draws = Draws(one_way_ms, one_way_ms)
    there = [network.links[k].direction(f"site {k}") for k in range(len(network.links))]
    back = [link.direction(link.b) for link in reversed(network.links)]
    times = []
    now = 0.0
    for _ in range(2):
        begun = now
        for hops, size in ((there, up), (back, down)):
            for direction in hops:
                number = traffic.send(direction, now, size, draws, pair=0)
                arrival = traffic.advance(now, math.inf)
                assert arrival is not None
                assert arrival.number == number
                now = arrival.at_ms
                traffic.take_transfer(number)
        times.append(now - begun)
    return times[0], times[1]


def lossy(
    connection: Connection,
    one_way_ms: float,
    mbit_per_s: float,
    sizes: tuple[int, int],
    loss: float,
    *,
    count: int,
    seed: int,
    clean: bool = False,
) -> NDArray[np.float64]:
    """Times of ``count`` first exchanges and of the second ones right after them, in two columns.

    Args:
        clean: nothing is lost in the first ones.
    """
    network = row(connection, 1, one_way_ms, mbit_per_s)
    times = np.empty((count, 2))
    _run(
        records(network, 1), one_way_ms, mbit_per_s * 1000.0, *sizes, loss, np.uint64(seed), clean,
        times,
    )  # fmt: skip
    return times


@entry
def _run(
    made: Any,
    one_way_ms: float,
    bits_per_ms: float,
    up: int,
    down: int,
    loss: float,
    seed: np.uint64,
    clean: bool,
    times: NDArray[np.float64],
) -> None:
    c = made[0]
    key = hash64(seed + np.uint64(1))
    for n in range(len(times)):
        connections.reset(c, bool(c["warm"]))
        for h in range(2):
            c.half[h].wire[0].bits_per_ms = bits_per_ms
            c.half[h].wire[0].queue = math.inf
            c.half[h].wire[0].to_bad = 0.0
        now = 0.0
        for k in range(2):
            for h in range(2):
                c.half[h].wire[0].loss = 0.0 if clean and k == 0 else loss
            begun = now
            for h in range(2):
                size = up if h == 0 else down
                own = hash64(key + np.uint64(4 * n + 2 * k + h))
                kernel.send_message(c, h, now, 0, size, size, own, one_way_ms, one_way_ms, 0)
                _, now = kernel.run_until(c, math.inf, math.inf)
            times[n, k] = now - begun
