"""Random streams: every seed, purpose and index has its own, and every bit of a seed counts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from mpcsim.capacity.model.arrivals import Steady, draw_times
from mpcsim.capacity.simulation.latencies import BLOCK, Latencies
from mpcsim.ids import PartyId
from mpcsim.sim import Free, Network, Simulation
from mpcsim.sim.network.draws import SeededDraws, TransferKey
from mpcsim.sim.network.latency import Uniform
from mpcsim.sim.replay.kernels.draws import DrawTable, SampledDraws
from mpcsim.sim.run.faults import FaultPlan, noise
from mpcsim.sim.streams import generator

NETWORK = Network.star(*[Uniform(1.0, 9.0)] * 3)
WAY = NETWORK.links[0].direction(NETWORK.links[0].a)
KEY = TransferKey(PartyId(1), PartyId(2), 0, 0)


def dropped(plan: FaultPlan) -> list[bool]:
    return [plan.decide("Commit", 1, 2).dropped for _ in range(64)]


STREAMS: dict[str, Callable[[int], Any]] = {
    "engine": lambda seed: SeededDraws(seed)(KEY, WAY),
    "replay": lambda seed: list(SampledDraws(seed, 0)(KEY, WAY, "forward", slice(0, 3))),
    "table": lambda seed: list(DrawTable(3, seed)(KEY, WAY, "forward", slice(0, 3))),
    "faults": lambda seed: dropped(FaultPlan(noise(drop=0.5), seed)),
    "arrivals": lambda seed: list(draw_times(Steady(5.0), 0.0, 3.0, seed, 0)),
    "capacity": lambda seed: Latencies(NETWORK, seed).first().tolist(),
}


@pytest.mark.parametrize("name", STREAMS)
def test_every_bit_of_a_seed_counts(name: str) -> None:
    found = [str(STREAMS[name](seed)) for seed in (5, 6, 5 + (1 << 32), 5 + (1 << 80))]
    assert len(set(found)) == len(found)


def test_sessions_of_neighbouring_seeds_have_nothing_in_common() -> None:
    took = []
    for seed in range(3):
        simulation = Simulation(NETWORK, seed=seed, compute=Free())
        took += [simulation.generate("ed25519").elapsed_ms for _ in range(3)]
    assert len(set(took)) == len(took)


def test_latencies_of_a_capacity_run_are_drawn_afresh_however_they_are_asked_for() -> None:
    latencies = Latencies(NETWORK, 1)
    table = latencies.first()
    found = [table[0, 0].copy()]
    for used in (BLOCK, 2 * BLOCK - 1, 2 * BLOCK):
        counts = np.zeros(table.shape[:2], np.int64)
        counts[0, 0] = used
        latencies.replace_used(table, counts)
        assert counts[0, 0] < BLOCK
        found.append(table[0, 0, BLOCK:].copy())
    everything = np.concatenate(found)
    assert len(set(everything.tolist())) == len(everything)
    ends = NETWORK.links[0].a, NETWORK.links[0].b
    again = generator(1, "latencies", *ends, 0)
    wanted = [WAY.forward.sample(again, BLOCK) for _ in range(2)]
    assert (found[0] == np.concatenate(wanted)).all()
