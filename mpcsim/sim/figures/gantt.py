"""Gantt chart of a run: each party's computing and waiting, and each message's transit."""

from __future__ import annotations

from typing import Final

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from mpcsim.ids import PartyId
from mpcsim.sim.colours import BLACK, DARK, LIGHT, WHITE, party_colour
from mpcsim.sim.figures.parts.bars import draw_bar, draw_segment, legend_handles, write_inside
from mpcsim.sim.figures.parts.canvas import (
    TALLEST,
    add_axes,
    add_title,
    end_of_time_axis,
    new_chart,
    party_colours,
    party_sites,
)
from mpcsim.sim.figures.parts.legend import add_legend, legend_inches
from mpcsim.sim.figures.parts.style import FILLS, LETTER
from mpcsim.sim.rich_display import size
from mpcsim.sim.traces.message_segments import message_segments
from mpcsim.sim.traces.records import MessageRecord, RunRecord
from mpcsim.sim.traces.waits import party_waits

WIDTH: Final = 9.5
"""Width of the figure in inches."""
NAMED: Final = 0.165
"""Least height of a lane, in inches, at which messages are named."""


def gantt(trace: RunRecord) -> Figure:
    """Draw a Gantt chart: one lane per party, and under it the messages that it sent.

    A party's lane shows computing and waiting. A message's bar runs from sending to receipt and is
    split by part of time, hop by hop. Dropped and lost messages end in a cross. Bars have the
    colour of the party that computes or sends. Names are left out if the messages are too many.

    >>> figure = gantt(simulation.sign().trace)
    """
    end = end_of_time_axis(trace)
    sites = party_sites(trace)
    rows: list[tuple[float, str, str]] = []  # position, tick label, a party's colour
    drawn: list[tuple[float, PartyId | MessageRecord]] = []
    at = 0.0
    colours = party_colours(trace)
    for party, colour in colours.items():
        at += 0.9 if rows else 0.0
        rows.append((at, f"party {party}  {sites.get(party, '')}".rstrip(), colour))
        drawn.append((at, party))
        at += 1.1
        for message in sorted(trace.messages, key=lambda m: (m.sent_ms, m.number)):
            if message.sender == party and message.sent_ms <= end:
                copy = ", copy" if message.fate == "duplicate" else ""
                text = f"{message.kind} → {message.receiver}, {size(message.size)}{copy}"
                rows.append((at, text, ""))
                drawn.append((at, message))
                at += 0.8

    handles = legend_handles(_gantt_kinds(trace))
    bottom = 0.55 + legend_inches([str(each.get_label()) for each in handles], WIDTH)
    tall = min(0.21 * (at + 0.6), TALLEST - bottom - 0.8)
    if tall / (at + 0.6) < NAMED:
        rows = [(row, text if colour else "", colour) for row, text, colour in rows]
    figure = new_chart(WIDTH, tall + bottom + 0.8)
    top = add_title(figure, trace, "Timeline: ") + 0.1
    longest = max((len(text) for _, text, _ in rows), default=10)
    axes = add_axes(figure, 0.35 + LETTER * longest, 0.25, top, bottom)
    axes.set_xlim(0, end * 1.01)
    axes.set_ylim(at - 0.3, -0.9)
    axes.set_xlabel("time (ms)", fontsize=8.5, color=DARK)
    axes.set_yticks([row for row, _, _ in rows], [text for _, text, _ in rows])
    axes.tick_params(axis="y", length=0)
    for tick, (_, _, colour) in zip(axes.get_yticklabels(), rows, strict=True):
        if colour:
            tick.set(color=colour, fontweight="bold")
    axes.grid(axis="x", color=LIGHT, lw=0.6, zorder=0)
    axes.set_axisbelow(True)
    for row, item in drawn:
        if isinstance(item, MessageRecord):
            _draw_flight(axes, trace, item, row, end, colours[item.sender])
        else:
            _draw_lane(figure, axes, trace, item, row, end)
    add_legend(figure, handles)
    return figure


def _gantt_kinds(trace: RunRecord) -> set[str]:
    used = {"compute"} if any(w.end_ms > w.start_ms for w in trace.work) else set[str]()
    for message in trace.messages:
        for segment in message_segments(trace, message):
            used |= {part for part, ms in segment.parts.items() if ms > 0}
        if message.fate in ("dropped", "lost"):
            used.add("cross")
    for ending in trace.endings:
        if ending.status == "aborted":
            used.add("aborted")
        used |= {_LANE[wait.why] for wait in party_waits(trace, ending.party)}
    return used


_LANE: Final = {"message": "waiting", "contention": "contention", "unanswered": "unanswered"}


def _draw_flight(
    axes: Axes, trace: RunRecord, message: MessageRecord, row: float, end: float, ink: str
) -> None:
    gid = f"message-{message.number}"
    segments = message_segments(trace, message)
    for segment in segments:
        draw_segment(axes, row, 0.5, segment, end, ink=ink, gid=gid)
    if message.fate in ("dropped", "lost"):
        x = min(segments[-1].end_ms if segments else message.sent_ms, end)
        axes.plot(
            [x], [row], ls="none", marker="x", ms=7, mew=2, color=BLACK, zorder=7,
            clip_on=False, gid=f"cross-{message.number}",
        )  # fmt: skip


def _draw_lane(
    figure: Figure, axes: Axes, trace: RunRecord, party: PartyId, row: float, end: float
) -> None:
    ink = party_colour(party).line
    ending = next((e for e in trace.endings if e.party == party), None)
    if ending is None:
        return
    for work in trace.work:
        if work.party == party and work.end_ms > work.start_ms and work.start_ms < end:
            stop = min(work.end_ms, end)
            draw_bar(
                axes, row, 0.9, work.start_ms, stop, fill=FILLS["compute"], ink=ink,
                gid=f"work-{work.number}",
            )  # fmt: skip
    for wait in party_waits(trace, party):
        draw_bar(
            axes, row, 0.9, wait.start_ms, wait.end_ms, fill=FILLS[_LANE[wait.why]], ink=ink,
            gid=f"wait-{party}",
        )  # fmt: skip
        axes.plot([wait.end_ms] * 2, [row - 0.45, row + 0.45], color=WHITE, lw=1, zorder=4)
        if wait.why == "message":
            texts = (f"waits for {wait.sender}", f"for {wait.sender}")
            write_inside(figure, axes, row, wait.start_ms, wait.end_ms, texts)
    if ending.status == "aborted":
        axes.plot(
            [ending.at_ms], [row], ls="none", marker="X", ms=9, color=BLACK, zorder=7,
            clip_on=False, gid="ending-aborted",
        )  # fmt: skip
