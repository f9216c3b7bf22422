"""Sequence diagram of a run: lifelines, and messages as arrows on a time axis."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from textwrap import wrap
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, Rectangle
from matplotlib.transforms import blended_transform_factory

from mpcsim.ids import PartyId
from mpcsim.sim.colours import BLACK, DARK, GREY, PALE, WHITE
from mpcsim.sim.figures.parts.arrows import Arrow, arrow_of, forwarding_sites, labels_of
from mpcsim.sim.figures.parts.canvas import (
    DPI,
    TALLEST,
    add_axes,
    add_title,
    end_of_time_axis,
    new_chart,
    party_colours,
    party_sites,
)
from mpcsim.sim.figures.parts.labels import place_labels
from mpcsim.sim.figures.parts.style import FONT
from mpcsim.sim.rich_display import milliseconds
from mpcsim.sim.traces.records import RunRecord


def sequence_diagram(trace: RunRecord, *, gateway: bool = False) -> Figure:
    """Draw lifelines with the messages between them; time runs downward, to scale.

    Arrows have the colour of their sender and slope with the time the message took; each is
    labelled with the message's kind and size. Dropped and lost messages end in a cross; what
    was sent just before the end hangs below it. Bars on a lifeline are computation. A band begins
    when the first party begins the round.

    >>> figure = sequence_diagram(simulation.sign().trace)

    Args:
        gateway: also show the sites that forward messages, with every hop as an arrow.
    """
    colours, sites = party_colours(trace), party_sites(trace)
    forwarding = forwarding_sites(trace, sites) if gateway else []
    order: list[PartyId | str] = list(colours)
    middle = max(1, len(order) // 2)
    order[middle:middle] = forwarding
    place: dict[PartyId | str, int] = {name: at for at, name in enumerate(order)}

    def drawn(tail_ms: float) -> list[Arrow]:
        found = (arrow_of(trace, m, place, gateway, tail_ms) for m in trace.messages)
        return [arrow for arrow in found if arrow is not None]

    labels = labels_of(drawn(0.0), colours)

    endings = {e.party: e for e in trace.endings}
    feet = {
        i: [e.status, f"{milliseconds(e.at_ms)} ms", *(wrap(e.text, 30)[:5] if e.text else [])]
        for i, e in endings.items()
    }
    foot = 0.2 + 0.125 * max((len(lines) for lines in feet.values()), default=1)
    lines = sum(label.text.count("\n") + 1 for label in labels)
    width = 2.0 + 2.7 * max(1, len(order) - 1) + 0.6
    stubs = Counter[PartyId]()
    for label in labels:
        if label.arrows[0].end == "stub":
            stubs[label.arrows[0].message.sender] += label.text.count("\n") + 1
    tail = 0.3 + 0.16 * max(stubs.values()) if stubs else 0.0
    tall = min(TALLEST - 1.6 - foot - tail, max(2.6, 0.8 + 0.34 * lines))
    figure = new_chart(width, 1.6 + foot + tall + tail)
    top = add_title(figure, trace, "Messages: ") + 0.48
    axes = add_axes(figure, 0.75, 1.15, top, foot)
    end = end_of_time_axis(trace)
    axes.set_xlim(-0.22, max(1, len(order) - 1) + 0.22)
    tail_ms = end * 1.04 * tail / tall
    axes.set_ylim(end * 1.02 + tail_ms, -end * 0.02)
    arrows = drawn(tail_ms)
    labels = labels_of(arrows, colours)
    axes.set_xticks([])
    axes.set_ylabel("time (ms)", fontsize=8.5, color=DARK)

    _shade_rounds(figure, axes, trace, end)
    bar = 0.085 / (figure.get_size_inches()[0] - 1.9) * (axes.get_xlim()[1] - axes.get_xlim()[0])
    for name, x in place.items():
        if isinstance(name, str):
            axes.plot([x, x], [0, end], color=GREY, lw=0.8, ls=(0, (4, 3)), zorder=1)
            head, colour = name, DARK
        else:
            stop = min(endings[name].at_ms, end) if name in endings else end
            axes.plot([x, x], [0, stop], color=DARK, lw=1.1, zorder=1)
            head, colour = f"party {name}\n{sites.get(name, '')}".rstrip(), colours[name]
        axes.annotate(
            head,
            (x, 1),
            (0, 5),
            xycoords=("data", "axes fraction"),
            textcoords="offset points",
            ha="center",
            va="bottom",
            fontsize=8.5,
            fontweight="bold",
            color=colour,
        )
    for work in trace.work:
        if work.end_ms > work.start_ms and work.start_ms < end:
            stop = min(work.end_ms, end)
            axes.add_patch(
                Rectangle(
                    (place[work.party] - bar / 2, work.start_ms),
                    bar,
                    stop - work.start_ms,
                    facecolor=colours[work.party],
                    edgecolor=colours[work.party],
                    lw=0.4,
                    zorder=3,
                    gid=f"work-{work.number}",
                )
            )
    for i, ending in endings.items():
        _mark_ending(axes, place[i], min(ending.at_ms, end), ending.status)
        axes.annotate(
            "\n".join(feet[i]),
            (place[i], 0),
            (0, -6),
            xycoords=("data", "axes fraction"),
            textcoords="offset points",
            ha="center",
            va="top",
            fontsize=FONT,
            color=DARK if ending.status == "done" else BLACK,
        )
    for arrow in arrows:
        _draw_arrow(axes, arrow, colours[arrow.message.sender])
    marks = [w.points[-1] for w in arrows if w.end == "cross"]
    marks += [(place[i], min(ending.at_ms, end)) for i, ending in endings.items()]
    place_labels(figure, axes, labels, arrows, list(place.values()), marks)
    return figure


def _shade_rounds(figure: Figure, axes: Axes, trace: RunRecord, end: float) -> None:
    first: dict[int, tuple[float, str]] = {}
    for work in trace.work:
        if work.round and (work.round not in first or work.start_ms < first[work.round][0]):
            first[work.round] = (work.start_ms, work.name)
    rounds = sorted(first)
    starts = [min(first[r][0], end) for r in rounds] + [end]
    height = 2.3 * FONT / 72 * DPI  # of a label, in pixels
    pixels = axes.transData.transform([(0, (a + b) / 2) for a, b in pairwise(starts)])
    wanted = [-float(y) for _, y in pixels]
    low, high = (-float(y) for y in axes.transAxes.transform([(0, 1), (0, 0)])[:, 1])
    spread = _spread(wanted, height, low + height / 2, high - height / 2)
    for at, number in enumerate(rounds):
        start, stop = starts[at], starts[at + 1]
        if stop > start:
            axes.axhspan(
                start, stop, facecolor=PALE if at % 2 == 0 else WHITE, zorder=0, gid="round"
            )
        y = axes.transData.inverted().transform((0, -spread[at]))[1]
        axes.text(
            1.012,
            float(y),
            f"round {number}\n{first[number][1]}",
            transform=blended_transform_factory(axes.transAxes, axes.transData),
            fontsize=FONT,
            color=DARK,
            va="center",
            linespacing=1.0,
        )


def _spread(wanted: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Return positions close to the wanted ones, in order and at least ``gap`` apart."""
    found: list[float] = []
    for position in wanted:
        found.append(max(position, found[-1] + gap if found else low))
    limit = high
    for at in reversed(range(len(found))):
        found[at] = min(found[at], limit)
        limit = found[at] - gap
    return found


