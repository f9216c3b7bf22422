"""The same messages over other networks: what the puppets play is what the parties do."""

import math

import pytest

from mpcsim import Network
from mpcsim.errors import UsageError
from mpcsim.explorer import Explorer
from mpcsim.explorer.retime import Retiming, seen_network, slowed
from mpcsim.sim.network.latency import Constant, LogNormal
from mpcsim.sim.run.faults import drop
from tests.helpers import traces


def times(trace):
    return [
        (m.kind, m.sender, m.receiver, m.size, m.sent_ms, m.received_ms, m.hops)
        for m in trace.messages
    ]


OPERATIONS = {
    "sign": {"signers": (1, 2, 3)},
    "generate": {"curve": "ed25519"},
    "recover": {},
}
NETWORKS = {
    "star": Network.star(20.0, 5.0, 140.0, mbit_per_s=10, service_ms=0.5),
    "lte": Network.preset("tokyo", operator="seoul", institution="london", access="lte"),
    "cold": Network.preset("seoul").with_connection(cold=True),
    "lossy": Network.preset("seoul", institution="frankfurt", access="wifi", loss=0.05),
}


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("network", NETWORKS)
def test_retiming_agrees_with_a_run_of_the_real_parties(wallet, operation, network):
    options = OPERATIONS[operation]
    explorer = Explorer.live(wallet, operation, **options)
    wallet.network = NETWORKS[network]
    real = getattr(wallet, operation)(**options).trace
    made = Retiming(explorer.trace, explorer.network).over(wallet.network)
    assert times(made) == times(real)
    assert made.finished_ms == real.finished_ms
    assert made.verdict is real.verdict
    assert made.network == real.network


@pytest.mark.parametrize("name", ["two-party signature with compute", "key generation", "recovery"])
def test_work_takes_what_it_took(name):
    """Over the same network nothing changes at all, computing included."""
    trace = traces.trace(name)
    network = Network.star(20.0, 5.0, 140.0, mbit_per_s=100, service_ms=0.5 * ("key" in name))
    made = Retiming(trace, network).over(network)
    assert times(made) == times(trace)
    assert [(w.party, w.round, w.start_ms, w.end_ms) for w in made.work] == [
        (w.party, w.round, w.start_ms, w.end_ms) for w in trace.work
    ]


def test_slow_machines_stay_slow(wallet):
    wallet.compute = traces.Fixed()
    wallet.network = wallet.network.with_site("client", cpu_factor=3.0)
    trace = wallet.sign().trace
    assert Retiming(trace, wallet.network).over(wallet.network).finished_ms == pytest.approx(
        trace.finished_ms
    )


@pytest.mark.parametrize("name", ["aborted", "dropped", "duplicated", "deadline"])
def test_only_complete_runs_can_be_retimed(name):
    trace = traces.trace(name)
    explorer = Explorer(trace, network=Network.star(20.0, 5.0, 140.0, mbit_per_s=100))
    assert explorer.view.fixed_times
    with pytest.raises(UsageError, match="only a complete run"):
        explorer.set_latency("client", "gateway", 1.0)


def test_the_network_that_a_run_met():
    trace = traces.trace("two-party signature")
    network = seen_network(trace)
    found = {frozenset((link.a, link.b)): link for link in network.links}
    assert found[frozenset(("client", "gateway"))].latency.mean_ms == pytest.approx(20.0)
    assert found[frozenset(("gateway", "institution"))].latency.mean_ms == pytest.approx(140.0)
    assert [link.mbit_per_s for link in network.links] == [pytest.approx(100)] * 2
    assert dict(network.placement) == {1: "client", 3: "institution"}
    again = Retiming(trace, network).over(network)
    assert again.finished_ms == pytest.approx(trace.finished_ms)


def test_infinite_rates_and_cold_connections_are_seen():
    cold = seen_network(traces.trace("cold connections"))
    assert cold.connection.cold
    free = Explorer(traces.trace("two-party signature")).network
    assert all(link.mbit_per_s < math.inf for link in free.links)


def test_a_slider_moves_the_mean_and_keeps_the_jitter():
    first = Network.star(LogNormal(10.0, 0.5, floor_ms=8.0), 5.0, 0.0)
    there = slowed(first, first, "client", "gateway", 2 * first.links[0].latency.mean_ms)
    assert there.links[0].latency == first.links[0].latency.scaled(2.0)
    none = slowed(there, first, "gateway", "client", 0.0)
    assert none.links[0].latency == Constant(0.0)
    back = slowed(none, first, "client", "gateway", first.links[0].latency.mean_ms)
    assert back.links == first.links
    new = slowed(first, first, "institution", "gateway", 7.0)
    assert new.links[2].latency == Constant(7.0)
    with pytest.raises(UsageError):
        slowed(first, first, "client", "operator", 1.0)
    with pytest.raises(UsageError):
        slowed(first, first, "client", "gateway", -1.0)


def test_the_explorer_moves_the_times_and_goes_back(wallet):
    explorer = Explorer(wallet.sign(signers=(1, 3)), network=wallet.network)
    before = explorer.view
    explorer.set_latency("institution", "gateway", 10.0)
    after = explorer.view
    assert after.finished_ms < before.finished_ms == after.at_first_ms
    link = next(link for link in after.links if link.a == "institution")
    assert link.one_way_ms == pytest.approx(10.0)
    assert link.at_first_ms == pytest.approx(116.285, abs=1.0)
    assert explorer.reset().view == before


def test_latency_of_a_run_that_broke_off(wallet):
    """With messages altered, the parties themselves run again."""
    explorer = Explorer.live(wallet, "sign", signers=(1, 3)).edit(3, 1, "Respond", "R_i", "+ G")
    slow = explorer.view
    explorer.set_latency("institution", "gateway", 1.0)
    quick = explorer.view
    assert quick.aborts[0].reason == slow.aborts[0].reason == "COMMITMENT_OPENING"
    assert quick.aborts[0].at_ms < slow.aborts[0].at_ms


def test_faults_stay_what_they_are(wallet):
    wallet.faults = (drop("Respond", sender=1),)
    explorer = Explorer.live(wallet, "sign", signers=(1, 3))
    assert explorer.view.verdict == "stalled"
    assert explorer.set_latency("client", "gateway", 50.0).view.verdict == "stalled"
    assert not explorer.view.fixed_times
