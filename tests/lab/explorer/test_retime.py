"""The same messages over other networks: what the puppets play is what the parties do."""

import math
from dataclasses import replace
from itertools import product

import pytest

from mpcsim import Network
from mpcsim.errors import UsageError
from mpcsim.lab.explorer import Explorer
from mpcsim.lab.explorer.model.retime import Retiming, observed_network, with_link_numbers
from mpcsim.sim.network.latency import Constant
from mpcsim.sim.network.losses import GilbertElliott
from mpcsim.sim.simulation import Policy
from tests.helpers import traces
from tests.helpers.tiers import fast_few


def times(trace):
    return [
        (m.kind, m.sender, m.receiver, m.size, m.sent_ms, m.received_ms, m.hops)
        for m in trace.messages
    ]


OPERATIONS = {"sign": {"signers": (1, 2, 3)}, "generate": {"curve": "ed25519"}, "recover": {}}
NETWORKS = {
    "star": Network.star(20.0, 5.0, 140.0, mbit_per_s=10, service_ms=0.5),
    "lte": Network.preset("tokyo", operator="seoul", institution="london", access="lte"),
    "cold": Network.preset("seoul").with_connection(cold=True),
    "lossy": Network.preset("seoul", institution="frankfurt", access="wifi", loss=0.05),
}


@pytest.mark.parametrize(("operation", "network"), fast_few(product(OPERATIONS, NETWORKS), 4))
def test_retiming_agrees_with_a_run_of_the_real_parties(wallet, operation, network):
    options = OPERATIONS[operation]
    explorer = Explorer.live(wallet, operation, **options)
    wallet.network = NETWORKS[network]
    real = getattr(wallet, operation)(**options).trace
    made = Retiming(explorer.trace, explorer.network).over_network(wallet.network)
    assert times(made) == times(real)
    assert made.finished_ms == real.finished_ms
    assert made.verdict is real.verdict
    assert made.network == real.network


@pytest.mark.parametrize("name", ["aborted", "dropped", "duplicated", "deadline"])
def test_only_complete_runs_can_be_retimed(name):
    trace = traces.trace(name)
    explorer = Explorer(trace, network=Network.star(20.0, 5.0, 140.0, mbit_per_s=100))
    assert explorer.view.fixed_times
    with pytest.raises(UsageError, match="only a complete run"):
        explorer.set_link("client", "gateway", one_way_ms=1.0)


def test_the_network_that_a_run_met():
    trace = traces.trace("two-party signature")
    assert Retiming(trace, observed_network(trace)).over_network(
        observed_network(trace)
    ).finished_ms == pytest.approx(trace.finished_ms)
    busy = [
        replace(m, hops=tuple(replace(h, service_ms=2.0) for h in m.hops)) for m in trace.messages
    ]
    assert observed_network(replace(trace, messages=busy)).sites["gateway"].service_ms == 2.0


def test_the_way_back_changes_in_proportion_and_bursts_stay_as_long():
    first = Network.star(20.0, 5.0, 5.0).with_link(
        "client",
        "gateway",
        mbit_per_s=10.0,
        back_mbit_per_s=50.0,
        back_latency=Constant(30.0),
        loss=GilbertElliott.of(0.01, packets=4),
        back_loss=0.02,
    )
    made = with_link_numbers(
        first, first, "gateway", "client", one_way_ms=40.0, mbit_per_s=1.0, loss=0.03
    ).links[0]
    assert (made.latency, made.back_latency) == (Constant(40.0), Constant(60.0))
    assert (made.mbit_per_s, made.back_mbit_per_s) == (1.0, pytest.approx(5.0))
    assert made.loss.mean == pytest.approx(0.03)
    assert made.loss.to_good == first.links[0].loss.to_good
    assert made.back_loss == pytest.approx(0.06)
    again = with_link_numbers(first, first, "client", "gateway", loss=first.links[0].loss.mean)
    assert again.links == first.links
    still = with_link_numbers(first, first, "client", "gateway", one_way_ms=0.0).links[0]
    assert (still.latency, still.back_latency) == (Constant(0.0), Constant(0.0))
    none = with_link_numbers(first, first, "client", "gateway", loss=0.0).links[0]
    assert (none.loss, none.back_loss) == (0.0, 0.0)


@pytest.mark.parametrize(
    ("numbers", "said"),
    [
        ({"one_way_ms": -1.0}, "latency is -1 ms: it must be at least 0 and at most 60,000"),
        ({"one_way_ms": math.nan}, "latency is nan ms"),
        ({"mbit_per_s": 0.0}, r"bandwidth is 0 Mbit/s: it must be at least 0\.001"),
        ({"loss": 1.5}, "loss is 150 %: it must be at least 0 and at most 50"),
        ({"loss": -0.1}, "loss is -10 %"),
    ],
)
def test_a_bad_number_is_told_and_changes_nothing(wallet, numbers, said):
    explorer = Explorer(wallet.sign(signers=(1, 3)), network=wallet.network)
    before = explorer.set_link("client", "gateway", loss=0.02).view
    with pytest.raises(UsageError, match=f"link client - gateway: {said}"):
        explorer.set_link("client", "gateway", **numbers)
    with pytest.raises(UsageError, match="no link joins client and operator"):
        explorer.set_link("client", "operator", one_way_ms=1.0)
    assert explorer.view == before


def test_latency_of_a_run_that_broke_off(explorer):
    """With messages altered, the parties themselves run again."""
    explorer.edit(3, 1, "Respond", "R_i", "+ G")
    slow = explorer.view
    explorer.set_link("institution", "gateway", one_way_ms=1.0)
    quick = explorer.view
    assert quick.aborts[0].reason == slow.aborts[0].reason == "COMMITMENT_OPENING"
    assert quick.aborts[0].at_ms < slow.aborts[0].at_ms


def lost(view):
    return {m.key: m.recovery_ms for m in view.messages if m.recovery_ms > 0}


def test_loss_and_bandwidth_as_a_run_of_the_real_parties_has_them(wallet, explorer):
    """Numbers and seed changed in the explorer, or given to the simulation: the same times."""
    wallet.network = wallet.network.with_link(
        "client", "gateway", loss=0.1, mbit_per_s=2.0, back_mbit_per_s=2.0
    )
    wallet.seed = 7
    real = wallet.sign(signers=(1, 3)).trace
    explorer.set_link("client", "gateway", loss=0.1, mbit_per_s=2.0).set_seed(real.seed)
    assert real.seed == explorer.view.seed != explorer.view.first_seed
    assert times(explorer.trace) == times(real)
    assert lost(explorer.view)


def test_a_deadline_holds_over_any_network(wallet):
    wallet.policy = Policy(timeout_ms=2000.0, attempts=1)
    explorer = Explorer.live(wallet, "sign", signers=(1, 3))
    assert explorer.view.verdict == "completed valid"
    assert explorer.set_link("client", "gateway", one_way_ms=900.0).view.verdict == "stalled"
    assert explorer.restore_network().view.verdict == "completed valid"
