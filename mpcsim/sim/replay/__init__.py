"""Monte Carlo by replay: the timing of a run or a call, a million times, without its cryptography.

``steps`` is what is replayed; ``plan`` lays it out on a network, ``course`` is the compiled order
of events, ``chunk`` works out the times of some thousand samples, ``tally`` their critical paths;
``fitted`` is the quick way that is not exact; ``many`` is for more samples than one keeps;
``results`` is what comes out. ``graph`` is the front door.

All times are milliseconds.
"""

from mpcsim.sim.replay.graph import MessageGraph, record
from mpcsim.sim.replay.kernels.draws import ArraySource, DrawTable
from mpcsim.sim.replay.results import (
    Approximation,
    Distribution,
    Explanation,
    Finishes,
    Replay,
    Share,
)
from mpcsim.sim.replay.steps import Packet, Step

__all__ = [
    "Approximation",
    "ArraySource",
    "Distribution",
    "DrawTable",
    "Explanation",
    "Finishes",
    "MessageGraph",
    "Packet",
    "Replay",
    "Share",
    "Step",
    "record",
]
