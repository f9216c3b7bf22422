"""Figure of a run's critical path: its segments by place, and its time by part."""

from __future__ import annotations

from itertools import pairwise
from typing import Final

from matplotlib.figure import Figure

from mpcsim.sim.colours import DARK, LIGHT
from mpcsim.sim.figures.parts.bars import draw_bar, draw_segment, legend_handles, write_inside
from mpcsim.sim.figures.parts.canvas import TALLEST, add_axes, add_title, new_chart, party_colours
from mpcsim.sim.figures.parts.legend import add_legend, legend_inches
from mpcsim.sim.figures.parts.style import FILLS, FONT, LETTER
from mpcsim.sim.rich_display import milliseconds
from mpcsim.sim.traces import critical_path as critical_paths
from mpcsim.sim.traces.records import RunRecord

WIDTH: Final = 9.5
"""Width of the figure in inches."""


def critical_path(trace: RunRecord) -> Figure:
    """Draw a run's critical path, place by place, and its total by part.

    Above, one lane per party and link with the segments of the critical path in order of time, in
    the colour of the party that computed or sent; the rightmost numbers are each place's total.
    Below, the same time by part, in grey.

    >>> figure = critical_path(simulation.sign().trace)
    """
    path = critical_paths.critical_path(trace)
    end = path.total_ms or 1.0
    places = path.places
    parts = {part: ms for part, ms in path.parts.items() if ms}
    shares = {
        part: f"{FILLS[part].name}: {milliseconds(ms)} ms ({ms / path.total_ms:.1%})"
        for part, ms in parts.items()
    }
    legend = legend_inches(list(shares.values()), WIDTH)
    lanes = 0.27 * (len(places) + 1) + 0.1
    below = 0.85 + legend
    lanes = min(lanes, TALLEST - 1.25 - below)
    figure = new_chart(WIDTH, 0.75 + lanes + 0.5 + below)
    top = add_title(figure, trace, "Critical path: ") + 0.1
    left = 0.35 + LETTER * max((len(where) for where in places), default=8)
    axes = add_axes(figure, left, 1.35, top, 0.5 + below - 0.2)
    total = add_axes(figure, left, 1.35, top + lanes + 0.42, legend + 0.5)
    rows = {where: at + 1 for at, where in enumerate(places)}
    axes.set_ylim(len(rows) + 0.6, -0.6)
    axes.set_yticks([0, *rows.values()], ["message", *rows])
    axes.tick_params(axis="y", length=0)
    axes.tick_params(axis="x", labelbottom=False)
    for each in (axes, total):
        each.set_xlim(0, end)
        each.grid(axis="x", color=LIGHT, lw=0.6, zorder=0)
        each.set_axisbelow(True)

    colours = party_colours(trace)
    for at, segment in enumerate(path.segments):
        party = segment.party
        if segment.message is not None:
            party = trace.messages[segment.message].sender
        ink = DARK if party is None else colours[party]
        draw_segment(axes, rows[segment.where], 0.6, segment, end, ink=ink, gid=f"segment-{at}")
    for before, after in pairwise(path.segments):
        x = after.start_ms
        axes.plot(
            [x, x], [rows[before.where], rows[after.where]], color=DARK, lw=0.6, ls=":", zorder=2
        )
    for number in path.messages:
        own = [s for s in path.segments if s.message == number]
        start, stop = own[0].start_ms, own[-1].end_ms
        inset = min(end / 250, (stop - start) / 4)
        ends = [start + inset, stop - inset]
        axes.plot(ends, [0.42, 0.42], color=DARK, lw=1.2, solid_capstyle="butt", zorder=3)
        message = trace.messages[number]
        texts = (own[0].what, message.kind, f"{message.sender}→{message.receiver}")
        write_inside(figure, axes, 0, start, stop, texts)
    for where, row in rows.items():
        share = f" ({places[where] / path.total_ms:.0%})" if path.total_ms else ""
        axes.annotate(
            f"{milliseconds(places[where])} ms{share}",
            (1, row),
            (4, 0),
            xycoords=("axes fraction", "data"),
            textcoords="offset points",
            fontsize=FONT,
            color=DARK,
            va="center",
        )

    total.set_ylim(0.5, -0.5)
    total.set_yticks([0], ["total"])
    total.tick_params(axis="y", length=0)
    total.set_xlabel("time (ms)", fontsize=8.5, color=DARK)
    now = 0.0
    for part, ms in parts.items():
        draw_bar(total, 0, 0.7, now, now + ms, fill=FILLS[part], gid=f"total-{part}")
        now += ms
    total.annotate(
        f"{milliseconds(path.total_ms)} ms",
        (1, 0),
        (4, 0),
        xycoords=("axes fraction", "data"),
        textcoords="offset points",
        fontsize=FONT,
        fontweight="bold",
        color=DARK,
        va="center",
    )
    add_legend(figure, legend_handles(parts, shares))
    return figure
