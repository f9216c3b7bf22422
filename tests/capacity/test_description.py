"""Deployments in words and as pictures."""

from __future__ import annotations

import re
from functools import cache

import pytest
from matplotlib.patches import Rectangle

from mpcsim.capacity.deployment import Deployment
from mpcsim.capacity.model import Part
from mpcsim.capacity.picture import MACHINE
from mpcsim.errors import UsageError
from mpcsim.sim import Network
from mpcsim.sim.figures import Chart, svg
from tests.helpers.pictures import ALLOWED, check_texts, hues, written

FAR = Network.preset("seoul", institution="frankfurt", access="lte", loss=0.01)
DEPLOYMENTS = {
    "one machine": Deployment.on_one_machine(),
    "far": Deployment(
        FAR, Part(4, replicas=2), institution=Part(8, speed=1.5, memory_mb=2048), caller=Part(1)
    ),
    "workers": Deployment(FAR, Part(4, replicas=2, workers=3), Part(4, workers=2)),
    "many": Deployment(
        Network.star(1.0, 2.0, 3.0),
        Part(32, replicas=8, workers=16),
        operator=Part(machine="rack"),
        institution=Part(machine="rack"),
    ),
}
EVERY = pytest.mark.parametrize("name", DEPLOYMENTS)


@cache
def drawn(name: str) -> Chart:
    """The picture of a deployment, drawn once: nobody changes it."""
    return DEPLOYMENTS[name].plot()


def test_who_is_on_which_machine() -> None:
    (only,) = Deployment.on_one_machine(3).machines
    assert (only.cores, [part for part, _ in only.replicas]) == (
        3,
        ["caller", "node", "gateway", "operator", "institution"],
    )
    machines = {each.name: each.replicas for each in DEPLOYMENTS["many"].machines}
    assert list(machines) == [*(f"node {n}" for n in range(1, 9)), "gateway 1", "rack"]
    assert machines["rack"] == (("operator", 1), ("institution", 1))


def test_who_is_at_which_site() -> None:
    assert DEPLOYMENTS["far"].sites == {
        "caller": "client",
        "node": "client",
        "gateway": "gateway",
        "operator": "operator",
        "institution": "institution",
    }
    meshed = Deployment(Network.mesh(3, 5.0)).sites
    assert meshed["gateway"] == meshed["node"]


def test_a_deployment_in_words() -> None:
    said = str(DEPLOYMENTS["workers"])
    assert said.startswith("Deployment over seoul (lte)")
    rows = dict(re.findall(r"^  (\w+) +(\d+ +\d+ +.+)$", said, re.MULTILINE))
    assert rows["node"].split()[:2] == ["2", "3"]
    assert rows["gateway"].split()[:2] == ["1", "2"]
    assert "client → gateway" in said  # its directions differ
    assert "operator - gateway" in said
    assert "1 call; others are refused" in said
    assert "left out on purpose: single callbacks of event loops, reads of databases" in said
    assert "extrapolated, since the real service is not so: gateway: 2 processes" in said
    many = str(DEPLOYMENTS["many"])
    assert "on one machine, rack (2 cores): operator, institution" in many
    assert "extrapolated" not in many
    html = DEPLOYMENTS["workers"]._repr_html_()
    assert html.count("<table") == 3
    assert "gateway: 2 processes" in html


@pytest.mark.few(2)
@EVERY
def test_no_text_overlaps_another_or_leaves_the_picture(name: str) -> None:
    figure = drawn(name)
    check_texts(figure)
    assert hues(figure) <= ALLOWED
    assert svg(figure) == svg(DEPLOYMENTS[name].plot())


@pytest.mark.parametrize(("name", "boxes"), [("one machine", 1), ("far", 6), ("many", 3 + 2)])
def test_every_machine_is_a_box_with_its_processes(name: str, boxes: int) -> None:
    """Of the eight nodes, one is drawn, with two behind it."""
    figure = drawn(name)
    (axes,) = figure.axes
    machines = [
        patch
        for patch in axes.patches
        if isinstance(patch, Rectangle) and patch.get_width() == MACHINE
    ]
    assert len(machines) == boxes
    texts = written(figure)
    if name == "many":
        assert {"node 1 to 8, each", "node 1.1 to 1.16", "32 cores"} <= set(texts)
    else:
        for machine in DEPLOYMENTS[name].machines:
            for part, replica in machine.replicas:
                assert f"{part} {replica}.1" in texts


def test_links_have_their_latency_and_processes_that_are_not_there_are_dashed() -> None:
    figure = drawn("workers")
    assert {"17 ms\n7.6/29.5 Mbit/s\nloss 1.00%", "0.4 ms", "116 ms"} <= set(written(figure))
    dashed = [patch for patch in figure.axes[0].patches if patch.get_linestyle() == "--"]
    assert len(dashed) == 2
    assert any("Dashed" in text for text in written(figure))
    assert not any("Dashed" in text for text in written(drawn("far")))


def test_too_much_for_a_screen_is_refused() -> None:
    spread = Deployment(node=Part(replicas=3, workers=3), gateway=Part(replicas=3, workers=3))
    assert spread.plot().get_figheight() < 9
    parts = dict.fromkeys(("operator", "institution"), Part(replicas=3, workers=3))
    with pytest.raises(UsageError, match="taller than a screen"):
        Deployment(**parts).plot()
