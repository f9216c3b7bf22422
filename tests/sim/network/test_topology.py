"""Networks: routes, ready-made ones, changed copies; bad input is named before anything runs."""

import math
import pickle
from dataclasses import replace

import pytest

from mpcsim.errors import UsageError
from mpcsim.sim import Connection, Link, Network, Policy, Simulation, Site
from mpcsim.sim.network import REGIONS
from mpcsim.sim.network.latency import Constant, Uniform
from mpcsim.sim.network.topology import CLIENT, INSTITUTION, OPERATOR
from mpcsim.sim.run.engine import VirtualRun
from tests.helpers.toy import toy_parties

SITES = {name: Site(name) for name in ("a", "b", "c")}


def link(a: str = "a", b: str = "b", **settings) -> Link:
    return Link(a, b, **{"latency": Constant(1.0), **settings})


def network(*links: Link, placement=None) -> Network:
    return Network(SITES, links, {1: "a", 2: "b"} if placement is None else placement)


# ------------------------------------------------------------------ routes


def test_the_shortest_way_and_back() -> None:
    """a - b - c and a - c: from a to c directly."""
    joined = network(link("a", "b"), link("c", "b"), placement={1: "a", 2: "b", 3: "c"})
    assert [str(hop) for hop in joined.route(1, 3)] == ["a → b", "b → c"]
    assert [str(hop) for hop in joined.route(3, 1)] == ["c → b", "b → a"]
    triangle = network(*joined.links, link("a", "c"), placement=joined.placement)
    assert [str(hop) for hop in triangle.route(1, 3)] == ["a → c"]


def test_a_link_has_two_directions() -> None:
    lopsided = link(
        latency=Constant(1.0),
        mbit_per_s=10.0,
        loss=0.1,
        back_latency=Constant(2.0),
        back_mbit_per_s=20.0,
        back_loss=0.2,
        queue_bytes=3e4,
        back_queue_bytes=4e4,
    )
    there, back = lopsided.direction("a"), lopsided.direction("b")
    assert (there.source, there.target, back.source, back.target) == ("a", "b", "b", "a")
    assert (there.forward, there.backward) == (Constant(1.0), Constant(2.0))
    assert (back.forward, back.backward) == (Constant(2.0), Constant(1.0))
    assert (there.mbit_per_s, there.loss) == (10.0, 0.1)
    assert (back.mbit_per_s, back.loss) == (20.0, 0.2)
    assert (there.back_loss, back.back_loss) == (0.2, 0.1)
    assert (there.queue_bytes, back.queue_bytes) == (3e4, 4e4)


def test_a_link_is_the_same_both_ways_unless_said() -> None:
    same = link(loss=0.1, queue_bytes=3e4)
    there, back = same.direction("a"), same.direction("b")
    assert replace(back, source="a", target="b") == there


# ------------------------------------------------------------------ ready-made networks


def test_star() -> None:
    star = Network.star(10, 2.5, Uniform(1, 3), service_ms=0.5, loss=0.01)
    assert star.placement == {CLIENT: "client", OPERATOR: "operator", INSTITUTION: "institution"}
    assert [hop.forward for hop in star.route(1, 3)] == [Constant(10), Uniform(1, 3)]
    assert star.sites["gateway"].service_ms == 0.5
    assert all(each.loss == 0.01 for each in star.links)


def test_mesh() -> None:
    mesh = Network.mesh((1, 2, 5), 7, loss=0.1, connection=Connection(cold=True))
    assert all(len(mesh.route(i, j)) == 1 for i in (1, 2, 5) for j in (1, 2, 5) if i != j)
    assert len(mesh.links) == 3
    assert mesh.connection.cold
    assert all(each.loss == 0.1 for each in mesh.links)


def test_preset() -> None:
    near = Network.preset("seoul")
    far = Network.preset("seoul", institution="frankfurt", access="lte")

    def one_way(found: Network, party: int) -> float:
        return sum(hop.forward.mean_ms for hop in found.route(CLIENT, party))

    assert one_way(near, INSTITUTION) < 3
    assert one_way(far, INSTITUTION) > 100
    assert one_way(far, OPERATOR) > one_way(near, OPERATOR)
    assert "frankfurt" in str(far)
    assert Network.preset("seoul", loss=0.02).links[0].loss == 0.02


