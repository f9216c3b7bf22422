"""Monte Carlo by replay: the timing of a run or a call, a million times, without its cryptography.

What a session sends does not depend on the network: who computes which round, what each round
waits for, who sends how many bytes to whom. ``record`` takes that message graph out of one trace,
and ``MessageGraph.replay`` works out when everybody would have finished under any network model,
for many draws of latencies and losses at once, as arrays.

    >>> sim = Simulation(Network.star(), seed=1)
    >>> sim.generate()
    >>> graph = record(sim.sign().trace)
    >>> print(graph.replay(Network.preset("seoul", access="lte"), 1_000_000))

``MessageGraph.distribution`` does the same for any number of samples, on all cores or a cluster,
with percentiles to 0.1 %.

A call of the REST API, vault and all, has such a graph, too: ``node.local.LocalService.record``
makes it (``calls`` finds out what waits for what), ``node.calls.signing_call`` that of a signature.

``steps`` is what is replayed; ``plan`` lays it out on a network, ``course`` is the compiled order
of events, ``chunk`` works out the times of some thousand samples, ``tally`` their critical paths;
``fitted`` is the quick way that is not exact; ``many`` is for more samples than one keeps;
``results`` is what comes out. ``graph`` is the front door.

Every sample is simulated on the kernel that carries the messages of ``engine.VirtualRun``, too
(``mpcsim.sim.network.tcp.traffic``): fed with the same draws (``DrawTable``), both give the same
times, bit by bit. A sample is one session. What depends on the calls before or beside it (a kept
connection's history, two calls on one link) a replay does not know; ``LocalService`` does.

All times are milliseconds.
"""

from mpcsim.sim.replay.graph import MessageGraph, record
from mpcsim.sim.replay.kernels.draws import ArraySource, DrawTable
from mpcsim.sim.replay.results import Approximation, Distribution, Explanation, Replay, Share
from mpcsim.sim.replay.steps import Packet, Step

__all__ = [
    "Approximation",
    "ArraySource",
    "Distribution",
    "DrawTable",
    "Explanation",
    "MessageGraph",
    "Packet",
    "Replay",
    "Share",
    "Step",
    "record",
]
