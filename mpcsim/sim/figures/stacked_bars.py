"""Stacked bar chart: a bar for each name, divided into parts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from mpcsim.errors import UsageError
from mpcsim.ids import PartyId
from mpcsim.sim.colours import DARK, party_colour
from mpcsim.sim.figures.parts.bars import draw_bar, legend_handles
from mpcsim.sim.figures.parts.canvas import Chart, add_axes, add_heading, new_chart, row_height
from mpcsim.sim.figures.parts.legend import add_legend, legend_inches
from mpcsim.sim.figures.parts.scales import draw_grid, format_rounded, set_scale
from mpcsim.sim.figures.parts.style import FONT, LETTER, fills_of

WIDTH: Final = 6.8
ROW: Final = 0.27
"""Sizes are in inches."""
LEAST: Final = 1e-3
"""Share of the longest bar below which a part is invisible, and left out of the legend."""


def stacked_bars(
    rows: Mapping[str, Mapping[str, float]],
    *,
    starts: Sequence[float] | None = None,
    parties: Sequence[PartyId | None] | None = None,
    x: str = "time (ms)",
    title: str = "",
) -> Chart:
    """Draw a bar for each row, its parts side by side, with the sum behind it.

    Parts of time have the fills of every figure (``FILLS``, by the names of
    ``mpcsim.sim.traces.message_segments.PARTS``); parts with other names get neutral fills.

    >>> figure = stacked_bars({"cold": {"handshake": 200.0, "propagation": 100.0},
    ...                  "kept open": {"propagation": 100.0}})

    Args:
        rows: by name, the parts with their lengths, in order.
        starts: start of each bar, if not zero.
        parties: party of each bar, which gives the colour; None for none.

    Raises:
        UsageError: nothing to show, a part below zero, or more than fits on a screen.
    """
    longest = max((sum(parts.values()) for parts in rows.values()), default=0.0)
    if longest <= 0 or any(value < 0 for parts in rows.values() for value in parts.values()):
        raise UsageError("no parts to show, or one that is below zero")
    fills = fills_of(part for parts in rows.values() for part in parts)
    seen = {p for parts in rows.values() for p, value in parts.items() if value > LEAST * longest}
    handles = legend_handles(seen, fills=fills)
    legend = legend_inches([str(handle.get_label()) for handle in handles], WIDTH)
    top, bottom = (0.4 if title else 0.1), 0.5 + legend
    each = row_height(len(rows), ROW, top + bottom, "bars")
    figure = new_chart(WIDTH, top + each * len(rows) + bottom)
    add_heading(figure, title)
    totals = [format_rounded(sum(parts.values())) for parts in rows.values()]
    left = 0.2 + LETTER * max(map(len, rows))
    axes = add_axes(figure, left, 0.25 + LETTER * max(map(len, totals)), top, bottom)
    begin = list(starts) if starts is not None else [0.0] * len(rows)
    end = 0.0
    for row, (parts, now) in enumerate(zip(rows.values(), begin, strict=True)):
        party = parties[row] if parties is not None else None
        ink = DARK if party is None else party_colour(party).line
        for part, value in parts.items():
            if value > 0:
                gid = f"part-{row}-{part}"
                draw_bar(axes, row, 0.64, now, now + value, fill=fills[part], ink=ink, gid=gid)
            now += value
        end = max(end, now)
        axes.annotate(
            totals[row], (1, row), (5, 0), xycoords=("axes fraction", "data"),
            textcoords="offset points", fontsize=FONT, color=DARK, va="center",
        )  # fmt: skip
    axes.set_xlim(0, 1.02 * end)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    set_scale(axes, "x", "linear")
    draw_grid(axes, "x")
    axes.set_yticks(range(len(rows)), list(rows))
    axes.tick_params(axis="y", length=0)
    axes.set_xlabel(x, fontsize=FONT, color=DARK)
    add_legend(figure, handles)
    return figure