@pytest.mark.parametrize("region", REGIONS)
def test_every_region_makes_a_network(region: str) -> None:
    made = Network.preset(region, operator=REGIONS[0], gateway=REGIONS[-1])
    assert pickle.loads(pickle.dumps(made)) == made


# ------------------------------------------------------------------ changed copies


# ------------------------------------------------------------------ bad input

STAR = Network.star(1.0, 1.0, 1.0)
BAD = {
    "negative latency": (lambda: link(latency=-1.0), "link a - b: latency"),
    "no latency": (lambda: link(latency="fast"), "link a - b: latency"),
    "latency of a star": (lambda: Network.star(client=-5), "client: latency"),
    "latency of a mesh": (lambda: Network.mesh((1, 2), -1), "latency"),
    "loss of 1": (lambda: link(loss=1.0), "link a - b: loss is 1"),
    "loss NaN": (lambda: link(loss=math.nan), "loss"),
    "loss back of 1": (lambda: link(back_loss=1), "back_loss"),
    "loss of a preset": (lambda: Network.preset("seoul", loss=1), "loss"),
    "no bandwidth": (lambda: link(mbit_per_s=0.0), "mbit_per_s"),
    "negative bandwidth back": (lambda: link(back_mbit_per_s=-1.0), "back_mbit_per_s"),
    "one end": (lambda: link("a", "a"), "two sites"),
    "cpu_factor 0": (lambda: Site("a", cpu_factor=0.0), "site a: cpu_factor"),
    "cpu_factor infinite": (lambda: Site("a", cpu_factor=math.inf), "cpu_factor"),
    "no core": (lambda: Site("a", cores=0), "cores"),
    "negative service": (lambda: Site("a", service_ms=-1.0), "service_ms"),
    "endless service": (lambda: Site("a", service_ms=math.inf), "service_ms"),
    "missing link": (lambda: network(), "no link leads from a to b"),
    "unknown end": (lambda: network(link("a", "bb")), "unknown site 'bb'; did you mean b?"),
    "two links": (lambda: network(link(), link("b", "a")), "link b - a: two links"),
    "party nowhere": (lambda: network(link(), placement={1: "d"}), "party 1: unknown site 'd'"),
    "party 0": (lambda: network(link(), placement={0: "a"}), "party id 0"),
    "misnamed site": (lambda: Network({"a": Site("b")}, (), {}), "site b under the name a"),
    "party without a site": (
        lambda: VirtualRun(toy_parties(100), network(link(), placement={1: "a"})),
        "party 2 has no site",
    ),
    "parties without a site": (lambda: STAR.route(1, 7), "party 7 has no site"),
    "no party": (lambda: VirtualRun([], STAR), "at least one party"),
    "a party twice": (
        lambda: VirtualRun([*toy_parties(100), *toy_parties(100)], STAR),
        "party 1 .* twice",
    ),
    "1 bit/s": (lambda: link(mbit_per_s=1e-6), r"link a - b: mbit_per_s is 1e-06: below 0.001 \(1"),
    "deadline": (lambda: VirtualRun(toy_parties(100), STAR, deadline_ms=-1.0), "deadline_ms"),
    "a preset's typo": (
        lambda: Network.preset("seoul", acces="lte"),  # type: ignore[arg-type]
        "unknown setting of a preset 'acces'; did you mean access",
    ),
    "with an unknown link": (lambda: STAR.with_link("client", "operator"), "no link joins"),
    "with a link elsewhere": (lambda: STAR.with_link("client", "gatway"), "unknown site 'gatway'"),
    "with a link's typo": (lambda: STAR.with_link("client", "gateway", los=1), "did you mean loss"),
    "with a link to a number": (lambda: STAR.with_link(3, 4), "unknown site 3 "),
    "with an unknown site": (lambda: STAR.with_site("clint"), "did you mean client?"),
    "with a site's typo": (lambda: STAR.with_site("client", core=2), "did you mean cores?"),
    "with a connection's typo": (lambda: STAR.with_connection(colt=True), "did you mean cold?"),
    "timeout 0": (lambda: Policy(timeout_ms=0), "timeout_ms"),
    "no attempt": (lambda: Policy(attempts=0), "attempts"),
    "a cheater without a site": (
        lambda: Simulation(STAR, corrupt={9: lambda party: party}).generate("ed25519"),
        "corrupt: party 9 has no site",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_named(case: str) -> None:
    act, text = BAD[case]
    with pytest.raises(UsageError, match=text):
        act()
