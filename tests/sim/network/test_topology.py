"""Networks: routes, ready-made ones, changed copies; bad input is named before anything runs."""

import math
import pickle
from dataclasses import replace
from pathlib import Path

import pytest

from mpcsim import sim
from mpcsim.sim import Connection, Link, Network, Site
from mpcsim.sim.network import REGIONS
from mpcsim.sim.network.latency import Constant, Uniform
from mpcsim.sim.network.topology import CLIENT, INSTITUTION, OPERATOR
from mpcsim.sim.run import engine
from tests.helpers import toy
from tests.helpers.reviewed import check_calls

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


# ------------------------------------------------------------------ bad input


def test_bad_input_is_named() -> None:
    star = Network.star(1.0, 1.0, 1.0)
    names = {"link": link, "network": network, "STAR": star, "math": math}
    copy = Path(__file__).with_name("wrong_topologies.txt")
    check_calls(copy, sim, engine, toy, **names)
