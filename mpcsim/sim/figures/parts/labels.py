"""Placement of labels in a sequence diagram: greedy, by a cost of overlaps and distance."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from math import copysign
from typing import Any, Final

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.transforms import Bbox
from numpy.typing import NDArray

from mpcsim.sim.colours import BLACK, WHITE
from mpcsim.sim.figures.parts.arrows import Arrow, Label
from mpcsim.sim.figures.parts.canvas import text_bounds
from mpcsim.sim.figures.parts.style import FONT

_LIFTS: Final = range(-14, 15)
"""Shifts of a label above or below its arrow, in halves of its height."""
_TOGETHER: Final = 64
"""Number of places whose crossings with arrows are counted at a time."""


def place_labels(
    figure: Figure,
    axes: Axes,
    labels: Sequence[Label],
    arrows: Sequence[Arrow],
    lifelines: Sequence[int],
    marks: Sequence[tuple[float, float]],
) -> None:
    """Write every label on or near its arrow, where it hides no other label or mark."""
    frame = axes.get_window_extent()
    crosses = [axes.transData.transform(mark) for mark in marks]
    strokes = {
        id(arrow): [
            (axes.transData.transform(a), axes.transData.transform(b))
            for a, b in pairwise(arrow.points)
        ]
        for arrow in arrows
    }
    heads = {id(arrow): strokes[id(arrow)][-1][1] for arrow in arrows if arrow.end == "stub"}
    columns = [float(axes.transData.transform((x, 0))[0]) for x in lifelines]
    taken: list[tuple[float, float, float, float]] = []
    left_out = 0

    def length(label: Label) -> float:
        return max(float(abs(b[0] - a[0])) for arrow in label.arrows for a, b in strokes[id(arrow)])

    for label in sorted(labels, key=length):
        text = axes.text(
            0,
            0,
            label.text,
            fontsize=FONT,
            color=BLACK,
            ha="center",
            va="center",
            linespacing=1.05,
            zorder=8,
            gid="label",
            bbox={"boxstyle": "square,pad=0.15", "fc": WHITE, "ec": label.colour, "lw": 0.6},
        )
        box = text_bounds(figure, text)
        wide, high = box.width + 2, box.height + 2
        own = {id(arrow) for arrow in label.arrows}
        others = [s for key, found in strokes.items() if key not in own for s in found]
        kept_clear = crosses + [head for key, head in heads.items() if key not in own]
        spots = [
            (anchor_x, y, x, aside)
            for stroke in strokes[id(label.arrows[0])]
            for anchor_x, y, x, aside in _spots(label.arrows[0], stroke, wide)
        ]
        best = _cheapest(
            spots,
            wide,
            high,
            frame=frame,
            taken=taken,
            kept_clear=kept_clear,
            columns=columns,
            others=others,
        )
        if best is None:
            text.remove()
            left_out += 1
            continue
        x, y, anchor_x, anchor_y = best
        to_data = axes.transData.inverted()
        data_x, data_y = to_data.transform((x, y))
        text.set_position((float(data_x), float(data_y)))
        taken.append((x - wide / 2, y - high / 2, x + wide / 2, y + high / 2))
        if abs(y - anchor_y) > high / 2 + 1:
            edge = y + (high / 2 if anchor_y > y else -high / 2)
            ends = to_data.transform([(x, edge), (anchor_x, anchor_y)])
            axes.plot(ends[:, 0], ends[:, 1], color=label.colour, lw=0.5, zorder=5, gid="leader")
    if left_out:
        axes.annotate(
            f"{left_out} label{'s have' if left_out > 1 else ' has'} no room",
            (0, 0),
            (2, 3),
            xycoords="axes fraction",
            textcoords="offset points",
            fontsize=FONT,
            color=BLACK,
        )


def _spots(arrow: Arrow, stroke: Any, wide: float) -> Iterator[tuple[float, float, float, float]]:
    """Yield candidate anchors on an arrow, the label's centre there, and the cost."""
    (x0, y0), (x1, y1) = stroke
    if arrow.end == "stub":  # too short for a label on it: points at its label
        yield x1, y1, x1 + copysign(wide / 2, x1 - x0), 0.0
    elif abs(x1 - x0) >= 4:
        for step in range(2, 39):
            share = step / 40
            x, y = x0 + share * (x1 - x0), y0 + share * (y1 - y0)
            yield x, y, x, abs(share - 0.5)


