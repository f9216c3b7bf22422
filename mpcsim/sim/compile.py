"""Compile the simulator's TCP and replay ahead of their first use.

It takes half a minute, once for every version of the sources; ``mpcsim.capacity.precompile`` does
it with the rest.
"""

from __future__ import annotations

import math

from mpcsim.sim.network.topology import Network
from mpcsim.sim.network.traffic import Traffic
from mpcsim.sim.network.transport import Draws
from mpcsim.sim.replay import record
from mpcsim.sim.simulation import Simulation


def main() -> None:
    """Call every compiled function once, so that its machine code is cached."""
    network = Network.star()
    [first, *_] = network.links
    traffic = Traffic(network)
    number = traffic.send(
        first.direction(first.a), 0.0, 200, Draws(1.0, 1.0), pair=0, exclusive=True, available=0
    )
    traffic.extend(number, 0.0, 200)
    traffic.advance(0.0, math.inf)
    traffic.restore(traffic.save())
    traffic.release(0, 0.0)
    graph = record(Simulation(network).generate("ed25519").trace)
    graph.replay(network, 1)
    graph.replay(network, 1, approximate=True)
