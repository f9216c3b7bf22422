"""Deployments in words and as pictures."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from mpcsim import Network
from mpcsim.capacity import Deployment, Part
from mpcsim.errors import UsageError
from mpcsim.sim.figures import Chart, svg
from tests.helpers.pictures import ALLOWED, check_texts, hues
from tests.helpers.reviewed import check_reviewed, rounded
from tests.sim.test_figures_copied import describe

FAR = Network.preset("seoul", institution="frankfurt", access="lte", loss=0.01)
FAST = Network.star(1.0, 2.0, 3.0).with_link("institution", "gateway", back_mbit_per_s=50.0)
DEPLOYMENTS = {
    "one machine": Deployment.on_one_machine(3),
    "far": Deployment(
        FAR,
        Part(4, workers=3),
        Part(4, replicas=3),
        institution=Part(12, speed=1.5, memory_mb=2048),
        caller=Part(1),
    ),
    "many": Deployment(
        FAST,
        Part(32, replicas=8, workers=16),
        Part(16, machine="rack"),
        operator=Part(16, machine="rack", speed=0.5),
    ),
}
EVERY = pytest.mark.parametrize("name", DEPLOYMENTS)


@cache
def picture_of(name: str) -> Chart:
    """The picture of a deployment, drawn once: nobody changes it."""
    return DEPLOYMENTS[name].plot()


def test_words_and_pictures_are_as_they_were_reviewed() -> None:
    found = []
    for name, each in DEPLOYMENTS.items():
        found += [f"# {name}", *str(each).splitlines(), *describe(picture_of(name))]
    check_reviewed(map(rounded, found), Path(__file__).with_name("deployments.txt"))


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
