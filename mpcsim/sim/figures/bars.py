"""Bars along a time axis, and the legend of what their colours mean."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle

from mpcsim.sim.colours import BLACK, DARK, GREY, VERMILLION
from mpcsim.sim.figures.canvas import extent
from mpcsim.sim.figures.style import FILLS, FONT
from mpcsim.sim.traces.flight import Segment

LEGEND_COLUMNS = 4


def draw_bar(
    axes: Axes, row: float, height: float, start: float, stop: float, *, kind: str, gid: str
) -> None:
    """One bar, filled as ``FILLS`` says of its kind."""
    fill = FILLS[kind]
    axes.add_patch(
        Rectangle(
            (start, row - height / 2),
            stop - start,
            height,
            facecolor=fill.face,
            edgecolor=GREY if fill.hatch else fill.face,
            hatch=fill.hatch or None,
            lw=0.4,
            zorder=3,
            gid=gid,
        )
    )


def draw_segment(
    axes: Axes, row: float, height: float, segment: Segment, end: float, gid: str
) -> None:
    """The parts of a segment side by side, up to the end of the axis."""
    now = segment.start_ms
    for part, ms in segment.parts.items():
        if ms > 0 and now < end:
            draw_bar(axes, row, height, now, min(now + ms, end), kind=part, gid=f"{gid}-{part}")
        now += ms


def write_inside(
    figure: Figure, axes: Axes, row: float, start: float, stop: float, texts: Sequence[str]
) -> bool:
    """Write the first of the texts that fits into a bar; whether one did."""
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
        if extent(figure, made).width + 6 <= right - left:
            return True
        made.remove()
    return False


def add_legend(
    figure: Figure, kinds: Iterable[str], texts: Mapping[str, str] | None = None
) -> None:
    """What the colours mean, at the bottom."""
    used = set(kinds)
    handles: list[Patch | Line2D] = [
        Patch(
            facecolor=fill.face,
            edgecolor=GREY if fill.hatch else fill.face,
            hatch=fill.hatch or None,
            label=(texts or {}).get(kind, fill.name),
        )
        for kind, fill in FILLS.items()
        if kind in used
    ]
    if "cross" in used:
        handles.append(
            Line2D([], [], ls="none", marker="x", ms=7, mew=2, color=VERMILLION, label="lost")
        )
    if "aborted" in used:
        handles.append(
            Line2D([], [], ls="none", marker="X", ms=8, color=VERMILLION, label="aborted")
        )
    if handles:
        figure.legend(
            handles=handles,
            loc="lower center",
            ncols=min(LEGEND_COLUMNS, len(handles)),
            fontsize=FONT,
            labelcolor=DARK,
            frameon=False,
            handlelength=1.4,
            columnspacing=1.4,
        )


def legend_inches(count: int) -> float:
    """Height of a legend with so many entries."""
    return 0.12 + 0.17 * -(-count // LEGEND_COLUMNS)
