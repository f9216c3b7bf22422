"""The wallet's network out of measured links: which link goes where, and what is assumed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from mpcsim import Network
from mpcsim.errors import UsageError
from mpcsim.sim.network.latency import Constant, Empirical
from mpcsim.sim.network.measured import Fit, assemble_network, fit, read
from mpcsim.sim.network.measured.network_assembly import AssembledNetwork, role_sites
from tests.vectors.network import make

FOLDER = Path(make.__file__).parent
LOADED = FOLDER / "network.toml"


def fits(name: str, **how: object) -> Sequence[Fit]:
    return [fit(each, **how) for each in read(FOLDER / name).series]  # type: ignore[arg-type]


def assembled(name: str, **asked: str) -> AssembledNetwork:
    return assemble_network(fits(name), asked)


@pytest.mark.parametrize(
    ("pairs", "asked", "expected"),
    [
        ([("client", "gateway")], {}, "client gateway gateway gateway"),
        ([("home", "node")], {}, "home node node node"),
        ([("home", "node")], {"client": "node", "gateway": "home"}, "node home home home"),
        ([("home", "node")], {"client": "node"}, "node home home home"),
        ([("operator", "gateway")], {}, "gateway gateway operator gateway"),
        ([("x", "y"), ("y", "z")], {"client": "x", "gateway": "y"}, "x y y y"),
        ([("x", "y"), ("y", "z")], {"client": "x", "gateway": "y", "institution": "z"}, "x y y z"),
    ],
)
def test_places(pairs: list[tuple[str, str]], asked: dict[str, str], expected: str) -> None:
    found = role_sites(pairs, asked)
    roles = ("client", "gateway", "operator", "institution")
    assert " ".join(found[role] for role in roles) == expected


def test_places_that_are_not_clear() -> None:
    pairs = [("x", "y"), ("y", "z")]
    with pytest.raises(UsageError, match=r"where is the client\? There are several pairs: say --c"):
        role_sites(pairs, {"gateway": "y"})
    with pytest.raises(UsageError, match="client: unknown site 'w'"):
        role_sites(pairs, {"client": "w", "gateway": "y"})
    with pytest.raises(UsageError, match="unknown role 'gatway'; did you mean gateway"):
        role_sites(pairs, {"gatway": "x"})


def test_a_link_that_nobody_measured() -> None:
    pairs = fits("regions.csv")
    some = [each for each in pairs if {each.series.a, each.series.b} != {"seoul", "virginia"}]
    with pytest.raises(UsageError, match=r"nothing was measured between seoul \(client\) and virg"):
        assemble_network(some, {"client": "seoul", "gateway": "virginia"})


def test_regions() -> None:
    made = assembled("regions.csv", client="seoul", gateway="virginia", institution="frankfurt")
    means = {link.a: link.latency.mean_ms for link in made.network.links}
    assert means == pytest.approx({"client": 90, "operator": 0.45, "institution": 46.5}, rel=0.02)
    assert len(made.fits) == 3


def test_rates_losses_and_handshakes() -> None:
    link = assembled("iperf3.json").network.links[0]
    assert (link.mbit_per_s, link.loss) == pytest.approx((43.1, 40 / 75449), rel=1e-4)
    assert assembled("calls.har").network.connection.tls_round_trips == 1
    made = assemble_network(fits("hping3.txt"), mbit_per_s=20)
    assert made.network.links[0].mbit_per_s == 20
    assert not any("Mbit/s" in text for text in made.assumptions)


def test_the_way_back_is_that_of_the_measurement() -> None:
    """Measured from the gateway: what exceeds the floor is on the way to the client."""
    measured = read(FOLDER / "hping3.txt").series[0].with_ends("gateway", "client")
    made = assemble_network(
        [fit(measured, "empirical")], {"client": "client", "gateway": "gateway"}
    )
    (link, *_) = made.network.links
    assert isinstance(link.latency, Constant)
    assert isinstance(link.back_latency, Empirical)


def test_a_rate_of_one_way_is_said_to_hold_for_the_other_unless_that_is_given() -> None:
    measured = read(FOLDER / "hping3.txt").series[0].with_ends("gateway", "client")
    one_way = replace(measured, back_mbit_per_s=43.1, segment_loss=0.02)
    at = {"client": "client", "gateway": "gateway"}
    taken = assemble_network([fit(one_way, "empirical")], at)
    assert "43.1 Mbit/s, measured one way, the other way as well" in "; ".join(taken.assumptions)
    assert "client - gateway loses 2.00%, sent one way, the other way as well" in taken.assumptions
    assert "each way takes half of a round trip" not in taken.assumptions
    assert "ms there and" in taken.assumptions[0]
    (link, *_) = assemble_network([fit(one_way, "empirical")], at, mbit_per_s=500.0).network.links
    rates = {link.mbit_per_s, link.back_mbit_per_s}
    assert rates == {43.1, 500.0}


def test_one_way_times_of_both_directions_are_taken_as_they_are(tmp_path: Path) -> None:
    """9 ms there on average and 30 back, where a tenth is lost."""
    path = tmp_path / "ways.csv"
    rows = (f"client,gateway,{8 + n % 3}\ngateway,client,{30 if n % 10 else -1}" for n in range(90))
    path.write_text("\n".join(["from,to,one_way_ms", *rows]))
    made = assemble_network([fit(each, "empirical") for each in read(path).series])
    link = made.network.links[0]
    means = [link.direction(end).forward.mean_ms for end in ("client", "gateway")]
    assert means == pytest.approx([9.0, 30.0])
    assert (link.loss, link.back_loss) == pytest.approx((0.0, 0.1))
    assert len(made.fits) == 2
    assert "the way back takes what was measured one way" not in made.assumptions


# ------------------------------------------------------------------ the network in the repository


def test_the_network_is_what_its_program_makes() -> None:
    committed, made = Network.load(LOADED), assemble_network(fits("pairs.csv")).network
    assert [(link.a, link.b, link.loss) for link in made.links] == [
        (link.a, link.b, link.loss) for link in committed.links
    ]
    for ours, theirs in zip(made.links, committed.links, strict=True):
        assert ours.latency.mean_ms == pytest.approx(theirs.latency.mean_ms, rel=1e-3)
        assert ours.latency.std_ms == pytest.approx(theirs.latency.std_ms, rel=0.02)
