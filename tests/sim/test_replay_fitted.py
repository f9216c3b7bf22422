"""Replays of fitted transfers: how far they are from simulated ones, and that they say so."""

from __future__ import annotations

import numpy as np
import pytest

from mpcsim.errors import UsageError
from mpcsim.ids import PartyId
from mpcsim.sim import Declared, Network
from mpcsim.sim.network.latency import Constant, LogNormal
from mpcsim.sim.replay import DrawTable, GraphMessage, MessageGraph, Step, fitted, record
from mpcsim.sim.run.engine import VirtualRun
from tests.helpers.sessions import SESSIONS

ONE, TWO = PartyId(1), PartyId(2)


def graph(name: str) -> MessageGraph:
    return record(VirtualRun(SESSIONS[name]().parties(), Network.star(), name=name).run())


def call(up: int, down: int) -> MessageGraph:
    """A request and its answer."""
    steps = (
        Step(ONE, "toy", 1, "ask", (), (0,)),
        Step(TWO, "toy", 1, "answer", (0,), (1,)),
        Step(ONE, "toy", 2, "hear", (1,), ()),
    )
    return MessageGraph(
        "call", steps, (GraphMessage("Q", ONE, TWO, up, 0), GraphMessage("A", TWO, ONE, down, 1))
    )


def test_one_segment_is_fitted() -> None:
    """A small message takes its latency and its time on the wire; nothing is left over."""
    network = Network.mesh((1, 2), LogNormal(20.0, 0.5))
    quick = call(100, 100).replay(network, 20_000, approximate=True)
    exact = call(100, 100).replay(network, 20_000)
    for percent in (5, 50, 95):
        assert quick.percentile(percent) == pytest.approx(exact.percentile(percent), rel=0.02)
    assert quick.std_ms == pytest.approx(exact.std_ms, rel=0.05)
    assert quick.approximation is not None
    assert exact.approximation is None


@pytest.mark.few(1)
@pytest.mark.parametrize("loss", [0.0, 0.01])
@pytest.mark.parametrize("name", ["frost-2", "ecdsa-2"])
def test_close_to_the_simulation(name: str, loss: float) -> None:
    latencies = (LogNormal(20.0, 0.2), LogNormal(5.0, 0.2), LogNormal(70.0, 0.2))
    network = Network.star(*latencies, loss=loss)
    of = graph(name)
    quick = of.replay(network, 20_000, approximate=True, parties=True)
    exact = of.replay(network, 4_000, seed=9)
    found = quick.approximation
    assert found is not None
    assert abs(found.mean) < 0.03
    assert [*found.errors] == [50, 95, 99, 99.9]
    assert abs(found.errors[95]) < 0.02
    assert found.wasserstein < 0.04
    # What it says of itself is so.
    if found.is_accepted:
        assert quick.mean_ms / exact.mean_ms - 1 == pytest.approx(found.mean, abs=0.02)
        ratio = quick.percentile(99) / exact.percentile(99)
        assert ratio - 1 == pytest.approx(found.errors[99], abs=0.03)
    assert np.maximum.reduce(list(quick.parties_ms.values())) == pytest.approx(quick.finished_ms)


def test_too_far_off_in_time_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fitted, "JUDGED", 4 * fitted.CHUNK)
    monkeypatch.setattr(fitted, "SIMULATED", 4 * fitted.CHUNK)
    network = Network.mesh((1, 2), LogNormal(20.0, 0.5), loss=0.02)
    of = call(2_000, 2_000)
    exact = of.replay(network, 500, seed=2)
    quick = of.replay(network, 500, seed=2, approximate=True, tolerance=1e-4)
    many = of.distribution(network, 500, seed=2, approximate=True, tolerance=1e-4)
    found = quick.approximation
    assert found is not None
    assert not found.is_accepted
    assert found == many.approximation
    assert (quick.finished_ms == exact.finished_ms).all()
    assert many.mean_ms == pytest.approx(exact.mean_ms)
    assert "approximate refused" in str(quick)
    assert "so every transfer is simulated" in str(quick)
    assert of.replay(network, 500, approximate=True, tolerance=9.0).approximation.is_accepted  # type: ignore[union-attr]


def test_costs_and_services_count() -> None:
    network = Network.star(LogNormal(20.0, 0.2), 5.0, 70.0, service_ms=2.0).with_site(
        "client", cpu_factor=3.0
    )
    of = graph("frost-2")
    costs = Declared({(step.protocol, step.name): 1.5 for step in of.steps})
    quick = of.replay(network, 5000, costs=costs, approximate=True)
    exact = of.replay(network, 5000, costs=costs)
    assert quick.mean_ms == pytest.approx(exact.mean_ms, rel=0.01)


def test_what_it_cannot_do() -> None:
    network = Network.mesh((1, 2), LogNormal(20.0, 0.5))
    with pytest.raises(UsageError, match="leave out explain, or approximate"):
        call(1, 1).replay(network, 10, approximate=True, explain=True)
    with pytest.raises(UsageError, match="leave out draws, or approximate"):
        call(1, 1).replay(network, 10, approximate=True, draws=DrawTable(10))


def test_nothing_is_simulated_twice_if_nothing_is_drawn() -> None:
    """All samples of constant latencies without loss are alike; a million take no time."""
    network = Network.star(Constant(20.0), 5.0, 70.0)
    found = graph("ecdsa-2").replay(network, 1_000_000, parties=True, explain=True)
    one = graph("ecdsa-2").replay(network, 1, explain=True, draws=DrawTable(1))
    assert (found.finished_ms == one.finished_ms[0]).all()
    assert all((ends == ends[0]).all() for ends in found.parties_ms.values())
    assert found.explanation == one.explanation
