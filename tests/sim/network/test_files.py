"""Networks in TOML files: what is written is read again, and errors name the entry."""

from __future__ import annotations

from pathlib import Path

import pytest

from mpcsim import Network
from mpcsim.errors import UsageError
from mpcsim.ids import CLIENT, OPERATOR
from mpcsim.sim.network.bursts import Bursts
from mpcsim.sim.network.latency import (
    Constant,
    Empirical,
    Gamma,
    Latency,
    LogNormal,
    Normal,
    Pareto,
    Uniform,
)
from mpcsim.sim.network.losses import GilbertElliott, TimedGilbertElliott
from tests.helpers.reviewed import check_answers

EACH = [
    Constant(3),
    Uniform(1, 2.5),
    Normal(5, 2, 4),
    LogNormal(9.5, 0.8, 7),
    Gamma(4, 2.5, 1),
    Pareto(3, 2.5, 1),
    Empirical((1.5, 2.0, 0.1)),
    Bursts(tuple(i / 7 for i in range(60)), 5),
]


def saved(network: Network, folder: Path) -> str:
    network.save(folder / "network.toml", "where it is from\nand how")
    return (folder / "network.toml").read_text()


@pytest.mark.parametrize("latency", EACH, ids=lambda each: type(each).__name__)
def test_every_latency_comes_back(latency: Latency, tmp_path: Path) -> None:
    network = Network.star(1.0).with_link("client", "gateway", latency=latency)
    saved(network, tmp_path)
    assert Network.load(tmp_path / "network.toml") == network


@pytest.mark.parametrize(
    "network",
    [
        Network.preset("seoul", institution="frankfurt", access="lte", loss=0.01),
        Network.star(1, Gamma(2.0, 3.0), 4, loss=0.1, service_ms=0.5, name='odd "name"\n\x7fé'),
        Network.mesh((1, 2, 7), 4.0),
        Network.star().with_connection(cold=True, http="2", tls_round_trips=2, resumption=True),
        Network.star().with_link("client", "gateway", back_latency=2.0, back_mbit_per_s=3.0),
        Network.star().with_site("gateway", cores=4, cpu_factor=2.5),
        Network.star(1.0, loss=GilbertElliott(0.01, 0.3, 0.9, 0.001)).with_link(
            "client",
            "gateway",
            queue_bytes=30_000.0,
            back_queue_bytes=1e6,
            back_loss=TimedGilbertElliott(9.0, 1.0, 0.5),
        ),
        Network({}, (), {}),
    ],
    ids=["preset", "odd name", "mesh", "connection", "asymmetric", "site", "losses", "nothing"],
)
def test_every_network_comes_back(network: Network, tmp_path: Path) -> None:
    text = saved(network, tmp_path)
    assert Network.load(tmp_path / "network.toml") == network
    assert text.startswith("# where it is from\n# and how\n")
    saved(Network.load(tmp_path / "network.toml"), tmp_path)
    assert (tmp_path / "network.toml").read_text() == text


def test_what_is_left_out_is_as_in_code(tmp_path: Path) -> None:
    path = tmp_path / "network.toml"
    path.write_text(
        """
        [sites]
        here = {}
        there = {cores = 2}
        [links.line]
        a = "here"
        b = "there"
        latency = 7
        [placement]
        client = "here"
        2 = "there"
        """
    )
    network = Network.load(path)
    assert network.placement == {CLIENT: "here", OPERATOR: "there"}
    assert network.links[0].latency == Constant(7.0)
    assert network.sites["there"].cores == 2
    assert network.connection == Network.star().connection


GOOD = Network.preset("seoul", institution="frankfurt", access="lte", loss=0.01)


def refusal(path: Path) -> str:
    with pytest.raises(UsageError) as refused:
        Network.load(path)
    assert str(refused.value).startswith(str(path))
    return str(refused.value).removeprefix(str(path))


def test_an_error_names_its_entry(tmp_path: Path) -> None:
    text = saved(GOOD, tmp_path)
    path = tmp_path / "bad.toml"

    def said(change: str) -> str:
        old, new = change.replace("\\n", "\n").split(" => ")
        assert old in text
        path.write_text(text.replace(old, new, 1))
        return refusal(path)

    check_answers(said, Path(__file__).with_name("wrong_networks.txt"))


def test_a_path_by_another_way(tmp_path: Path) -> None:
    path = tmp_path / "other.toml"
    links = 'a = "operator"\nb = "gateway"', 'a = "operator"\nb = "institution"'
    path.write_text(saved(GOOD, tmp_path).replace(*links, 1))
    assert Network.load(path).links != GOOD.links


def test_bad_latencies(tmp_path: Path) -> None:
    path = tmp_path / "network.toml"

    def said(latency: str) -> str:
        path.write_text(
            f"""
            sites.here = {{}}
            sites.there = {{}}
            distributions.wi-fi = {{kind = "constant", ms = 3}}
            links.line = {{a = "here", b = "there", latency = {latency}}}
            placement.client = "here"
            """
        )
        return refusal(path)

    check_answers(said, Path(__file__).with_name("wrong_latencies.txt"))


def test_what_is_no_text(tmp_path: Path) -> None:
    path = tmp_path / "network.toml"
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(UsageError, match="is not text in UTF-8"):
        Network.load(path)
    path.write_text("")
    with pytest.raises(UsageError, match="sites: missing"):
        Network.load(path)
    with pytest.raises(FileNotFoundError):
        Network.load(tmp_path / "none.toml")
