"""Latencies that keep the order of their samples in blocks."""

from __future__ import annotations

import numpy as np
import pytest

from mpcsim import Network
from mpcsim.errors import UsageError
from mpcsim.ids import CLIENT, OPERATOR
from mpcsim.sim.network.bursts import Bursts
from mpcsim.sim.network.draws import SeededDraws, TransferKey
from mpcsim.sim.network.latency import Empirical

SAMPLES = tuple(float(i) for i in range(10))


def drawn(latency: Bursts, n: int, seed: int = 0) -> list[float]:
    return latency.series(np.random.default_rng(seed), n).tolist()


def test_blocks_are_successive_samples_of_a_ring() -> None:
    found = drawn(Bursts(SAMPLES, 4), 4000)
    assert len(found) == 4000
    for begin in range(0, 4000, 4):
        first = found[begin]
        assert found[begin : begin + 4] == [(first + i) % 10 for i in range(4)]


def test_the_last_block_is_cut() -> None:
    latency = Bursts(SAMPLES, 4)
    assert drawn(latency, 6) == drawn(latency, 8)[:6]
    assert drawn(latency, 0) == []
    with pytest.raises(UsageError, match="cannot draw -1"):
        drawn(latency, -1)


def test_the_correlation_of_neighbours_stays() -> None:
    """Of blocks of B, B - 1 of B pairs of neighbours are as measured, the rest independent."""
    generator = np.random.default_rng(3)
    logs = np.zeros(5000)
    for i in range(1, 5000):
        logs[i] = 0.9 * logs[i - 1] + generator.normal(0, 0.2)
    samples = np.exp(logs)

    def neighbours(times: np.ndarray) -> float:
        return float(np.corrcoef(times[:-1], times[1:])[0, 1])

    found = Bursts(tuple(samples), 20).series(generator, 200_000)
    assert neighbours(found) == pytest.approx(0.95 * neighbours(samples), abs=0.03)
    assert abs(neighbours(Empirical(tuple(samples)).series(generator, 200_000))) < 0.01


@pytest.mark.parametrize("block", [50, 7, 33])
def test_the_engine_s_draws_do_not_cut_blocks(block: int) -> None:
    samples = tuple(float(i) for i in range(1000))
    network = Network.star().with_link("client", "gateway", latency=Bursts(samples, block))
    (hop, _) = network.route(CLIENT, OPERATOR)
    draws = SeededDraws(1)
    key = TransferKey(CLIENT, OPERATOR, 0, 0)
    found = [draws(key, hop).forward_ms for _ in range(20 * block)]
    for begin in range(0, len(found), block):
        steps = np.diff(found[begin : begin + block]) % 1000
        assert (steps == 1).all()


def test_what_needs_independent_samples_is_refused() -> None:
    with pytest.raises(UsageError, match="no independent samples, which the replay needs: simul"):
        Bursts(SAMPLES, 4).sample(np.random.default_rng(1), 3)


@pytest.mark.parametrize(
    ("samples", "block", "message"),
    [
        ((), 1, "samples_ms is empty"),
        ((1.0, -1.0), 1, r"samples_ms\[1\] is -1"),
        ((1.0, 2.0), 0, "block is 0: not a whole number from 1 on"),
        ((1.0, 2.0), 1.5, "block is 1.5: not a whole"),
        ((1.0, 2.0), 3, "block is 3: there are 2 samples"),
    ],
)
def test_bad_blocks(samples: tuple[float, ...], block: int, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Bursts(samples, block)
