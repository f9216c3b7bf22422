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


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("sigma = 0.7", "sigma = 50", "links.client-gateway.latency.sigma: latency sigma is 50.0"),
        ("sigma = 0.7", "sigma = 'x'", "links.client-gateway.latency.sigma: 'x' is not a number"),
        ("sigma = 0.7", "sgma = 1", "links.client-gateway.latency.sgma: unknown key 'sgma'; did "),
        ('"log-normal"', '"lognormal"', "links.client-gateway.latency.kind: unknown kind"),
        ('kind = "log-normal"', "", "links.client-gateway.latency.kind: missing"),
        ('b = "gateway"', 'b = "gatway"', "links.client-gateway.b: unknown site 'gatway'; did you"),
        ('b = "gateway"', 'b = "client"', "links.client-gateway: link client - client: a link"),
        ('a = "operator"', 'a = "client"', "links.operator-gateway: joins the same sites as links"),
        ('a = "operator"\nb = "gateway"', 'a = "operator"\nb = "institution"', ""),
        ('a = "institution"\nb = "gateway"', 'a = "operator"\nb = "client"', "links: none leads"),
        ("loss = 0.01", "loss = 1.5", "links.client-gateway.loss: link client - gateway: loss is"),
        ("loss = 0.01", "loss = true", "links.client-gateway.loss: True is not a number"),
        ("loss = 0.01", "loss = []", "links.client-gateway.loss: [] is not a table"),
        ("loss = 0.01", "loss = {to_bad = 0.1}", "links.client-gateway.loss.to_good: missing"),
        ("loss = 0.01", "loss = {to_bad = 2, to_good = 0.5}", "loss.to_bad: to_bad is 2.0: not"),
        ("queue_bytes = inf", "queue_bytes = -1", "links.client-gateway.queue_bytes: link client"),
        ("cores = 1", "cores = 1.5", "sites.client.cores: 1.5 is not a whole number"),
        ('http = "1.1"', "http = 1.1", "connection.http: 1.1 is not a text"),
        ("cold = false", "cold = 0", "connection.cold: 0 is neither true nor false"),
        ("early_data = false", "early_data = true", "connection: connection early_data needs"),
        ('operator = "operator"', 'operater = "operator"', "placement.operater: 'operater' is no"),
        ('operator = "operator"', 'operator = "moon"', "placement.operator: unknown site 'moon'"),
        ("[connection]", "[conection]", "conection: unknown entry 'conection'; did you mean conn"),
        ("[sites.client]", "[sites]\nclient = 3\n[x]", "x: unknown entry"),
        ("name = ", "name == ", " is not TOML: "),
    ],
)
def test_an_error_names_its_entry(old: str, new: str, message: str, tmp_path: Path) -> None:
    text = saved(GOOD, tmp_path)
    assert old in text
    path = tmp_path / "bad.toml"
    path.write_text(text.replace(old, new, 1))
    if not message:  # a path by another way
        Network.load(path)
        return
    with pytest.raises(UsageError) as refused:
        Network.load(path)
    assert str(refused.value).startswith(str(path))
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("latency", "message"),
    [
        ('"wifi"', "links.line.latency: unknown distribution 'wifi'; did you mean wi-fi"),
        ("-3", "links.line.latency: latency ms is -3"),
        ("true", "links.line.latency: True is neither milliseconds, nor a name, nor a table"),
        ('{kind = "empirical", samples_ms = [1, -2]}', "line.latency.samples_ms[1]: latency sampl"),
        ('{kind = "empirical", samples_ms = 1}', "links.line.latency.samples_ms: 1 is not a list"),
        ('{kind = "bursts", samples_ms = [1, 2], block = 3}', "latency.block: latency block is 3"),
    ],
)
def test_bad_latencies(latency: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "network.toml"
    path.write_text(
        f"""
        sites.here = {{}}
        sites.there = {{}}
        distributions.wi-fi = {{kind = "constant", ms = 3}}
        links.line = {{a = "here", b = "there", latency = {latency}}}
        placement.client = "here"
        """
    )
    with pytest.raises(UsageError) as refused:
        Network.load(path)
    assert message in str(refused.value)


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