def _mark_ending(axes: Axes, x: float, y: float, status: str) -> None:
    style: dict[str, Any] = {
        "done": {"marker": "o", "color": DARK, "ms": 5},
        "aborted": {"marker": "X", "color": BLACK, "ms": 9},
    }.get(status, {"marker": "o", "color": BLACK, "mfc": WHITE, "mew": 1.5, "ms": 7})
    axes.plot([x], [y], ls="none", zorder=6, clip_on=False, gid=f"ending-{status}", **style)


def _draw_arrow(axes: Axes, arrow: Arrow, colour: str) -> None:
    number, faint = arrow.message.number, arrow.message.fate == "duplicate"
    style = ":" if faint else "-" if arrow.end == "head" else (0, (4, 2))
    strokes = [(a, b) for a, b in pairwise(arrow.points) if a != b]
    for at, (start, stop) in enumerate(strokes):
        headless = arrow.end not in ("head", "stub") and at == len(strokes) - 1
        axes.add_patch(
            FancyArrowPatch(
                start,
                stop,
                arrowstyle="-" if headless or start[0] == stop[0] else "-|>",
                mutation_scale=9,
                shrinkA=0,
                shrinkB=0,
                color=colour,
                linestyle=style,
                lw=1.1,
                zorder=4,
                gid=f"message-{number}-{at}",
            )
        )
    if arrow.end == "cross":
        x, y = arrow.points[-1]
        axes.plot(
            [x], [y], ls="none", marker="x", ms=8, mew=2, color=BLACK, zorder=7,
            gid=f"cross-{number}",
        )  # fmt: skip
