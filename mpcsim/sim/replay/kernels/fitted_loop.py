"""Compiled replay with fitted transfer times, in milliseconds."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from mpcsim.sim.network.tcp.compiled import compiled, entry
from mpcsim.sim.network.tcp.state import Record
from mpcsim.sim.replay.kernels.arrays import Floats


@compiled
def _transfer(
    hops: Record, flows: Record, there: Floats, back: Floats, h: int, sample: int, burst: int
) -> Record:
    """Return the flow of a hop, with the latencies of this burst."""
    flow = flows[hops[h].flow]
    if flow.burst != burst:
        flow.burst = burst
        flow.forward = there[h, sample]
        flow.backward = back[h, sample]
    return flow


@entry
def run(
    steps: Record,
    sends: NDArray[np.int64],
    needed_by: NDArray[np.int64],
    messages: Record,
    hops: Record,
    flows: Record,
    there: Floats,
    back: Floats,
    factors: Floats,
    rest: Floats,
    which: NDArray[np.int64],
    last_steps: NDArray[np.int64],
    ends: Floats,
) -> None:
    """Compute as many samples as ``ends`` has columns, step by step in topological order."""
    for sample in range(ends.shape[1]):
        for k in range(len(flows)):
            flows[k].burst = -1
        for k in range(len(steps)):
            steps[k].latest = 0.0
        for k in range(len(steps)):
            step = steps[k]
            before = steps[step.previous].end if step.previous >= 0 else 0.0
            start = max(before, step.latest)
            joined = step.previous >= 0 and start == before
            step.burst = steps[step.previous].burst if joined else k
            step.end = start + step.cost
            for place in range(step.first_send, step.last_send):
                m = sends[place]
                now = step.end
                messages[m].given = now
                for h in range(messages[m].first_hop, messages[m].last_hop):
                    flow = _transfer(hops, flows, there, back, h, sample, step.burst)
                    now += factors[h, 0] * flow.forward + factors[h, 1] * flow.backward
                    now += factors[h, 2] + rest[which[sample], h] + hops[h].service
                request = messages[m].request
                if request >= 0 and now - messages[request].given > messages[m].limit:
                    now = math.inf  # after the time-out
                for place in range(messages[m].first_needed, messages[m].last_needed):
                    receiver = steps[needed_by[place]]
                    receiver.latest = max(receiver.latest, now)
        for party in range(len(last_steps)):
            ends[party, sample] = steps[last_steps[party]].end
