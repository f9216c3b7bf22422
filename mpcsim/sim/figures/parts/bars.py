"""Bars along a time axis, and the legend of their fills."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle

from mpcsim.sim.colours import BLACK, DARK
from mpcsim.sim.figures.parts.canvas import text_bounds
from mpcsim.sim.figures.parts.style import FILLS, FONT, Fill
from mpcsim.sim.traces.message_segments import Segment


def draw_bar(
    axes: Axes,
    row: float,
    height: float,
    start: float,
    stop: float,
    *,
    fill: Fill,
    gid: str,
    ink: str = DARK,
) -> None:
    """Draw one bar, in a party's colour."""
    box = (start, row - height / 2), stop - start, height
    axes.add_patch(Rectangle(*box, **fill.patch(ink), zorder=3, gid=gid))


def draw_segment(
    axes: Axes, row: float, height: float, segment: Segment, end: float, *, ink: str, gid: str
) -> None:
    """Draw the parts of a segment side by side, up to the end of the axis, in a party's colour."""
    now = segment.start_ms
    for part, ms in segment.parts.items():
        if ms > 0 and now < end:
            stop = min(now + ms, end)
            draw_bar(axes, row, height, now, stop, fill=FILLS[part], gid=f"{gid}-{part}", ink=ink)
        now += ms


def write_inside(
    figure: Figure, axes: Axes, row: float, start: float, stop: float, texts: Sequence[str]
) -> bool:
    """Write the first of the texts that fits into a bar; return whether one did."""
    left, right = (float(x) for x, _ in axes.transData.transform([(start, 0), (stop, 0)]))
    for text in texts:
        made = axes.text(
            (start + stop) / 2,
            row,
            text,
            fontsize=FONT,
            color=BLACK,
            ha="center",
            va="center_baseline",
            zorder=8,
            gid="label",
        )
        if text_bounds(figure, made).width + 6 <= right - left:
            return True
        made.remove()
    return False


def legend_handles(
    kinds: Iterable[str],
    texts: Mapping[str, str] | None = None,
    fills: Mapping[str, Fill] = FILLS,
) -> list[Patch | Line2D]:
    """Return legend handles for the fills and marks in use."""
    used = set(kinds)
    handles: list[Patch | Line2D] = [
        Patch(**fill.patch(), label=(texts or {}).get(kind, fill.name))
        for kind, fill in fills.items()
        if kind in used
    ]
    handles += [
        Line2D([], [], ls="none", marker=marker, ms=7, mew=1.5, color=BLACK, label=text)
        for kind, marker, text in (("cross", "x", "lost"), ("aborted", "X", "aborted"))
        if kind in used
    ]
    return handles
