"""Figures show everything, nothing hides anything, and the colours can be told apart."""

import re
import xml.etree.ElementTree as ET
from base64 import b64decode
from collections.abc import Callable
from cProfile import Profile
from dataclasses import replace
from functools import cache
from io import BytesIO

import pytest
from IPython.core.formatters import DisplayFormatter
from matplotlib import image
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, Rectangle

from mpcsim.sim import Free, Network, Simulation, Trace, Verdict, size
from mpcsim.sim.figures import FILLS, TALLEST, Chart, critical_path, gantt, sequence_diagram
from mpcsim.sim.figures.sequence import _spread
from mpcsim.sim.run import drop
from mpcsim.sim.traces.message_segments import PARTS
from tests.helpers.pictures import box, canvas_of, check_texts, draw, texts
from tests.helpers.traces import NAMES, simulation, trace


def with_gateway(found: Trace) -> Figure:
    return sequence_diagram(found, gateway=True)


@cache
def drawn(kind: Callable[[Trace], Figure], name: str) -> Figure:
    """The figure of a trace, which no test alters."""
    figure = kind(trace(name))
    draw(figure)
    return figure


KINDS = (sequence_diagram, with_gateway, gantt, critical_path)
EVERY = pytest.mark.parametrize("name", NAMES)
EACH = pytest.mark.parametrize(
    "name", [NAMES[0], *(pytest.param(name, marks=pytest.mark.soak) for name in NAMES[1:])]
)
"""Where every kind of figure is drawn of it."""
ALL_KINDS = pytest.mark.parametrize("kind", KINDS)


# ---------------------------------------------------------------------- what holds for every figure


@pytest.mark.parametrize(
    ("kind", "ends"),
    [
        (sequence_diagram, lambda axes: (axes.get_ylabel(), axes.get_ylim())),
        (gantt, lambda axes: (axes.get_xlabel(), axes.get_xlim())),
        (critical_path, lambda axes: (axes.get_xlabel(), axes.get_xlim())),
    ],
)
def test_a_time_axis_has_the_unit_of_its_numbers(kind, ends):
    """A session of half a second ends at 500 on an axis in ms, and at 0.5 on one in s."""
    name = "two-party signature"
    labels = [ends(axes) for axes in drawn(kind, name).axes]
    [(label, limits)] = [each for each in labels if each[0].startswith("time (")]
    of_a_unit = {"time (ms)": 1.0, "time (s)": 1000.0}[label]
    ms = trace(name).finished_ms
    assert 0.99 * ms <= max(limits) * of_a_unit <= 1.5 * ms


@pytest.mark.parametrize("wanted", [(8, 9, 9.5), (9, 9.5, 10), (-1, 8, 12)])
def test_positions_are_spread_between_the_ends(wanted: tuple[float, ...]) -> None:
    found = _spread(wanted, 1, 0, 10)
    assert found == {8: [8, 9, 10], 9: [8, 9, 10], -1: [0, 8, 10]}[int(wanted[0])]


@pytest.mark.few(1)
@EACH
@ALL_KINDS
def test_no_text_overlaps_another_or_leaves_the_figure(
    name: str, kind: Callable[[Trace], Figure]
) -> None:
    check_texts(drawn(kind, name))


def test_every_part_has_a_fill_of_its_own() -> None:
    """By lightness and hatching alone."""
    assert set(PARTS) <= set(FILLS)
    looks = [(fill.shade, fill.hatch, fill.neutral) for fill in FILLS.values()]
    assert len(set(looks)) == len(looks)


@pytest.mark.few(1)
@ALL_KINDS
def test_runs_without_anything_in_them(kind: Callable[[Trace], Figure]) -> None:
    empty = Trace("", "", 0, "free", "virtual", Verdict.STALLED, (), (), (), 0.0)
    draw(kind(empty))
    at_once = Simulation(Network.star(mbit_per_s=float("inf")), compute=simulation().compute)
    draw(kind(at_once.generate().trace))


# ---------------------------------------------------------------------- sequence diagram


def test_the_cross_of_a_dropped_message_lies_between_lifelines() -> None:
    """From party 1 to party 3, with party 2 in the middle."""
    network = Network.star(20.0, 5.0, 140.0)
    faults = (drop("Deal", sender=1, receiver=3), drop("Deal", sender=3, receiver=1))
    found = Simulation(network, compute=Free(), faults=faults).generate("ed25519").trace
    for kind in (sequence_diagram, with_gateway):
        crosses = kind(found).findobj(lambda artist: "cross-" in (artist.get_gid() or ""))
        places = [float(x) for cross in crosses for x in cross.get_xdata()]  # type: ignore[attr-defined]
        assert len(places) == 2
        assert all(x % 1 == 0.5 for x in places)


