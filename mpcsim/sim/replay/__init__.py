"""Monte Carlo by replay: the timing of a protocol run, a million times, without its cryptography.

What a session sends does not depend on the network: who computes which round, what each round
waits for, who sends how many bytes to whom. ``record`` takes that message graph out of one trace,
and ``MessageGraph.replay`` works out when everybody would have finished under any network model,
for many draws of latencies and losses at once, as arrays.

    >>> sim = Simulation(Network.star(), seed=1)
    >>> sim.generate()
    >>> graph = record(sim.sign().trace)
    >>> print(graph.replay(Network.preset("seoul", access="lte"), 1_000_000))

``steps`` is what is replayed; ``plan`` lays it out on a network, ``chunk`` works out the times of
some thousand samples, ``tally`` their critical paths; ``results`` is what comes out. ``graph`` is
the front door.

The arithmetic is that of ``transport.Pipe`` and ``engine.VirtualRun``, operation by operation: fed
with the same draws (``DrawTable``), both give the same times, bit by bit. Three things make it
quick. Samples are worked on in chunks that stay in the processor's cache. What cannot matter is not
computed: a connection whose messages fit into the window in every possible course of events needs
neither a window nor acknowledgements. And nothing is drawn that is not used.

All times are milliseconds.
"""

from mpcsim.sim.replay.draws import ArraySource, DrawTable
from mpcsim.sim.replay.graph import MessageGraph, record
from mpcsim.sim.replay.results import Explanation, Replay, Share
from mpcsim.sim.replay.steps import Packet, Step

__all__ = [
    "ArraySource",
    "DrawTable",
    "Explanation",
    "MessageGraph",
    "Packet",
    "Replay",
    "Share",
    "Step",
    "record",
]
