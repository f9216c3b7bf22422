"""Monte Carlo simulation of completion times: a run's message graph, replayed without cryptography.

Model: the graph of messages and steps is fixed (``graph.record``, ``calls``); latencies and losses
of each sample are drawn anew, and discrete-event simulation over the compiled TCP kernel gives the
times, bit by bit those of the engine. Assumed: what is sent does not depend on the network, and
computation takes declared times. Left out: faults, parties that share a core, and what earlier
calls leave on a connection.

``graph`` is the entry point. ``plan`` lays a graph out on a network; ``kernels.replay_loop``
simulates samples; ``chunk`` runs some thousand of them, ``critical_path_totals`` adds up their
critical paths; ``fitted`` is faster and approximate; ``parallel_replay`` uses all cores and
quantile sketches; ``results`` has the distributions. All times are milliseconds.
"""

from typing import TYPE_CHECKING

from mpcsim.lazy_names import lazy_names

if TYPE_CHECKING:
    from mpcsim.sim.replay.graph import MessageGraph, record
    from mpcsim.sim.replay.kernels.draws import ArraySource, DrawTable
    from mpcsim.sim.replay.results import (
        Approximation,
        CompletionTimes,
        Distribution,
        Explanation,
        PathShare,
        Replay,
    )
    from mpcsim.sim.replay.steps import GraphMessage, Step
else:
    __getattr__, __dir__ = lazy_names(__name__)

__all__ = [
    "Approximation",
    "ArraySource",
    "Distribution",
    "DrawTable",
    "Explanation",
    "CompletionTimes",
    "MessageGraph",
    "GraphMessage",
    "Replay",
    "PathShare",
    "Step",
    "record",
]
