"""Arrows and label texts of a sequence diagram's messages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median

from mpcsim.ids import PartyId
from mpcsim.sim.colours import BLACK
from mpcsim.sim.figures.parts.canvas import end_of_time_axis
from mpcsim.sim.rich_display import size
from mpcsim.sim.traces.message_segments import RESOLUTION_MS
from mpcsim.sim.traces.records import MessageRecord, RunRecord

STUB = 0.2
"""Length of a stub; neighbouring lifelines are 1 apart."""
SHORT = 0.6
"""Length below which a label would hide an arrow that is nearly horizontal..."""
LATE = 0.05
"""Share of a run, at its end, in which arrows of messages are nearly horizontal."""


@dataclass(frozen=True)
class Arrow:
    """Arrow of a message: points (lifeline, time), and the kind of its end."""

    message: MessageRecord
    points: tuple[tuple[float, float], ...]
    end: str
    """Kind of end: ``head``, ``cross`` (dropped or lost), ``open`` (still under way at the end) or
    ``stub`` (sent just before the end)."""


@dataclass
class Label:
    """Label of an arrow, or of several arrows along the same line."""

    text: str
    arrows: list[Arrow] = field(default_factory=list)
    colour: str = BLACK


def forwarding_sites(trace: RunRecord, sites: Mapping[PartyId, str]) -> list[str]:
    """Return the sites that forward messages, by first appearance."""
    found = {hop.target: None for m in trace.messages for hop in m.hops[:-1]}
    return [site for site in found if site not in sites.values()]


def arrow_of(
    trace: RunRecord,
    message: MessageRecord,
    place: Mapping[PartyId | str, int],
    gateway: bool,
    tail_ms: float,
) -> Arrow | None:
    """Return a message's arrow; None if it was sent after the end.

    Args:
        tail_ms: room below the end, for messages sent just before it.
    """
    end = end_of_time_axis(trace)
    if message.sent_ms > end:
        return None
    start, goal = place[message.sender], place[message.receiver]
    points: list[tuple[float, float]] = [(start, message.sent_ms)]
    if message.fate == "dropped":
        # Half-way, but between lifelines: on another party's it would look like that party's loss.
        x = (start + goal) / 2
        if x.is_integer():
            x -= 0.5 if goal > start else -0.5
        share = (x - start) / (goal - start)
        lost_ms = min(message.sent_ms + share * _usual_flight(trace), end)
        return Arrow(message, (*points, (x, lost_ms)), "cross")
    if gateway:
        for hop in message.hops[:-1]:
            if hop.target in place:
                points.append((place[hop.target], hop.transfer.arrived_ms))
                points.append((place[hop.target], hop.transfer.arrived_ms + hop.service_ms))
    lost = message.received_ms is None and message.fate == "lost"
    there = message.received_ms
    if there is None and message.hops:
        there = message.hops[-1].transfer.arrived_ms
    if there is None:
        there = message.sent_ms + _usual_flight(trace)
    if message.received_ms is None and not lost:  # whatever is behind it, it is not there
        there = max(there, end + 2 * RESOLUTION_MS)
    points.append((goal, there))
    cut = _clip_at_end(points, end)
    short = SHORT if message.sent_ms > (1 - LATE) * end else STUB / 2
    if len(cut) == 1 or (cut[-1] != points[len(cut) - 1] and abs(cut[-1][0] - start) < short):
        stop = (start + (STUB if goal > start else -STUB), end + 0.7 * tail_ms)
        return Arrow(message, (*points[:1], stop), "stub")
    if len(cut) < len(points) or cut[-1] != points[-1]:
        return Arrow(message, tuple(cut), "open")
    return Arrow(message, tuple(cut), "cross" if lost else "head")


def _clip_at_end(points: Sequence[tuple[float, float]], end: float) -> list[tuple[float, float]]:
    """Return the part of an arrow that lies before the end."""
    kept = [points[0]]
    for (x0, t0), (x1, t1) in pairwise(points):
        if t1 > end + RESOLUTION_MS:
            share = (end - t0) / (t1 - t0) if t1 > t0 else 0.0
            if share > 0:
                kept.append((x0 + share * (x1 - x0), end))
            break
        kept.append((x1, t1))
    return kept


def _usual_flight(trace: RunRecord) -> float:
    took = [m.received_ms - m.sent_ms for m in trace.messages if m.received_ms is not None]
    return median(took) if took else end_of_time_axis(trace) / 10


def labels_of(arrows: Iterable[Arrow], colours: Mapping[PartyId, str]) -> list[Label]:
    """Return one label for messages sent together to the same receiver, or for stubs of a kind."""
    found: dict[object, Label] = {}
    stubs: dict[object, list[Arrow]] = {}
    for arrow in arrows:
        m = arrow.message
        if arrow.end == "stub":
            stubs.setdefault((arrow.points, m.kind, m.size, m.fate), []).append(arrow)
            continue
        note = {"dropped": " dropped", "duplicate": " (copy)", "lost": " lost"}.get(m.fate, "")
        if arrow.end == "open":
            note += " (under way)"
        text = f"{m.kind} {size(m.size)}{note}"
        _add_line(found, (m.sender, m.receiver, m.sent_ms, note), text, [arrow], colours)
    for together in stubs.values():
        m = together[0].message
        receivers = ", ".join(str(arrow.message.receiver) for arrow in together)
        text = f"{m.kind} {size(m.size)} to {receivers} (under way)"
        _add_line(found, together[0].points, text, together, colours)
    return list(found.values())


def _add_line(
    found: dict[object, Label],
    key: object,
    text: str,
    arrows: list[Arrow],
    colours: Mapping[PartyId, str],
) -> None:
    """Add a line to the label of a place."""
    if key in found:
        found[key].text += "\n" + text
    else:
        found[key] = Label(text, [], colours[arrows[0].message.sender])
    found[key].arrows += arrows
