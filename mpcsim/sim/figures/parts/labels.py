"""Placement of labels in a sequence diagram: greedy, by a cost of overlaps and distance."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from math import copysign
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.transforms import Bbox

from mpcsim.sim.colours import BLACK, WHITE
from mpcsim.sim.figures.parts.arrows import Arrow, Label
from mpcsim.sim.figures.parts.canvas import text_bounds
from mpcsim.sim.figures.parts.style import FONT


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
    taken: list[Bbox] = []
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
        best: tuple[float, float, float, float, float] | None = None
        for stroke in strokes[id(label.arrows[0])]:
            for anchor_x, y, x, aside in _spots(label.arrows[0], stroke, wide):
                for lift in range(-14, 15):
                    shift = lift * high / 2
                    cost = aside + (1.5 + abs(lift) if lift else 0)
                    if best is not None and cost >= best[0]:
                        continue
                    here = Bbox.from_bounds(x - wide / 2, y + shift - high / 2, wide, high)
                    if not _inside(here, frame) or any(here.overlaps(b) for b in taken):
                        continue
                    if any(here.padded(5).contains(*mark) for mark in kept_clear):
                        continue
                    cost += 2.5 * sum(here.x0 - 3 < c < here.x1 + 3 for c in columns)
                    cost += 1.0 * sum(_crosses(a, b, here) for a, b in others)
                    if best is None or cost < best[0]:
                        best = (cost, x, y + shift, anchor_x, y)
        if best is None:
            text.remove()
            left_out += 1
            continue
        _, x, y, anchor_x, anchor_y = best
        to_data = axes.transData.inverted()
        data_x, data_y = to_data.transform((x, y))
        text.set_position((float(data_x), float(data_y)))
        taken.append(Bbox.from_bounds(x - wide / 2, y - high / 2, wide, high))
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


def _inside(box: Bbox, frame: Bbox) -> bool:
    return bool(frame.x0 <= box.x0 <= box.x1 <= frame.x1) and bool(
        frame.y0 <= box.y0 <= box.y1 <= frame.y1
    )


def _crosses(start: Any, stop: Any, box: Bbox) -> bool:
    """Return whether a straight line meets a box (Liang and Barsky's clipping)."""
    enter, leave = 0.0, 1.0
    for a, b, low, high in (
        (start[0], stop[0], box.x0, box.x1),
        (start[1], stop[1], box.y0, box.y1),
    ):
        run = b - a
        if run == 0:
            if not low <= a <= high:
                return False
            continue
        near, far = sorted(((low - a) / run, (high - a) / run))
        enter, leave = max(enter, near), min(leave, far)
    return enter <= leave
