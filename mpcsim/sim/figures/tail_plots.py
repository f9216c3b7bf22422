"""Plots of distributions of times: complementary distribution functions, and quantile plots.

Distributions differ in lightness and dashes; hue is reserved for parties.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from textwrap import wrap
from typing import Final, Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter
from numpy.typing import ArrayLike, NDArray

from mpcsim.errors import UsageError
from mpcsim.sim.colours import BLACK, DARK, GREY, LIGHT
from mpcsim.sim.figures.parts.canvas import Chart, add_axes, new_chart
from mpcsim.sim.figures.parts.legend import add_legend, legend_inches
from mpcsim.sim.figures.parts.scales import WIDE, draw_grid, format_rounded, set_scale
from mpcsim.sim.figures.parts.style import FONT, LINES, MARKERS, Style

WIDTH: Final = 9.0
"""Width of a figure with several axes; sizes are in inches."""
ALONE: Final = 5.6
"""Width of a figure with one pair of axes."""
BESIDE: Final = 3
"""Most axes side by side."""
LEFT: Final = 0.65
RIGHT: Final = 0.1
LEVELS: Final = 0.35
"""Room for the names of the percentiles, at the right end of a row."""
LETTER: Final = 0.078
"""Average width of a letter of a title."""
TAIL: Final = 1.9
SQUARE: Final = 2.25
BELOW: Final = 0.5
"""Room for the numbers and the name of a time axis."""
LOWEST: Final = 1e-3
POINTS: Final = 400
DOTS: Final = 60
MARKED: Final = (0.5, 0.95, 0.99, 0.999)
"""Levels of the percentiles drawn as dots."""

Times = NDArray[np.float64]

REFERENCE: Final[Style] = {"color": LIGHT, "linestyle": "-", "linewidth": 5.0}


def tail_plot(
    groups: Mapping[str, Mapping[str, ArrayLike]],
    *,
    intervals: Mapping[str, Mapping[float, tuple[float, float]]] = {},
    lowest: float = LOWEST,
) -> Chart:
    """Draw axes for each group, with a curve for each distribution: the share of longer times.

    The share's scale is logarithmic, which gives the slowest percent as much room as the rest. Dots
    are at the percentiles 50, 95, 99 and 99.9, as far as the samples suffice: a curve ends where
    fewer than one of its samples takes longer. The dots of a single curve have their times written.

    >>> runs = {loss: graph.replay(network.with_link("client", "gateway", loss=loss), 1_000)
    ...         for loss in (0.0, 0.01)}
    >>> figure = tail_plot({"a signature": {f"{loss:.0%} lost": run.finished_ms
    ...                                 for loss, run in runs.items()}})

    Args:
        groups: by title and by label, times in milliseconds: samples, or quantiles at levels that
            are evenly spread.
        intervals: by label and percentile, the ends of its confidence interval: an error bar.
        lowest: least share on the axes.

    Raises:
        UsageError: nothing to show, too much, or something that is no positive time.
    """
    shown = {
        title: {label: _times(f"{title}, {label}", given) for label, given in group.items()}
        for title, group in groups.items()
    }
    labels = list(dict.fromkeys(label for group in shown.values() for label in group))
    _check(shown, labels, lowest, len(LINES))
    rows = math.ceil(len(shown) / BESIDE)
    beside = min(BESIDE, len(shown))
    width = WIDTH if len(shown) > 1 else ALONE
    lines, title_height = _titles(shown, (width - LEVELS) / beside)
    named = [(label, LINES[k]) for k, label in enumerate(labels)] if len(labels) > 1 else []
    legend = legend_inches([label for label, _ in named], width)
    figure = new_chart(width, rows * (title_height + TAIL + BELOW) + legend)
    single = len(shown) == len(labels) == 1
    every = [times for group in shown.values() for times in group.values()]
    low, high = _axis_limits(every, lowest)
    if single:  # room for what stands beside the last dot
        high *= (high / low) ** 0.25 if high / low >= WIDE else 1 + 0.25 * (1 - low / high)
    for k, (title, group) in enumerate(shown.items()):
        row, column = divmod(k, BESIDE)
        top = row * (title_height + TAIL + BELOW) + title_height
        axes = _axes(figure, column, beside, top, TAIL)
        last = column == beside - 1 or k == len(shown) - 1
        _tail_axes(axes, (low, high), lowest, column == 0, last, "time (ms)")
        axes.set_title(lines[title], fontsize=9, color=BLACK)
        for label, times in group.items():
            style = LINES[labels.index(label)]
            axes.plot(*_tail(times, lowest), label=label, **style)
            _dots(axes, times, lowest, style, label, written=single)
            _error_bars(axes, intervals.get(label, {}), _smallest_share(times, lowest), style)
    add_legend(figure, [Line2D([], [], label=label, **style) for label, style in named])
    return figure


def _titles(groups: Iterable[str], width: float) -> tuple[dict[str, str], float]:
    """Return the titles wrapped to a width, and their height."""
    letters = int((width - 0.2) / LETTER)
    lines = {title: wrap(title, letters) for title in groups}
    most = max((len(each) for each in lines.values()), default=0)
    return {title: "\n".join(each) for title, each in lines.items()}, 0.15 + 0.15 * most


def _dots(axes: Axes, times: Times, lowest: float, style: Style, label: str, written: bool) -> None:
    """Draw the percentiles of a curve as dots, with their times if ``written``."""
    shares = [1 - level for level in MARKED if 1 - level >= _smallest_share(times, lowest)]
    at = _quantiles(times, 1 - np.array(shares))
    axes.plot(
        at, shares, linestyle="", marker="o", markersize=4.5, color=style["color"], zorder=5,
        gid=f"percentiles {label}", clip_on=False,
    )  # fmt: skip
    for ms, share in zip(at if written else (), shares, strict=False):
        axes.annotate(
            f"{format_rounded(ms)} ms", (ms, share), (5, 3), textcoords="offset points",
            fontsize=FONT, color=DARK,
        )  # fmt: skip


def _error_bars(
    axes: Axes, ends: Mapping[float, tuple[float, float]], lowest: float, style: Style
) -> None:
    """Draw intervals of percentiles; an open end is that of the axis."""
    left, right = axes.get_xlim()
    for percent, (low, high) in ends.items():
        if (share := 1 - percent / 100) >= lowest:
            axes.plot(
                [max(left, low), min(right, high)], [share] * 2, color=style["color"], lw=1.0,
                marker="|", markersize=8, zorder=4, gid="interval", clip_on=False,
            )  # fmt: skip


def quantile_plot(
    cases: Mapping[str, Mapping[str, tuple[ArrayLike, ArrayLike]]],
    names: tuple[str, str] = ("reference", "simulated"),
    *,
    lowest: float = LOWEST,
) -> Chart:
    """Compare distributions with a reference: tails above, a quantile-quantile plot below.

    There is one column for each case. Its upper picture is a ``tail_plot``, with the reference as a
    broad light line; the lower one plots the quantiles of both against each other, which lie on the
    diagonal where they agree. Larger marks are at 50, 95 and 99 %. Where times leave gaps, a share
    that is off by a hair puts a mark into one of them.

    >>> pairs = {"all": (measured_ms, graph.replay(network, 1_000).finished_ms)}
    >>> figure = quantile_plot({"a signature": pairs}, ("measured", "replayed"))

    Args:
        cases: by title and by label, pairs of times in milliseconds, the reference first: samples,
            or quantiles at levels that are evenly spread.
        names: legend names of the reference, and of the distribution compared with it.
        lowest: least share on the axes.

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
    reference, ours = names
    width = WIDTH if len(shown) > 1 else ALONE
    lines, title_height = _titles(shown, (width - LEVELS) / len(shown))
    handles = [Line2D([], [], label=reference, **REFERENCE)]
    for k, label in enumerate(labels):
        look = {**MARKERS[k], **_thin_line(k), "markersize": 4}
        handles.append(Line2D([], [], label=f"{ours}, {label}", **look))
    legend = legend_inches([str(handle.get_label()) for handle in handles], width)
    figure = new_chart(width, title_height + TAIL + BELOW + SQUARE + BELOW + legend)
    every = (times for case in shown.values() for pair in case.values() for times in pair)
    ends = _axis_limits(every, lowest)
    for column, (title, case) in enumerate(shown.items()):
        above = _axes(figure, column, len(shown), title_height, TAIL)
        _tail_axes(above, ends, lowest, column == 0, column == len(shown) - 1, "time (ms)")
        above.set_title(lines[title], fontsize=9, color=BLACK)
        square = _axes(figure, column, len(shown), title_height + TAIL + BELOW, SQUARE)
        _square_axes(square, ends, f"{reference} (ms)", f"{ours} (ms)" if column == 0 else "")
        for label, (one, other) in case.items():
            k = labels.index(label)
            above.plot(*_tail(one, lowest), **REFERENCE)
            above.plot(*_tail(other, lowest), **_thin_line(k))
            levels = 1 - np.geomspace(1, lowest, DOTS)
            for at, size in ((levels, 2.5), (np.array(MARKED[:3]), 6.0)):
                square.plot(
                    _quantiles(one, at),
                    _quantiles(other, at),
                    gid=f"quantiles {label}",
                    linestyle="",
                    markersize=size,
                    markeredgewidth=0.8,
                    **MARKERS[k],
                )
    add_legend(figure, handles)
    return figure


