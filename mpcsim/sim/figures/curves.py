"""Line charts: one quantity over another as lines, steps and points."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypedDict, Unpack

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from numpy.typing import ArrayLike, NDArray

from mpcsim.errors import UsageError
from mpcsim.ids import PartyId
from mpcsim.sim.colours import DARK, GREY, LIGHT, PALE, party_colour
from mpcsim.sim.figures.parts.canvas import Chart, add_axes, add_heading, new_chart, text_bounds
from mpcsim.sim.figures.parts.legend import add_legend, legend_inches
from mpcsim.sim.figures.parts.scales import Scale, draw_grid, scale_of, set_scale
from mpcsim.sim.figures.parts.style import FONT, LETTER, LINES, MARKERS, Style

WIDTH: Final = 6.4
TALL: Final = 2.9
"""Height of the axes; sizes are in inches."""
PANEL: Final = 1.35
"""Height of one of several axes."""
GAP: Final = 0.15
"""Room between them."""
NAME: Final = 0.15
"""Height of a name above the axes."""

Points = tuple[ArrayLike, ArrayLike]
Values = NDArray[np.float64]


class Marks(TypedDict, total=False):
    """Options of ``curves``: reference lines and shaded intervals."""

    across: Mapping[str, float] | None
    """Heights with a dotted line, by name."""
    along: Mapping[str, float] | None
    """Values of x with a dotted line, by name."""
    faint: Sequence[Points]
    """Lines without a name, behind the others."""
    shaded: Sequence[tuple[float, float]]
    """Stretches of x with a grey ground."""


def curves(
    lines: Mapping[str, Points],
    *,
    x: str,
    y: str,
    title: str = "",
    steps: bool = False,
    dots: Mapping[str, Points] | None = None,
    parties: Mapping[str, PartyId] | None = None,
    x_scale: Scale | None = None,
    y_scale: Scale | None = None,
    **marks: Unpack[Marks],
) -> Chart:
    """Draw a line for each name.

    An axis whose values are magnitudes apart is logarithmic, and symlog if there is a zero among
    them: small losses have room beside none at all.

    >>> losses = [0, 0.01, 0.1, 1]
    >>> figure = curves({"99 %": (losses, [170, 172, 250, 460])}, x="loss (%)", y="time (ms)")

    Args:
        lines: by name, the values of x and those of y.
        x: label of the horizontal axis, with its unit.
        y: label of the vertical axis, with its unit.
        title: by default what is shown over what.
        steps: draw steps: a value holds until the next one.
        dots: by name, points without a line.
        parties: the party of a line or of points, which gives the colour.
        x_scale, y_scale: scales, in place of those chosen as above.
        marks: the fields of ``Marks``: ``across``, ``along``, ``faint``, ``shaded``.

    Raises:
        UsageError: nothing to show, a line with unequal numbers of values, or too many lines to
            tell apart.
    """
    if unknown := marks.keys() - Marks.__annotations__.keys():
        raise TypeError(f"curves has no argument {min(unknown)!r}")
    across, along = marks.get("across"), marks.get("along")
    faint, shaded = marks.get("faint", ()), marks.get("shaded", ())
    drawn = {name: _points(name, given) for name, given in lines.items()}
    points = {name: _points(name, given) for name, given in (dots or {}).items()}
    behind = [_points("a faint line", given) for given in faint]
    every = [*drawn.values(), *points.values(), *behind]
    if not every:
        raise UsageError("no line to show")
    owned = parties or {}
    styles = _styles(list(drawn), LINES, owned)
    symbols = _styles(list(points), MARKERS, owned)
    handles = [Line2D([], [], label=name, **style) for name, style in styles.items()]
    handles += [
        Line2D([], [], label=name, linestyle="", markersize=6, **style)
        for name, style in symbols.items()
    ]
    if len(handles) == 1:
        handles = []
    title = title or f"{_without_unit(y).capitalize()} against {_without_unit(x)}"
    legend = legend_inches([str(handle.get_label()) for handle in handles], WIDTH)
    names = along or {}
    heads = 0.0 if not names else NAME * min(3, len(names)) + 0.08
    top, bottom = 0.38 + heads, 0.5 + legend
    figure = new_chart(WIDTH, top + TALL + bottom)
    add_heading(figure, title)
    right = 0.25 + LETTER * max((len(name) for name in across or {}), default=0)
    axes = add_axes(figure, 0.85, right, top, bottom)
    for at, more in ((0, names), (1, across or {})):
        values = np.concatenate([each[at] for each in every] + [np.array(list(more.values()))])
        _set_axis(axes, ("x", "y")[at], values, (x_scale, y_scale)[at])
    for xs, ys in behind:
        axes.plot(xs, ys, color=LIGHT, linewidth=1.0, zorder=2, gid="faint")
    for start, stop in shaded:
        axes.axvspan(start, stop, facecolor=PALE, zorder=0, gid="shaded")
    how = "steps-post" if steps else "default"
    for name, (xs, ys) in drawn.items():
        axes.plot(xs, ys, label=name, drawstyle=how, zorder=3, **styles[name])
    for name, (xs, ys) in points.items():
        axes.plot(xs, ys, label=name, linestyle="", markersize=6, zorder=5, **symbols[name])
    for name, height in (across or {}).items():
        axes.axhline(height, color=GREY, linestyle=":", linewidth=1.0, zorder=2)
        axes.annotate(
            name, (1, height), (5, 0), xycoords=("axes fraction", "data"),
            textcoords="offset points", fontsize=FONT, color=DARK, va="center",
        )  # fmt: skip
    _name_along(figure, axes, names)
    draw_grid(axes)
    axes.set_xlabel(x, fontsize=FONT, color=DARK)
    axes.set_ylabel(y, fontsize=FONT, color=DARK)
    add_legend(figure, handles)
    return figure


def panels(
    groups: Mapping[str, Mapping[str, Points]],
    *,
    x: str,
    title: str = "",
    shaded: Sequence[tuple[float, float]] = (),
) -> Chart:
    """Draw lines of several quantities over the same x, one pair of axes for each unit.

    >>> at = [0, 1, 2]
    >>> figure = panels({"latency (ms)": {"p50": (at, [5, 6, 9])},
    ...                  "calls": {"in flight": (at, [1, 1, 2])}}, x="time (s)")

    Args:
        groups: by the label of the vertical axis, lines by name, as of ``curves``.
        x, title, shaded: as of ``curves``.

    Raises:
        UsageError: as of ``curves``.
    """
    drawn = {
        y: {name: _points(name, given) for name, given in lines.items()}
        for y, lines in groups.items()
        if lines
    }
    if not drawn:
        raise UsageError("no line to show")
    styles = _styles([name for lines in drawn.values() for name in lines], LINES, {})
    handles = [Line2D([], [], label=name, **style) for name, style in styles.items()]
    legend = legend_inches(list(styles), WIDTH)
    top, bottom = 0.38 if title else 0.12, 0.5 + legend
    figure = new_chart(WIDTH, top + len(drawn) * (PANEL + GAP) - GAP + bottom)
    add_heading(figure, title)
    every_x = np.concatenate([xs for lines in drawn.values() for xs, _ in lines.values()])
    for row, (y, lines) in enumerate(drawn.items()):
        below = (len(drawn) - 1 - row) * (PANEL + GAP)
        axes = add_axes(figure, 0.85, 0.25, top + row * (PANEL + GAP), bottom + below)
        _set_axis(axes, "x", every_x, None)
        _set_axis(axes, "y", np.concatenate([ys for _, ys in lines.values()]), None)
        for start, stop in shaded:
            axes.axvspan(start, stop, facecolor=PALE, zorder=0, gid="shaded")
        for name, (xs, ys) in lines.items():
            axes.plot(xs, ys, label=name, zorder=3, **styles[name])
        draw_grid(axes)
        axes.set_ylabel(y, fontsize=FONT, color=DARK)
        axes.tick_params(labelbottom=not below)
    axes.set_xlabel(x, fontsize=FONT, color=DARK)
    add_legend(figure, handles)
    return figure


def _without_unit(label: str) -> str:
    return label.rpartition(" (")[0] or label


def _points(name: str, given: Points) -> tuple[Values, Values]:
    xs, ys = (np.asarray(each, dtype=np.float64).ravel() for each in given)
    if len(xs) != len(ys) or not len(xs):
        raise UsageError(f"{name}: {len(xs)} values of x and {len(ys)} of y")
    return xs, ys


def _styles(
    names: Sequence[str], looks: Sequence[Style], parties: Mapping[str, PartyId]
) -> dict[str, Style]:
    """Return a style for each name: its party's colour, or the next neutral style."""
    free = [name for name in names if name not in parties]
    if len(free) > len(looks):
        raise UsageError(f"{len(free)} lines or kinds of points: more than can be told apart")
    found: dict[str, Style] = dict(zip(free, looks, strict=False))
    for name in set(names) - set(free):
        ink = party_colour(parties[name]).line
        own: dict[str, Any] = {"color": ink, "linewidth": 1.6}
        if looks is MARKERS:
            own = {"marker": "o", "color": ink}
        found[name] = own
    return {name: found[name] for name in names}