def _cheapest(
    spots: Sequence[tuple[float, float, float, float]],
    wide: float,
    high: float,
    *,
    frame: Bbox,
    taken: Sequence[tuple[float, float, float, float]],
    kept_clear: Sequence[Any],
    columns: Sequence[float],
    others: Sequence[Any],
) -> tuple[float, float, float, float] | None:
    """Return the cheapest free place of a label: its centre, and its anchor on the arrow.

    All spots, each with all lifts, are looked at together, in arrays: a label costs about as many
    Python calls in a large diagram as in a small one.
    """
    if not spots:
        return None
    anchor_x, anchor_y, x, aside = (np.repeat(each, len(_LIFTS)) for each in np.array(spots).T)
    lift = np.tile(_LIFTS, len(spots))
    y = anchor_y + lift * high / 2
    cost = aside + np.where(lift == 0, 0.0, 1.5 + np.abs(lift))
    x0, y0 = x - wide / 2, y - high / 2
    x1, y1 = x0 + wide, y0 + high
    free = (frame.x0 <= x0) & (x1 <= frame.x1) & (frame.y0 <= y0) & (y1 <= frame.y1)
    for blocked in (
        np.array(taken).reshape(-1, 4),
        np.array([(*mark - 5, *mark + 5) for mark in kept_clear]).reshape(-1, 4),
    ):
        left, low, right, top = blocked.T[:, :, None]
        free &= ~((x0 <= right) & (left <= x1) & (y0 <= top) & (low <= y1)).any(axis=0)
    at = np.flatnonzero(free)
    lines = np.array(columns)[:, None]
    cost[at] += 2.5 * ((x0[at] - 3 < lines) & (lines < x1[at] + 3)).sum(axis=0)
    at = at[np.argsort(cost[at], kind="stable")]
    segments = np.array(others).reshape(-1, 4)
    best: tuple[float, int] | None = None
    for some in np.split(at, range(_TOGETHER, len(at), _TOGETHER)):
        if not len(some) or (best is not None and cost[some[0]] > best[0]):
            break
        boxes = np.stack((x0[some], y0[some], x1[some], y1[some]))
        total = cost[some] + _crossings(segments, boxes)
        lowest = float(total.min())
        found = (lowest, int(some[total == lowest].min()))
        best = found if best is None else min(best, found)
    if best is None:
        return None
    chosen = best[1]
    return float(x[chosen]), float(y[chosen]), float(anchor_x[chosen]), float(anchor_y[chosen])


def _crossings(segments: NDArray[Any], boxes: NDArray[Any]) -> NDArray[Any]:
    """Return how many straight lines meet each box (Liang and Barsky's clipping)."""
    enter, leave = np.zeros((2, len(segments), boxes.shape[1]))
    leave += 1
    for axis in (0, 1):
        start, low, high = segments[:, axis, None], boxes[axis], boxes[axis + 2]
        run = segments[:, axis + 2, None] - start
        with np.errstate(divide="ignore", invalid="ignore"):
            one, other = (low - start) / run, (high - start) / run
        level = np.where((low <= start) & (start <= high), np.inf, -np.inf)
        enter = np.maximum(enter, np.where(run == 0, -level, np.minimum(one, other)))
        leave = np.minimum(leave, np.where(run == 0, level, np.maximum(one, other)))
    return np.asarray((enter <= leave).sum(axis=0))
