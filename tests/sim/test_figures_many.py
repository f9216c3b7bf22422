"""Figures of what comes out of experiments: what they show, and the rules that hold for all."""

from __future__ import annotations

import doctest
import inspect
import math
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from types import FunctionType
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.text import Text

import mpcsim.sim as sim
from mpcsim.sim import figures
from mpcsim.sim.call_times import CallTimes
from mpcsim.sim.experiments.compare import Comparison
from mpcsim.sim.figures import TALLEST, heat_map, ranked_bars, svg
from mpcsim.sim.figures.parts.scales import scale_of
from mpcsim.sim.network.measured import fit, read
from mpcsim.sim.replay import Explanation, Replay
from tests.helpers import figures as page
from tests.helpers.pictures import ALLOWED, check_texts, hues, written
from tests.helpers.reviewed import check_calls
from tests.helpers.traces import simulation

DRAWN = page.of_many() | page.of_traces()
EVERY = pytest.mark.parametrize("name", DRAWN)
OF_PARTIES = {
    *("Explanation.plot", "curves", "stacked_bars", "stacked_bars, every cause", "data_flow"),
    *("Deployment.plot", *page.of_traces()),
}
"""Figures in which parties have their colours; the others are grey."""


KINDS = {n for n in figures.__all__ if isinstance(getattr(figures, n), FunctionType)}
KINDS -= {"html", "new_chart", "party_colour", "svg", "tint"}


@cache
def drawn(name: str) -> Figure:
    """A figure that no test alters."""
    return DRAWN[name]()


def bars(axes: Axes, prefix: str = "") -> dict[str, Rectangle]:
    found = {str(patch.get_gid()): patch for patch in axes.patches if isinstance(patch, Rectangle)}
    return {gid: patch for gid, patch in found.items() if gid.startswith(prefix)}


# ---------------------------------------------------------------------- what holds for every figure


@pytest.mark.few(6)
@EVERY
def test_no_text_overlaps_another_or_leaves_the_figure(name: str) -> None:
    check_texts(drawn(name))


@pytest.mark.few(6)
@EVERY
def test_hue_is_the_parties(name: str) -> None:
    assert hues(drawn(name)) <= ALLOWED
    if name not in OF_PARTIES:
        assert not hues(drawn(name))


@pytest.mark.few(6)
@EVERY
def test_nothing_is_taller_than_a_screen(name: str) -> None:
    assert drawn(name).get_figheight() <= TALLEST


@pytest.mark.few(3)
@EVERY
def test_the_same_data_give_the_same_picture(name: str) -> None:
    assert svg(drawn(name)) == svg(DRAWN[name]())


@pytest.mark.parametrize(
    "documented",
    [
        *(getattr(figures, name) for name in sorted(KINDS)),
        *(Replay.plot, CallTimes.plot, Explanation.plot),
        *(Comparison.plot, Comparison.ranked_bars, Comparison.stacked_bars),
        sim.compare,
        inspect.getmodule(Comparison),
    ],
    ids=lambda each: getattr(each, "__qualname__", getattr(each, "__name__", "")),
)
def test_examples(documented: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those in the docstrings run."""
    monkeypatch.chdir(page.MEASURED)
    lte, graph = page.replayed(), page.signature()
    names: dict[str, Any] = {n: getattr(sim, n) for n in sim.__all__}
    names |= {n: getattr(figures, n) for n in figures.__all__} | {"fit": fit, "read": read}
    names |= {"simulation": simulation(), "network": page.LTE, "lte": lte, "graph": graph}
    names |= {"fibre": page.replayed(access="fibre"), "measured_ms": lte.finished_ms, "sign": None}
    names["service"] = Repeating()
    with ThreadPoolExecutor(1) as threads:
        names["threads"] = threads
        found = doctest.DocTestParser().get_doctest(documented.__doc__, names, "it", None, 0)
        assert found.examples
        runner = doctest.DocTestRunner(verbose=False)
        assert runner.run(found).failed == 0


class Repeating:
    """In the place of a service, which would take seconds."""

    def repeat(self, call: object, times: int) -> CallTimes:
        return page.calls()


# ---------------------------------------------------------------------- what cannot be shown


def test_what_cannot_be_shown_is_refused() -> None:
    cube = pd.DataFrame(
        [(a, b, c, a + b) for a in (1, 2) for b in (1, 2) for c in "xy"],
        columns=["a", "b", "c", "elapsed_ms"],
    )
    cube.attrs["parameters"] = ["a", "b", "c"]
    names = {"CUBE": cube, "NEAR": np.linspace(100.0, 140.0, 2000), "pd": pd}
    check_calls(Path(__file__).with_name("wrong_figures.txt"), figures, math, **names)
    assert len(cells(heat_map(cube[cube["c"] == "x"], "a", "b"))) == 4
    assert ranked_bars({str(k): float(k) for k in range(50)}).get_figheight() <= TALLEST


# ---------------------------------------------------------------------- heat map


def cells(figure: Figure) -> dict[tuple[int, int], tuple[str, float]]:
    """Text and darkness by row and column."""
    axes = figure.axes[0]
    said = {t.get_position(): t.get_text() for t in axes.texts if isinstance(t, Text)}
    found = {}
    for gid, cell in bars(axes, "cell").items():
        row, column = map(int, gid.split("-")[1:])
        found[row, column] = said[column, row], 1 - cell.get_facecolor()[0]
    return found


def test_a_sweep_as_a_heat_map() -> None:
    table = page.swept()
    figure = heat_map(table, "network", "institution")
    found = cells(figure)
    medians = table.groupby(["network", "institution"])["elapsed_ms"].median()
    for r, network in enumerate(("seoul", "frankfurt")):
        for c, institution in enumerate(("tokyo", "virginia", "saopaulo")):
            assert found[r, c][0] == f"{medians[network, institution]:,.1f}"
    assert "median elapsed (ms): network down, institution across" in written(figure)


def test_values_that_differ_late_have_cells_of_their_own() -> None:
    rows = [(per_s, "x", ms) for per_s, ms in ((1000.001, 1.0), (1000.002, 3.0))]
    table = pd.DataFrame(rows, columns=["per_s", "b", "elapsed_ms"])
    assert [text for text, _ in cells(heat_map(table, "per_s", "b")).values()] == ["1", "3"]


# ---------------------------------------------------------------------- curves


@pytest.mark.parametrize(
    ("values", "scale"),
    [
        ([1, 2, 20], "linear"),
        ([0, 5, 20], "linear"),
        ([1, 10, 100], "log"),
        (range(129), "linear"),
        ([0, 0.01, 5], "symlog"),
        ([-1, 0.01, 5], "linear"),
        ([0, 0], "linear"),
    ],
)
def test_scales(values: Iterable[float], scale: str) -> None:
    assert scale_of(np.array(list(values), dtype=float)) == scale


def test_every_figure_is_on_the_page() -> None:
    methods = {"Replay.plot", "CallTimes.plot", "Explanation.plot"}
    methods |= {f"Comparison.{n}" for n in ("plot", "ranked_bars", "stacked_bars")} | {
        "Deployment.plot"
    }
    names = {name.partition(",")[0] for name in page.every()}
    assert KINDS | methods <= names
