"""Simulation of a chunk of samples: draws in, times out, in milliseconds."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from mpcsim.ids import PartyId
from mpcsim.sim.replay.kernels.arrays import Bools, Floats
from mpcsim.sim.replay.kernels.draws import ArraySource
from mpcsim.sim.replay.plan import Plan

SIMULATED: Final = (
    "queueing",
    "handshake",
    "window",
    "transmission",
    "propagation",
    "recovery",
)
"""The parts of a transfer's time, in the kernel's order."""


@dataclass(frozen=True)
class Chunk:
    """The times of a chunk of samples; arrays have one column for each."""

    plan: Plan
    ends: dict[PartyId, Floats]
    """Completion time of each party; infinite if the call failed."""
    starts: Floats
    """Start of each step; this and what follows is empty unless requested."""
    joined: Bools
    """Whether a step directly follows the one before it."""
    arrivals: Floats
    """Arrival time of each message."""
    parts: Floats
    """Time of each hop by part (``SIMULATED``)."""

    @classmethod
    def of(cls, plan: Plan, ends: Floats) -> Chunk:
        """Return a chunk of completion times alone, a row for each party."""
        none = np.empty((0, 0))
        by_party = dict(zip(plan.parties, ends, strict=True))
        return cls(plan, by_party, none, none.astype(np.bool_), none, none)

    @cached_property
    def finished(self) -> Floats:
        """Completion time of the last party."""
        latest: Floats = np.maximum.reduce(list(self.ends.values()))
        return latest


def simulate(plan: Plan, source: ArraySource, samples: slice, explain: bool) -> Chunk:
    """Simulate some samples.

    Args:
        explain: whether to keep the times of steps, messages and hops.
    """
    n = samples.stop - samples.start
    forward = np.empty((len(plan.hops), n))
    backward = np.empty((len(plan.hops), n))
    keys = np.zeros((len(plan.hops), n), np.uint64)
    for number, hop in enumerate(plan.hops):
        forward[number] = source(hop.key, hop.direction, "forward", samples)
        backward[number] = source(hop.key, hop.direction, "backward", samples)
        if hop.direction.is_lossy:
            keys[number] = source(hop.key, hop.direction, "loss", samples)
    ends = np.empty((len(plan.parties), n))
    why = n if explain else 0
    starts = np.zeros((len(plan.steps), why))
    joined = np.zeros((len(plan.steps), why), np.int64)
    arrivals = np.zeros((len(plan.messages), why))
    parts = np.zeros((len(plan.hops), len(SIMULATED), why))
    from mpcsim.sim.replay.kernels import (
        replay_loop,  # here: importing numba takes half a second
    )

    replay_loop.run(
        plan.records,
        plan.step_records,
        plan.sends,
        plan.needed_by,
        plan.message_records,
        plan.hop_records,
        plan.flow_records,
        plan.event_records,
        plan.may_wait,
        forward,
        backward,
        keys,
        ends,
        plan.last_steps,
        explain,
        starts,
        joined,
        arrivals,
        parts,
    )
    by_party = dict(zip(plan.parties, ends, strict=True))
    return Chunk(plan, by_party, starts, joined.astype(np.bool_), arrivals, parts)
