"""Deployments in words and as pictures."""

from __future__ import annotations

from functools import cache

import pytest

from mpcsim import Network
from mpcsim.capacity import Deployment, Part
from mpcsim.errors import UsageError
from mpcsim.sim.figures import Chart, svg
from tests.helpers.pictures import ALLOWED, check_texts, hues

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
def picture_of(name: str) -> Chart:
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


@pytest.mark.few(2)
@EVERY
def test_no_text_overlaps_another_or_leaves_the_picture(name: str) -> None:
    figure = picture_of(name)
    check_texts(figure)
    assert hues(figure) <= ALLOWED
    assert svg(figure) == svg(DEPLOYMENTS[name].plot())


def test_too_much_for_a_screen_is_refused() -> None:
    spread = Deployment(node=Part(replicas=3, workers=3), gateway=Part(replicas=3, workers=3))
    assert spread.plot().get_figheight() < 9
    parts = dict.fromkeys(("operator", "institution"), Part(replicas=3, workers=3))
    with pytest.raises(UsageError, match="taller than a screen"):
        Deployment(**parts).plot()