def _thin_line(k: int) -> Style:
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


def _axis_limits(every: Iterable[Times], lowest: float) -> tuple[float, float]:
    """Return the limits of all time axes of a figure."""
    low, high = math.inf, 0.0
    for times in every:
        low = min(low, float(times[0]))
        high = max(high, float(_quantiles(times, np.array([1 - lowest]))[0]))
    margin = (high / low) ** 0.06 if high / low > 1.01 else 1.01
    return low / margin, high * margin


def _quantiles(times: Times, levels: Times) -> Times:
    """Return quantiles that are samples, not means of two: there may be gaps."""
    return np.quantile(times, levels, method="inverted_cdf")


def _smallest_share(times: Times, lowest: float) -> float:
    """Return the smallest share that the number of samples can resolve."""
    return max(lowest, 1 / len(times)) * (1 - 1e-9)


def _tail(times: Times, lowest: float) -> tuple[Times, Times]:
    shares = np.geomspace(1, max(lowest, 1 / len(times)), POINTS)
    return _quantiles(times, 1 - shares), shares


def _axes(figure: Chart, column: int, of: int, top: float, height: float) -> Axes:
    whole_width, whole_height = figure.get_size_inches()
    each = (whole_width - 0.05 - LEVELS) / of
    left = 0.05 + column * each
    return add_axes(
        figure,
        left + LEFT,
        whole_width - left - each + RIGHT,
        top,
        whole_height - top - height,
    )


def _tail_axes(
    axes: Axes,
    ends: tuple[float, float],
    lowest: float,
    named: bool,
    levels: bool,
    times: str,
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
    for level in MARKED if levels else ():
        if 1 - level >= lowest * (1 - 1e-9):
            axes.annotate(
                f"p{100 * level:g}", (1, 1 - level), (5, 0), xycoords=("axes fraction", "data"),
                textcoords="offset points", fontsize=FONT, color=DARK, va="center",
            )  # fmt: skip
    draw_grid(axes)


def _square_axes(axes: Axes, ends: tuple[float, float], x: str, y: str) -> None:
    _time_axis(axes, "x", ends)
    _time_axis(axes, "y", ends)
    axes.set_xlabel(x, fontsize=FONT, color=DARK)
    axes.set_ylabel(y, fontsize=FONT, color=DARK)
    axes.plot(ends, ends, color=GREY, linewidth=0.8)
    draw_grid(axes)


def _time_axis(axes: Axes, which: Literal["x", "y"], ends: tuple[float, float]) -> None:
    set_scale(axes, which, "log" if ends[1] >= WIDE * ends[0] else "linear")
    axes.set(**{f"{which}lim": ends})
