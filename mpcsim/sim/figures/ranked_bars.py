"""Ranked bar chart: a bar for each name, the longest first."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import chain
from typing import Final

from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle

from mpcsim.errors import UsageError
from mpcsim.ids import PartyId
from mpcsim.sim.colours import BLACK, DARK, WHITE, party_colour, tint
from mpcsim.sim.figures.parts.canvas import Chart, add_axes, add_heading, new_chart, row_height
from mpcsim.sim.figures.parts.legend import add_legend, legend_inches
from mpcsim.sim.figures.parts.scales import draw_grid, format_rounded, set_scale
from mpcsim.sim.figures.parts.style import FONT, LETTER, Style

WIDTH: Final = 6.8
ROW: Final = 0.27
"""Sizes are in inches."""
SHADE: Final = 0.45
_DOT: Final[Style] = {
    "linestyle": "", "marker": "o", "markersize": 4.5, "markerfacecolor": WHITE,
    "markeredgecolor": BLACK, "color": BLACK,
}  # fmt: skip


def ranked_bars(
    values: Mapping[str, float],
    *,
    dots: Mapping[str, float] | None = None,
    names: tuple[str, str] = ("", ""),
    notes: Mapping[str, str] | None = None,
    intervals: Mapping[str, tuple[float, float]] = {},
    parties: Mapping[str, PartyId] | None = None,
    x: str = "time (ms)",
    title: str = "",
) -> Chart:
    """Draw bars from zero, the largest on top; negative values extend to the left.

    >>> saved_ms = {"institution to tokyo": 666.9, "caller on fibre": 72.4}
    >>> figure = ranked_bars(saved_ms, x="saved (ms)")

    Args:
        values: the lengths of the bars.
        dots: second value of each name, drawn as a dot.
        names: legend names of the values and of the dots.
        notes: text behind each bar; the value by default.
        intervals: ends of the error bar on each bar; one with an open end is left out.
        parties: party of each bar, which gives the colour.

    Raises:
        UsageError: nothing to rank, or more than fits on a screen.
    """
    if not values:
        raise UsageError("nothing to rank")
    known = {name: ends for name, ends in intervals.items() if all(map(math.isfinite, ends))}
    order = sorted(values, key=lambda name: (-values[name], name))
    behind = notes or {name: format_rounded(value) for name, value in values.items()}
    handles = []
    if dots is not None:
        bar = Patch(facecolor=tint(DARK, SHADE), edgecolor=DARK, lw=0.5, label=names[0])
        handles = [bar, Line2D([], [], **_DOT, label=names[1])]
    legend = legend_inches([str(handle.get_label()) for handle in handles], WIDTH)
    top, bottom = (0.4 if title else 0.1), 0.5 + legend
    each = row_height(len(order), ROW, top + bottom, "bars")
    figure = new_chart(WIDTH, top + each * len(order) + bottom)
    add_heading(figure, title)
    left = 0.2 + LETTER * max(map(len, order))
    right = 0.25 + LETTER * max(len(behind.get(name, "")) for name in order)
    axes = add_axes(figure, left, right, top, bottom)
    every = [0.0, *values.values(), *(dots or {}).values(), *chain(*known.values())]
    low, high = min(every), max(every)
    margin = 0.03 * (high - low or 1.0)
    axes.set_xlim(low - (margin if low < 0 else 0), high + margin)
    axes.set_ylim(len(order) - 0.5, -0.5)
    set_scale(axes, "x", "linear")
    draw_grid(axes, "x")
    if low < 0:
        axes.axvline(0, color=DARK, lw=0.8, zorder=4)
    for row, name in enumerate(order):
        party = (parties or {}).get(name)
        ink = DARK if party is None else party_colour(party).line
        axes.add_patch(
            Rectangle(
                (0, row - 0.32), values[name], 0.64, facecolor=tint(ink, SHADE), edgecolor=ink,
                lw=0.5, zorder=3, gid=f"bar {name}",
            )
        )  # fmt: skip
        if name in known:
            axes.plot(
                known[name], [row] * 2, color=BLACK, lw=1.0, marker="|", zorder=4, gid="interval"
            )
        if dots is not None and name in dots:
            axes.plot([dots[name]], [row], **_DOT, zorder=5, gid=f"dot {name}")
        axes.annotate(
            behind.get(name, ""), (1, row), (5, 0), xycoords=("axes fraction", "data"),
            textcoords="offset points", fontsize=FONT, color=DARK, va="center",
        )  # fmt: skip
    axes.set_yticks(range(len(order)), order)
    axes.tick_params(axis="y", length=0)
    axes.set_xlabel(x, fontsize=FONT, color=DARK)
    add_legend(figure, handles)
    return figure
