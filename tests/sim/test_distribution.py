"""Distributions are of the same samples as replays, to 0.1 %, whoever works them out."""

from __future__ import annotations

import tracemalloc
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from mpcsim.errors import UsageError
from mpcsim.ids import PartyId
from mpcsim.sim import Measured, Network
from mpcsim.sim.network.latency import Constant, LogNormal
from mpcsim.sim.replay import (
    Distribution,
    GraphMessage,
    MessageGraph,
    Replay,
    Step,
    parallel_replay,
)
from mpcsim.sim.replay.plan import CHUNK
from mpcsim.sim.statistics.quantile_sketch import ERROR
from tests.sim.test_sweep import Inline

ONE, TWO, THREE = PartyId(1), PartyId(2), PartyId(3)
NETWORK = Network.mesh((1, 2, 3), LogNormal(20.0, 0.5))
SAMPLES = 5 * CHUNK + 100
PERCENTS = (0, 1, 50, 90, 95, 99, 99.9, 100)

GRAPH = MessageGraph(
    "two asked",
    (
        Step(ONE, "toy", 1, "ask", (), (0, 1)),
        Step(TWO, "toy", 1, "answer", (0,), (2,)),
        Step(THREE, "toy", 1, "answer", (1,), (3,)),
        Step(ONE, "toy", 2, "hear", (2, 3), ()),
    ),
    (
        GraphMessage("Q", ONE, TWO, 100, 0),
        GraphMessage("Q", ONE, THREE, 30_000, 0),
        GraphMessage("A", TWO, ONE, 100, 1),
        GraphMessage("A", THREE, ONE, 100, 2),
    ),
)


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel_replay, "BLOCK", 2 * CHUNK)


def agree(found: Distribution, kept: Replay) -> None:
    assert found.samples == kept.samples
    assert found.mean_ms == pytest.approx(kept.mean_ms, rel=1e-12)
    assert found.std_ms == pytest.approx(kept.std_ms, rel=1e-9, abs=1e-9)
    for percent, exact in kept.percentiles(PERCENTS).items():
        assert abs(found.percentile(percent) - exact) <= ERROR * exact
    assert found.approximation == kept.approximation
    assert len(found.curve()) <= found.samples, "no dot of a figure rests on less than a sample"


@pytest.mark.parametrize("network", [NETWORK, NETWORK.with_link("site 1", "site 2", loss=0.02)])
def test_the_samples_are_those_of_a_replay(network: Network) -> None:
    with ThreadPoolExecutor(2) as threads:
        found = GRAPH.distribution(
            network, SAMPLES, seed=3, parties=True, explain=True, executor=threads
        )
    kept = GRAPH.replay(network, SAMPLES, seed=3, parties=True, explain=True)
    agree(found, kept)
    for i, times in kept.parties_ms.items():
        for level, exact in zip((0.5, 0.99), np.quantile(times, (0.5, 0.99)), strict=True):
            assert abs(found.parties[i].quantile(level) - exact) <= ERROR * exact
    assert found.explanation is not None
    assert kept.explanation is not None
    assert found.explanation.last == pytest.approx(kept.explanation.last)
    assert found.explanation.split_ms == pytest.approx(kept.explanation.split_ms)
    for name, share in kept.explanation.links.items():
        assert found.explanation.links[name].mean_ms == pytest.approx(share.mean_ms)
        assert found.explanation.links[name].probability == pytest.approx(share.probability)
    for i, share in kept.explanation.parties.items():
        assert found.explanation.parties[i].probability == pytest.approx(share.probability)
    ms = kept.percentile(90)
    assert found.share_within(ms) == pytest.approx(kept.share_within(ms), abs=0.01)


def test_samples_that_are_all_alike_are_worked_out_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel_replay, "Processes", None)
    network = Network.mesh((1, 2, 3), Constant(20.0))
    found = GRAPH.distribution(network, 10**12, parties=True, explain=True)
    once = GRAPH.replay(network, 1, explain=True)
    assert found.samples == 10**12
    assert found.percentile(99.9) == found.mean_ms == once.mean_ms
    assert found.std_ms == 0.0
    assert found.explanation == once.explanation
    assert found.parties[ONE].count == 10**12


def test_memory_does_not_grow_with_the_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel_replay, "AHEAD", 2)
    GRAPH.distribution(NETWORK, CHUNK, executor=Inline())  # what is loaded once

    def peak(blocks: int) -> int:
        tracemalloc.start()
        try:
            GRAPH.distribution(NETWORK, blocks * parallel_replay.BLOCK, executor=Inline())
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    few, more = peak(4), peak(40)
    assert more < few + 64_000  # 40 blocks' samples would be 640,000 bytes


class Failing(Executor):
    """The second block fails."""

    def __init__(self) -> None:
        self.futures: list[Future[Any]] = []

    def submit(self, run: Any, /, *args: Any, **named: Any) -> Future[Any]:
        future: Future[Any] = Future()
        self.futures.append(future)
        if len(self.futures) == 1:
            future.set_result(run(*args))
        elif len(self.futures) == 2:
            future.set_exception(OSError("gone"))
        return future


def test_after_a_failure_nothing_more_is_begun() -> None:
    failing = Failing()
    with pytest.raises(OSError, match="gone"):
        GRAPH.distribution(NETWORK, SAMPLES, executor=failing)
    assert failing.futures[2].cancelled()


# ---------------------------------------------------------------------- errors


class Stays(LogNormal):
    def __reduce__(self) -> Any:
        raise TypeError("it stays here")


def test_a_network_that_cannot_go_elsewhere_is_refused() -> None:
    network = Network.mesh((1, 2, 3), Stays(20.0, 0.5), name="odd")
    with pytest.raises(UsageError, match="network odd cannot go elsewhere: it stays here"):
        GRAPH.distribution(network, SAMPLES)


@pytest.mark.parametrize("samples", [0, -1, 1.5])
def test_how_many_is_checked(samples: Any) -> None:
    with pytest.raises(UsageError, match="samples is"):
        GRAPH.distribution(NETWORK, samples)


def test_what_cannot_be_replayed_is_refused_before_anything_runs() -> None:
    with pytest.raises(UsageError, match="cannot be replayed"):
        GRAPH.distribution(NETWORK, costs=Measured(), executor=Failing())