def _set_axis(axes: Axes, which: Any, values: Values, wanted: Scale | None) -> None:
    values = values[np.isfinite(values)]
    scale = wanted or scale_of(values)
    smallest = float(values[values > 0].min()) if scale != "linear" else 1.0
    set_scale(axes, which, scale, smallest)
    low, high = float(values.min()), float(values.max())
    if scale == "log":
        margin = (high / low) ** 0.03
        ends = low / margin, high * margin
    elif scale == "symlog":
        ends = -0.15 * smallest, high * 1.15
    else:
        margin = 0.04 * (high - low or abs(high) or 1.0)
        floor = which == "y" and 0 <= low < 0.5 * high
        ends = (0.0 if floor and low > 0 else low - margin), high + margin
    (axes.set_xlim if which == "x" else axes.set_ylim)(*ends)


def _name_along(figure: Figure, axes: Axes, names: Mapping[str, float]) -> None:
    """Write the names of dotted lines above the axes, where they do not overlap."""
    taken: list[tuple[int, float, float]] = []
    for name, at in sorted(names.items(), key=lambda item: item[1]):
        axes.axvline(at, color=GREY, linestyle=":", linewidth=1.0, zorder=2)
        for line in range(3):
            text = axes.annotate(
                name, (at, 1), (0, 3 + 72 * NAME * line), xycoords=("data", "axes fraction"),
                textcoords="offset points", fontsize=FONT, color=DARK, ha="center",
            )  # fmt: skip
            box = text_bounds(figure, text)
            if all(k != line or box.x0 > x1 + 6 or box.x1 < x0 - 6 for k, x0, x1 in taken):
                taken.append((line, box.x0, box.x1))
                break
            text.remove()
