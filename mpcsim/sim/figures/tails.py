"""How often something takes longer than so many milliseconds, and whether two distributions agree.

Distributions are told apart by lightness and line; hue is the parties'.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, NullLocator
from numpy.typing import ArrayLike, NDArray

from mpcsim.errors import UsageError
from mpcsim.sim.colours import BLACK, DARK, GREY, LIGHT
from mpcsim.sim.figures.canvas import Chart, add_axes, new_chart
from mpcsim.sim.figures.style import FONT

WIDTH: Final = 9.0
"""Of a figure; sizes are in inches."""
ALONE: Final = 5.6
"""Of a figure with one picture."""
BESIDE: Final = 3
"""Pictures side by side, at most."""
LEFT: Final = 0.65
RIGHT: Final = 0.1
TITLE: Final = 0.3
TAIL: Final = 1.9
SQUARE: Final = 2.25
BELOW: Final = 0.5
"""Room for the numbers and the name of a time axis."""
LEGEND: Final = 0.25
LOWEST: Final = 1e-3
POINTS: Final = 400
DOTS: Final = 60
MARKED: Final = (0.5, 0.95, 0.99)
WIDE: Final = 4.0
"""From this ratio of the longest to the shortest time on, times are on a logarithmic scale."""

Times = NDArray[np.float64]
Style = Mapping[str, Any]

STYLES: Final[tuple[Style, ...]] = (
    {"color": BLACK, "linestyle": "-", "linewidth": 1.3},
    {"color": GREY, "linestyle": "-", "linewidth": 2.2},
    {"color": BLACK, "linestyle": "--", "linewidth": 1.3},
    {"color": GREY, "linestyle": ":", "linewidth": 2.2},
    {"color": BLACK, "linestyle": ":", "linewidth": 1.3},
    {"color": GREY, "linestyle": "--", "linewidth": 2.2},
)
MARKERS: Final[tuple[Style, ...]] = (
    {"marker": "o", "markerfacecolor": BLACK, "markeredgecolor": BLACK},
    {"marker": "o", "markerfacecolor": "none", "markeredgecolor": BLACK},
    {"marker": "s", "markerfacecolor": GREY, "markeredgecolor": GREY},
    {"marker": "s", "markerfacecolor": "none", "markeredgecolor": GREY},
)
REFERENCE: Final[Style] = {"color": LIGHT, "linestyle": "-", "linewidth": 5.0}


def tails(groups: Mapping[str, Mapping[str, ArrayLike]], *, lowest: float = LOWEST) -> Chart:
    """For each group a picture, and in it a curve for each distribution: the share of the times
    that are longer. Its scale is logarithmic, so that what happens one time in a hundred has as
    much room as the rest.

    Args:
        groups: by title and by label, times in milliseconds: samples, or quantiles at levels that
            are evenly spread.
        lowest: share at which the pictures end.

    Raises:
        UsageError: nothing to show, too much, or something that is no positive time.
    """
    shown = {
        title: {label: _times(f"{title}, {label}", given) for label, given in group.items()}
        for title, group in groups.items()
    }
    labels = list(dict.fromkeys(label for group in shown.values() for label in group))
    _check(shown, labels, lowest, len(STYLES))
    rows = math.ceil(len(shown) / BESIDE)
    height = rows * (TITLE + TAIL + BELOW) + LEGEND
    figure = new_chart(WIDTH if len(shown) > 1 else ALONE, height)
    ends = _ends((times for group in shown.values() for times in group.values()), lowest)
    beside = min(BESIDE, len(shown))
    for k, (title, group) in enumerate(shown.items()):
        row, column = divmod(k, BESIDE)
        top = row * (TITLE + TAIL + BELOW) + TITLE
        axes = _axes(figure, column, beside, top, TAIL)
        _tail_axes(axes, ends, lowest, column == 0, "time (ms)")
        axes.set_title(title, fontsize=9, color=BLACK)
        for label, times in group.items():
            axes.plot(*_tail(times, lowest), label=label, **STYLES[labels.index(label)])
    _legend(figure, [(label, STYLES[k]) for k, label in enumerate(labels)])
    return figure


def quantile_plot(
    cases: Mapping[str, Mapping[str, tuple[ArrayLike, ArrayLike]]],
    names: tuple[str, str] = ("reference", "simulated"),
    *,
    lowest: float = LOWEST,
) -> Chart:
    """A column for each case: on top the share of the times that are longer (see ``tails``), of the
    reference as a broad light line and of what is compared with it as a thin one; below the
    quantiles of both against each other, on the diagonal where they agree. Larger marks are at 50,
    95 and 99 %. Where times leave gaps, a share that is off by a hair puts a mark into one of them.

    Args:
        cases: by title and by label, pairs of times in milliseconds, the reference first: samples,
            or quantiles at levels that are evenly spread.
        names: of the reference, and of what is compared with it.
        lowest: share at which the pictures end.

    Raises:
        UsageError: nothing to show, too much, or something that is no positive time.
    """
    shown = {
        title: {
            label: (_times(f"{title}, {label}", one), _times(f"{title}, {label}", other))
            for label, (one, other) in case.items()
        }
        for title, case in cases.items()
    }
    labels = list(dict.fromkeys(label for case in shown.values() for label in case))
    _check(shown, labels, lowest, len(MARKERS), BESIDE)
    height = TITLE + TAIL + BELOW + SQUARE + BELOW + LEGEND
    figure = new_chart(WIDTH if len(shown) > 1 else ALONE, height)
    every = (times for case in shown.values() for pair in case.values() for times in pair)
    ends = _ends(every, lowest)
    reference, ours = names
    for column, (title, case) in enumerate(shown.items()):
        above = _axes(figure, column, len(shown), TITLE, TAIL)
        _tail_axes(above, ends, lowest, column == 0, "time (ms)")
        above.set_title(title, fontsize=9, color=BLACK)
        square = _axes(figure, column, len(shown), TITLE + TAIL + BELOW, SQUARE)
        _square_axes(square, ends, f"{reference} (ms)", f"{ours} (ms)" if column == 0 else "")
        for label, (one, other) in case.items():
            k = labels.index(label)
            above.plot(*_tail(one, lowest), **REFERENCE)
            above.plot(*_tail(other, lowest), **_ours(k))
            levels = 1 - np.geomspace(1, lowest, DOTS)
            for at, size in ((levels, 2.5), (np.array(MARKED), 6.0)):
                square.plot(
                    _quantiles(one, at),
                    _quantiles(other, at),
                    gid=f"quantiles {label}",
                    color=BLACK,
                    linestyle="",
                    markersize=size,
                    markeredgewidth=0.8,
                    **MARKERS[k],
                )
    _legend(
        figure,
        [(reference, REFERENCE)]
        + [
            (f"{ours}, {label}", {**_ours(k), **MARKERS[k], "markersize": 4})
            for k, label in enumerate(labels)
        ],
    )
    return figure


def _ours(k: int) -> Style:
    return {"color": BLACK, "linestyle": ("-", "--", ":", "-.")[k], "linewidth": 1.1}


def _times(what: str, given: ArrayLike) -> Times:
    times = np.sort(np.asarray(given, dtype=np.float64).ravel())
    if not times.size or not np.isfinite(times).all() or times[0] <= 0:
        raise UsageError(f"{what}: no times, or some that are not above 0 and finite")
    return times


def _check(
    shown: Mapping[str, Mapping[str, object]],
    labels: Sequence[str],
    lowest: float,
    most_labels: int,
    most: float = math.inf,
) -> None:
    if not labels:
        raise UsageError("no distribution to show")
    if len(labels) > most_labels or len(shown) > most:
        raise UsageError(
            f"{len(shown)} pictures with {len(labels)} labels: more than can be told apart"
        )
    if not 0 < lowest < 1:
        raise UsageError(f"lowest is {lowest}: not between 0 and 1")


def _ends(every: Iterable[Times], lowest: float) -> tuple[float, float]:
    """What all time axes of a figure show."""
    low, high = math.inf, 0.0
    for times in every:
        low = min(low, float(times[0]))
        high = max(high, float(_quantiles(times, np.array([1 - lowest]))[0]))
    margin = (high / low) ** 0.06 if high / low > 1.01 else 1.01
    return low / margin, high * margin


def _quantiles(times: Times, levels: Times) -> Times:
    """Times themselves, not means of two: there are gaps."""
    return np.quantile(times, levels, method="inverted_cdf")


def _tail(times: Times, lowest: float) -> tuple[Times, Times]:
    shares = np.geomspace(1, lowest, POINTS)
    return _quantiles(times, 1 - shares), shares


def _axes(figure: Chart, column: int, of: int, top: float, height: float) -> Axes:
    whole_width, whole_height = figure.get_size_inches()
    each = (whole_width - 0.1) / of
    left = 0.05 + column * each
    return add_axes(
        figure,
        left + LEFT,
        whole_width - left - each + RIGHT,
        top,
        whole_height - top - height,
    )


def _tail_axes(
    axes: Axes, ends: tuple[float, float], lowest: float, named: bool, times: str
) -> None:
    _time_axis(axes, "x", ends)
    axes.set_yscale("log")
    axes.set_ylim(lowest, 1.15)
    axes.yaxis.set_major_locator(LogLocator(10))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda share, _: f"{100 * share:g} %"))
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.set_xlabel(times, fontsize=FONT, color=DARK)
    if named:
        axes.set_ylabel("take longer", fontsize=FONT, color=DARK)
    _grid(axes)


def _square_axes(axes: Axes, ends: tuple[float, float], x: str, y: str) -> None:
    _time_axis(axes, "x", ends)
    _time_axis(axes, "y", ends)
    axes.set_xlabel(x, fontsize=FONT, color=DARK)
    axes.set_ylabel(y, fontsize=FONT, color=DARK)
    axes.plot(ends, ends, color=GREY, linewidth=0.8)
    _grid(axes)


def _time_axis(axes: Axes, which: Literal["x", "y"], ends: tuple[float, float]) -> None:
    low, high = ends
    axis = axes.xaxis if which == "x" else axes.yaxis
    if high / low >= WIDE:
        axes.set(**{f"{which}scale": "log"})
        axis.set_major_locator(LogLocator(10, subs=(1, 2, 5)))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda ms, _: f"{ms:g}"))
    axes.set(**{f"{which}lim": ends})


def _grid(axes: Axes) -> None:
    axes.grid(color=LIGHT, linewidth=0.5)
    axes.set_axisbelow(True)


def _legend(figure: Chart, entries: Sequence[tuple[str, Style]]) -> None:
    handles = [Line2D([], [], label=label, **style) for label, style in entries]
    figure.legend(
        handles=handles,
        loc="lower left",
        bbox_to_anchor=(LEFT / 2 / figure.get_size_inches()[0], 0),
        ncols=len(handles),
        fontsize=FONT,
        labelcolor=DARK,
        frameon=False,
        handlelength=3,
    )
