"""Recorded calls: their replays take as long as the calls themselves."""

import itertools
from functools import partial

import pytest

from mpcsim import Network
from mpcsim.errors import UsageError
from mpcsim.ids import OPERATOR
from node.local import LocalService
from tests.node.wallets import CHEAP

NEW = {"password": "correct horse"}
SIGNATURE = {"message": "00" * 32}
RUNS = 8
"""Every link near and far, with the others near and far."""
STAR = Network.star(20, 5, 70)
NETWORKS = {
    "star": STAR,
    "cold": STAR.with_connection(cold=True),
    "slow links, a slow gateway": Network.star(20, 5, 70, mbit_per_s=5, service_ms=2),
    "one connection for all": STAR.with_connection(pool=1),
    "the operator beside the gateway": Network(
        {name: STAR.sites[name] for name in ("client", "gateway", "institution")},
        tuple(link for link in STAR.links if "operator" not in (link.a, link.b)),
        {**STAR.placement, OPERATOR: "gateway"},
    ),
}


def call(alice, verb, **document):
    return alice.post(f"/v3/wallet/{verb}", json=document)


@pytest.fixture(scope="module")
def service():
    with LocalService(cost=CHEAP, token_lifetime_s=10**6) as made:
        yield made


@pytest.fixture(scope="module")
def calls(service):
    alice, users = service.user("alice"), (service.user(f"user-{n}") for n in itertools.count())
    share = call(alice, "generate", curve="ed25519", **NEW).json()
    return {
        "ed25519": partial(call, alice, "sign", **share, **SIGNATURE),
        "validate": partial(call, alice, "validate/share", **share),
        "generate": lambda: call(next(users), "generate", curve="ed25519", **NEW),
    }


def took(service, made, network):
    """Over connections that nobody has used before."""
    service.change(network)
    began = service.now_ms
    assert made().is_success
    return service.now_ms - began


@pytest.mark.few(1)
@pytest.mark.parametrize("name", ["ed25519", "validate", "generate"])
def test_a_replay_takes_as_long_as_the_call(service, calls, name):
    service.change()
    graph = service.record(calls[name], name, runs=RUNS)
    assert graph.scope == "rest"
    for over, network in NETWORKS.items():
        expected = took(service, calls[name], network)
        replay = graph.replay(network, 3)
        assert replay.finished_ms == pytest.approx([expected] * 3, abs=1e-6), over
        assert replay.scope == "rest"
    service.change()


def test_a_call_that_the_service_gives_up_has_failed(service, calls):
    """The node waits for the gateway for 30 s, the gateway for an MPC node for 20."""
    service.change()
    graph = service.record(calls["ed25519"], runs=RUNS)
    for answered, ends in {
        True: [(14_000, 5, 5), (5, 5, 9_900)],
        False: [(15_100, 5, 5), (5, 5, 10_100)],
    }.items():
        for network in (Network.star(*each) for each in ends):
            service.change(network)
            assert calls["ed25519"]().is_success == answered
            assert (graph.replay(network, 1).failed == 0) == answered
    service.change()
    service.wait(60_000)


# ---------------------------------------------------------------------- refusals


def test_a_call_that_fails(service):
    with pytest.raises(UsageError, match=r"the call fails: HTTP 401 .*JWT_MISSING"):
        service.record(lambda: service.http.post("/v3/wallet/sign", json={}))


def test_a_call_that_waits_for_the_time_to_pass(service, calls):
    def late():
        service.wait(7)
        return calls["ed25519"]()

    with pytest.raises(UsageError, match="waits for something else than the call's messages"):
        service.record(late)


@pytest.mark.parametrize("runs", [0, -1, 1.5])
def test_bad_numbers_of_runs(service, calls, runs):
    with pytest.raises(UsageError, match=f"runs is {runs}: not a whole number from 1 on"):
        service.record(calls["ed25519"], runs=runs)


def test_sites_that_compute_are_refused(service, calls):
    graph = service.record(calls["validate"], runs=RUNS)
    with pytest.raises(UsageError, match=r"site gateway: cpu_factor is 2\.0"):
        graph.replay(STAR.with_site("gateway", cpu_factor=2.0), 1)


WITHOUT_GRAPH = [
    ({"clock": "real"}, "virtual time"),
    ({"cpu_factor": 1.0}, "computing takes none"),
    ({"network": STAR.with_connection(forwarding="stream")}, "streams"),
]


@pytest.mark.parametrize(("options", "named"), WITHOUT_GRAPH)
def test_services_whose_calls_have_no_graph(options, named):
    with LocalService(cost=CHEAP, **options) as service, pytest.raises(UsageError, match=named):
        service.record(lambda: service.http.get("/"))