@pytest.mark.few(2)
@EVERY
@pytest.mark.parametrize("kind", [sequence_diagram, with_gateway])
def test_what_is_sent_near_the_end_has_an_arrow_no_label_hides(
    name: str, kind: Callable[[Trace], Figure]
) -> None:
    """Below the end of the run, where there is little room."""
    found = trace(name)
    figure = drawn(kind, name)
    canvas = canvas_of(figure)
    axes = figure.axes[0]
    hidden = [box(canvas, t) for t in axes.texts if t.get_gid() == "label"]
    late = {m.number for m in found.messages if m.sent_ms > 0.95 * found.finished_ms}
    for arrow in axes.findobj(FancyArrowPatch):
        number = int(str(arrow.get_gid()).split("-")[1])
        start, stop = axes.transData.transform(arrow._posA_posB)  # type: ignore[attr-defined]
        if number not in late or start[0] == stop[0]:
            continue
        way = [start + (stop - start) * share / 100 for share in range(100)]
        assert not any(b.contains(*way[-1]) for b in hidden), f"message {number}: its head"
        seen = sum(not any(b.contains(*point) for b in hidden) for point in way) / 100
        assert seen * abs(stop[0] - start[0]) >= 20, f"message {number}: its shaft"


def test_losses_and_ends_are_visible() -> None:
    crashed = drawn(sequence_diagram, "crashed")
    assert crashed.findobj(lambda artist: "cross-" in (artist.get_gid() or ""))
    assert "(copy)" in "\n".join(t.get_text() for t in texts(drawn(sequence_diagram, "duplicated")))


# ---------------------------------------------------------------------- Gantt, critical path


def bars(axes: Axes, prefix: str) -> list[Rectangle]:
    found = [patch for patch in axes.patches if isinstance(patch, Rectangle)]
    return [patch for patch in found if str(patch.get_gid()).startswith(prefix)]


@pytest.mark.few(4)
@EVERY
def test_bars_of_the_critical_path_add_up(name: str) -> None:
    found = trace(name)
    lanes, total = drawn(critical_path, name).axes
    for axes, prefix in ((lanes, "segment-"), (total, "total-")):
        length = sum(bar.get_width() for bar in bars(axes, prefix))
        assert length == pytest.approx(found.finished_ms, abs=1e-6)
    rows = [t.get_text() for t in lanes.get_yticklabels()]
    assert rows == ["message", *found.critical_path().places]


# ---------------------------------------------------------------------- rich display


@pytest.mark.few(4)
@EVERY
def test_a_trace_in_a_notebook(name: str) -> None:
    html = trace(name)._repr_html_()
    assert trace(name).verdict.value in html
    found = re.search(r'src="data:image/svg\+xml;base64,([^"]+)"', html)
    assert found
    root = ET.fromstring(b64decode(found[1]))
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert "<script" not in html


def test_a_figure_in_a_notebook() -> None:
    """No wider than its frame: JupyterLab would cut an SVG of its own off."""
    figure = drawn(sequence_diagram, "two-party signature")
    assert isinstance(figure, Chart)
    shown, _ = DisplayFormatter().format(figure)
    assert set(shown) == {"text/html", "image/png", "text/plain"}
    (chart,) = re.findall(
        r'^<style>.*</style><img alt="figure" class="mpcsim-figure" style="max-width:100%" '
        r'src="data:image/svg\+xml;base64,([^"]+)">$',
        shown["text/html"],
    )
    assert ET.fromstring(b64decode(chart)).tag.endswith("svg")
    pixels = image.imread(BytesIO(shown["image/png"]))
    width, height = figure.get_size_inches()
    assert pixels.shape[:2] == (round(200 * height), round(200 * width))
    assert figure.dpi == 100


def test_a_network_in_a_notebook() -> None:
    network = Network.preset("seoul", institution="frankfurt").with_connection(cold=True)
    html = network._repr_html_()
    for text in ("client → gateway", "gateway → client", "institution", "opened anew", "seoul"):
        assert text in html


def test_too_many_messages_for_names_and_for_a_diagram() -> None:
    found = trace("key generation")
    many = replace(
        found, messages=tuple(replace(m, number=k) for k, m in enumerate(found.messages * 4))
    )
    figure = gantt(many)
    assert figure.get_figheight() <= TALLEST
    rows = [t.get_text() for t in figure.axes[0].get_yticklabels()]
    assert [row[:7] for row in rows if row] == ["party 1", "party 2", "party 3"]
    html = many._repr_html_()
    assert "too many for a diagram" in html
    assert "<img" not in html


def test_a_result_in_a_notebook() -> None:
    made = simulation()
    assert made.sign()._repr_html_().count("<img") == 1
    result = made.sign()
    html = replace(result, attempts=result.attempts * 2)._repr_html_()
    assert "attempt" in html
    assert html.count("<img") == 1


@pytest.mark.parametrize(
    ("number", "text"), [(1000, "1.0 kB"), (999_949, "999.9 kB"), (999_950, "1.0 MB")]
)
def test_sizes(number: int, text: str) -> None:
    assert size(number) == text


def test_a_large_diagram_costs_calls_in_proportion() -> None:
    found = trace("three-party signature")

    def calls(times: int) -> int:
        messages = [
            replace(
                m, sent_ms=m.sent_ms + at * 500, received_ms=m.sent_ms + at * 500 + 20, work=None
            )
            for at in range(times)
            for m in found.messages
        ]
        many = tuple(replace(m, number=at) for at, m in enumerate(messages))
        made = replace(found, messages=many, work=(), finished_ms=times * 500.0)
        profile = Profile()
        profile.runcall(sequence_diagram, made)
        return sum(each.callcount for each in profile.getstats())

    assert calls(4) < 3 * calls(2)
