"""Figures beside a reviewed copy in words: what is drawn, how it looks and where it is."""

from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.axis import Axis
from matplotlib.collections import Collection
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.text import Annotation, Text

from mpcsim.sim import Network, Policy
from mpcsim.sim.figures import measured_links, quantile_plot, sequence_diagram
from mpcsim.sim.network.measured import fit, read
from tests.helpers import figures as page
from tests.helpers.traces import simulation, trace

LOOKS = {
    "color": "#000000", "facecolor": "", "edgecolor": "", "alpha": "None", "linewidth": "1",
    "linestyle": "solid", "hatch": "None", "marker": "None", "markersize": "6",
    "markeredgewidth": "1", "markerfacecolor": "", "arrowstyle": "", "mutation_scale": "1",
    "fontsize": "", "fontweight": "normal", "linespacing": "normal", "ha": "left",
    "va": "baseline", "rotation": "0", "clip_on": "True", "zorder": "",
}  # fmt: skip
"""Properties of artists that can be seen, and the value that is not worth a word."""


def measured() -> Figure:
    ping, mtr = (read(page.MEASURED / name).series[0] for name in ("ping_linux.txt", "mtr.json"))
    return measured_links([fit(ping, "empirical"), fit(mtr)])


def quantiles() -> Figure:
    times = np.geomspace(100.0, 4000.0, 2000)
    return quantile_plot({"1 %": {"first": (times, times * 1.02), "second": (times, times + 9)}})


def waiting() -> Figure:
    """The client's message is at the gateway from 20 ms on, the institution's on its link."""
    network = Network.star(20.0, 5.0, 140.0, service_ms=50.0)
    stopped = simulation(network, policy=Policy(timeout_ms=40.0)).sign(signers=(1, 3))
    return sequence_diagram(stopped.trace, gateway=True)


OF_RUNS = {name: page.every()[name] for name in (
    "sequence_diagram, aborted", "sequence_diagram, with the gateway",
    "gantt, cold connections", "critical_path, cold connections", "data_flow", "steps_diagram",
)}  # fmt: skip
OF_RUNS["sequence_diagram, dropped"] = lambda: sequence_diagram(trace("dropped"))
OF_RUNS["sequence_diagram, waiting"] = waiting
OF_EXPERIMENTS = {name: page.every()[name] for name in (
    "Comparison.plot, two scopes", "Comparison.ranked_bars", "Comparison.stacked_bars",
    "tail_plot", "heat_map, counts", "curves", "curves, steps", "panels", "stacked_bars",
    "gas_chart",
)}  # fmt: skip
OF_EXPERIMENTS |= {"measured_links": measured, "quantile_plot": quantiles}
COPIES = {"figures_of_runs.txt": OF_RUNS, "figures_of_experiments.txt": OF_EXPERIMENTS}


def describe(figure: Figure) -> Iterator[str]:
    """Yield a line for the size, for each axis, and for all artists that look alike.

    Of these come the number, the look, the left lowest, the mean and the right highest point in
    inches, and the texts.
    """
    yield "size {:.2f} {:.2f}".format(*figure.get_size_inches())
    every = [axis for axes in figure.axes for axis in (axes.xaxis, axes.yaxis)]
    yield from (_axis(axis) for axis in every if axis.axes.axison)
    parts_of_axes = {part for axis in every for part in axis.findobj()}
    alike = defaultdict(list)
    for artist in figure.findobj(lambda each: isinstance(each, Line2D | Patch | Text | Collection)):
        if artist not in parts_of_axes and artist.get_visible() and len(where := _points(artist)):
            alike[_look(artist)].append((artist, where / figure.dpi))
    for look, found in alike.items():
        where = np.concatenate([points for _, points in found])
        texts = [f" {artist.get_text()!r}" for artist, _ in found if isinstance(artist, Text)]
        yield f"{len(found)} {look}: {_extent(where)}{''.join(texts)}"


def _axis(axis: Axis) -> str:
    low, high = axis.get_view_interval()
    ticks = [label.get_text() for label in axis.get_ticklabels()]
    said = f"{axis.axis_name} {_look(axis.label)} {axis.label.get_text()!r}"
    looks = {name: value for name, value in axis.get_tick_params().items() if value is not False}
    return f"{said} {axis.get_scale()} {low:.4g}..{high:.4g}, {' '.join(ticks)}, {looks}"


def _extent(where: np.ndarray) -> str:
    points = (where.min(axis=0), where.mean(axis=0), where.max(axis=0))
    return ", ".join(dict.fromkeys(f"{x:.2f} {y:.2f}" for x, y in points))


def _points(artist: Any) -> np.ndarray:
    """Where an artist is, in pixels; nowhere if it shows nothing."""
    if isinstance(artist, Text):
        if not artist.get_text().strip():
            return np.empty((0, 2))
        if isinstance(artist, Annotation):
            return np.array([artist._get_xy(None, artist.xy, artist.xycoords) + artist.xyann])
        return artist.get_transform().transform([artist.get_position()])
    paths = artist.get_paths() if isinstance(artist, Collection) else [artist.get_path()]
    place = artist.get_transform()
    lines = [line for path in paths for line in path.to_polygons(place, closed_only=False)]
    return np.concatenate([np.empty((0, 2)), *lines])


def _look(artist: Any) -> str:
    said = {name: _value(name, getattr(artist, f"get_{name}", str)()) for name in LOOKS}
    looks = [f"{name} {text}" for name, text in said.items() if text not in ("", LOOKS[name])]
    return " ".join([type(artist).__name__, *looks])


def _value(name: str, value: Any) -> str:
    if "color" in name and len(value):
        several = [value] if isinstance(value, str) else np.atleast_2d(value)
        return " ".join(dict.fromkeys(to_hex(each, True).removesuffix("ff") for each in several))
    if name == "arrowstyle" and value:
        return type(value).__name__
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def in_words(name: str, draw: Callable[[], Figure]) -> str:
    return "\n".join((name, *describe(draw())))


@pytest.mark.parametrize(
    ("copy", "name"), [(copy, name) for copy, drawn in COPIES.items() for name in drawn]
)
def test_figures_are_as_written_down(copy: str, name: str) -> None:
    """A change shows in a diff: ``python -m tests.sim.test_figures_copied``."""
    texts = Path(__file__).with_name(copy).read_text("utf-8").split("\n\n")
    written = {text.split("\n")[0]: text for text in texts}
    assert in_words(name, COPIES[copy][name]) == written[name].rstrip()


if __name__ == "__main__":
    for copy, drawn in COPIES.items():
        text = "\n\n".join(in_words(name, draw) for name, draw in drawn.items())
        Path(__file__).with_name(copy).write_text(f"{text}\n", "utf-8")
