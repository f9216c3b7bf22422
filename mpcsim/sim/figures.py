"""Pictures of a trace: sequence diagram, Gantt chart, critical path.

Every function returns a figure of its own and touches no global state of matplotlib, so they work
in scripts, servers and notebooks alike. Colours are those of Okabe and Ito, which people with
colour-blindness can tell apart, and neutral greys.

Sources:
    M. Okabe and K. Ito, Color Universal Design, 2002 (rev. 2008).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from io import StringIO
from itertools import pairwise
from statistics import median
from textwrap import wrap
from typing import TYPE_CHECKING, Any, Final

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import FancyArrowPatch, Patch, Rectangle
from matplotlib.text import Text
from matplotlib.transforms import Bbox, blended_transform_factory

from mpcsim.ids import PartyId
from mpcsim.sim import analysis
from mpcsim.sim.recording import MessageRecord, Trace, Verdict
from mpcsim.sim.rich_display import milliseconds, size

if TYPE_CHECKING:
    from mpcsim.sim.analysis import Segment

BLACK, ORANGE, SKY, GREEN = "#000000", "#E69F00", "#56B4E9", "#009E73"
YELLOW, BLUE, VERMILLION, PURPLE = "#F0E442", "#0072B2", "#D55E00", "#CC79A7"
PALETTE: Final = (BLACK, ORANGE, SKY, GREEN, YELLOW, BLUE, VERMILLION, PURPLE)
"""The eight colours of Okabe and Ito."""
WHITE, PALE, LIGHT, GREY, DARK = "#FFFFFF", "#F3F3F3", "#D9D9D9", "#7F7F7F", "#333333"
NEUTRALS: Final = (WHITE, PALE, LIGHT, GREY, DARK)
"""Greys, besides the palette."""

PARTY_COLOURS: Final = (BLUE, VERMILLION, GREEN, PURPLE, ORANGE, BLACK, SKY)


@dataclass(frozen=True)
class Fill:
    """How a stretch of time is filled."""

    face: str
    name: str
    hatch: str = ""


FILLS: Final[Mapping[str, Fill]] = {
    "compute": Fill(GREEN, "compute"),
    "waiting": Fill(LIGHT, "waiting for a message"),
    "unanswered": Fill(LIGHT, "waiting in vain", "xxx"),
    "propagation": Fill(BLUE, "propagation"),
    "transmission": Fill(ORANGE, "transmission"),
    "window": Fill(VERMILLION, "window (slow start)"),
    "handshake": Fill(PURPLE, "handshake"),
    "queueing": Fill(YELLOW, "queueing"),
    "recovery": Fill(BLACK, "recovery (loss)"),
    "service": Fill(SKY, "service at the gateway"),
    "contention": Fill(GREY, "processor busy"),
    "fault": Fill(WHITE, "delay by a fault", "////"),
    "flight": Fill(SKY, "under way", "..."),
    "idle": Fill(LIGHT, "nothing happened", "xxx"),
}
"""What the colours of stretches of time mean, in the order of the legend."""

_FONT = 7.5
_DPI = 100


class Chart(Figure):
    """A figure that a notebook shows by itself, whichever backend is in use."""

    def _repr_svg_(self) -> str:
        return svg(self)


def svg(figure: Figure) -> str:
    """The figure as an SVG text; the same figure always gives the same text."""
    out = StringIO()
    with rc_context({"svg.hashsalt": "mpcsim", "svg.fonttype": "path"}):
        figure.savefig(out, format="svg", metadata={"Date": None})
    return out.getvalue()


# ---------------------------------------------------------------------- layout


def _chart(width: float, height: float) -> Chart:
    figure = Chart(figsize=(width, height), dpi=_DPI, facecolor=WHITE)
    FigureCanvasAgg(figure)
    return figure


def _axes(
    figure: Figure, left: float, right: float, top: float, bottom: float, **options: Any
) -> Axes:
    """Axes with margins in inches."""
    width, height = figure.get_size_inches()
    box = (left / width, bottom / height, 1 - (left + right) / width, 1 - (top + bottom) / height)
    axes = figure.add_axes(box, facecolor=WHITE, **options)
    for side in axes.spines.values():
        side.set_color(GREY)
        side.set_linewidth(0.8)
    axes.tick_params(labelsize=_FONT, colors=DARK, width=0.8, length=3)
    return axes


def _title(figure: Figure, trace: Trace, what: str = "") -> float:
    """Title at the top left; returns its height in inches."""
    width, height = figure.get_size_inches()
    over = f" over {trace.network}" if trace.network else ""
    about = f"{what}{trace.name or 'run'}{over}"
    lines = wrap(about, max(30, int(width * 11.5))) or [""]
    figure.text(
        0.15 / width,
        1 - 0.12 / height,
        "\n".join(lines),
        fontsize=10,
        fontweight="bold",
        color=BLACK,
        va="top",
    )
    good = trace.verdict is Verdict.VALID
    figure.text(
        0.15 / width,
        1 - (0.17 + 0.17 * len(lines)) / height,
        f"{trace.verdict.value} after {milliseconds(trace.finished_ms)} ms, "
        f"{trace.clock} clock, compute {trace.compute}",
        fontsize=8.5,
        color=DARK if good else VERMILLION,
        fontweight="normal" if good else "bold",
        va="top",
    )
    return 0.35 + 0.17 * len(lines)


def _extent(figure: Figure, text: Text) -> Bbox:
    canvas = figure.canvas
    assert isinstance(canvas, FigureCanvasAgg)
    patch = text.get_bbox_patch()
    box = text.get_window_extent(canvas.get_renderer())  # type: ignore[no-untyped-call]
    if patch is not None:
        text.update_bbox_position_size(canvas.get_renderer())  # type: ignore[no-untyped-call]
        box = patch.get_window_extent(canvas.get_renderer())  # type: ignore[no-untyped-call]
    return box


def _colours(trace: Trace) -> dict[PartyId, str]:
    parties = sorted(
        {e.party for e in trace.endings}
        | {i for m in trace.messages for i in (m.sender, m.receiver)}
    )
    return {i: PARTY_COLOURS[at % len(PARTY_COLOURS)] for at, i in enumerate(parties)}


def _sites(trace: Trace) -> dict[PartyId, str]:
    found = {work.party: work.site for work in trace.work}
    for message in trace.messages:
        if message.hops:
            found.setdefault(message.sender, message.hops[0].source)
    return found


def _horizon(trace: Trace) -> float:
    """Where the time axis ends; a run that took no time gets a millisecond."""
    return trace.finished_ms or 1.0


# ---------------------------------------------------------------------- sequence diagram


@dataclass(frozen=True)
class _Way:
    """A message as drawn: points (lifeline, time), and how it ends."""

    message: MessageRecord
    points: tuple[tuple[float, float], ...]
    end: str
    """``arrow``, ``cross`` (dropped or lost) or ``open`` (still under way at the end)."""


@dataclass
class _Label:
    """What is written at a message's arrow, or at several that take the same way."""

    text: str
    ways: list[_Way] = field(default_factory=list)
    colour: str = BLACK


def sequence_diagram(trace: Trace, *, gateway: bool = False) -> Figure:
    """Lifelines with the messages between them; time runs downward, to scale.

    Arrows have the colour of their sender and slope with the time the message took; each is
    labelled with the message's kind and size. Dropped and lost messages end in a cross. Green bars
    are computation. A band begins when the first party begins the round.

    Args:
        gateway: also show the sites that forward messages, with every hop as an arrow.
    """
    colours, sites = _colours(trace), _sites(trace)
    forwarding = _forwarding(trace, sites) if gateway else []
    order: list[PartyId | str] = list(colours)
    order[max(1, len(order) // 2) : max(1, len(order) // 2)] = forwarding
    place: dict[PartyId | str, int] = {name: at for at, name in enumerate(order)}
    ways = [way for m in trace.messages if (way := _way(trace, m, place, gateway)) is not None]
    labels = _labels(ways, colours)

    endings = {e.party: e for e in trace.endings}
    feet = {
        i: [e.status, f"{milliseconds(e.at_ms)} ms", *(wrap(e.text, 30)[:5] if e.text else [])]
        for i, e in endings.items()
    }
    foot = 0.2 + 0.125 * max((len(lines) for lines in feet.values()), default=1)
    lines = sum(label.text.count("\n") + 1 for label in labels)
    width = 2.0 + 2.7 * max(1, len(order) - 1) + 0.6
    height = 1.6 + foot + min(13.0, max(2.6, 0.8 + 0.34 * lines))
    figure = _chart(width, height)
    top = _title(figure, trace) + 0.48
    axes = _axes(figure, 0.75, 1.15, top, foot)
    end = _horizon(trace)
    axes.set_xlim(-0.22, max(1, len(order) - 1) + 0.22)
    axes.set_ylim(end * 1.02, -end * 0.02)
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
                    facecolor=GREEN,
                    edgecolor=GREEN,
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
            fontsize=_FONT,
            color=DARK if ending.status == "done" else VERMILLION,
        )
    for way in ways:
        _draw_way(axes, way, colours[way.message.sender])
    marks = [w.points[-1] for w in ways if w.end == "cross"]
    marks += [(place[i], min(ending.at_ms, end)) for i, ending in endings.items()]
    _place_labels(figure, axes, labels, ways, list(place.values()), marks)
    return figure


def _forwarding(trace: Trace, sites: Mapping[PartyId, str]) -> list[str]:
    """Sites where messages pass through, by first appearance."""
    found = {hop.target: None for m in trace.messages for hop in m.hops[:-1]}
    return [site for site in found if site not in sites.values()]


def _way(
    trace: Trace, message: MessageRecord, place: Mapping[PartyId | str, int], gateway: bool
) -> _Way | None:
    """Where a message is drawn; None if it was sent after the end."""
    end = _horizon(trace)
    if message.sent_ms > end:
        return None
    start, goal = place[message.sender], place[message.receiver]
    points: list[tuple[float, float]] = [(start, message.sent_ms)]
    if message.fate == "dropped":
        half = min(message.sent_ms + _usual_flight(trace) / 2, end)
        return _Way(message, (*points, ((start + goal) / 2, half)), "cross")
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
    points.append((goal, there))
    cut = _cut(points, end)
    if len(cut) == 1:  # sent at the very end
        cut.append((start + (0.25 if goal > start else -0.25), message.sent_ms))
    if len(cut) < len(points) or cut[-1] != points[-1]:
        return _Way(message, tuple(cut), "open")
    return _Way(message, tuple(cut), "cross" if lost else "arrow")


def _cut(points: Sequence[tuple[float, float]], end: float) -> list[tuple[float, float]]:
    """The part of a way that lies before the end."""
    kept = [points[0]]
    for (x0, t0), (x1, t1) in pairwise(points):
        if t1 > end + analysis.RESOLUTION_MS:
            share = (end - t0) / (t1 - t0) if t1 > t0 else 0.0
            if share > 0:
                kept.append((x0 + share * (x1 - x0), end))
            break
        kept.append((x1, t1))
    return kept


def _usual_flight(trace: Trace) -> float:
    took = [m.received_ms - m.sent_ms for m in trace.messages if m.received_ms is not None]
    return median(took) if took else _horizon(trace) / 10


def _labels(ways: Iterable[_Way], colours: Mapping[PartyId, str]) -> list[_Label]:
    """One label for messages sent together along the same way."""
    found: dict[Any, _Label] = {}
    for way in ways:
        m = way.message
        note = {"dropped": " dropped", "duplicate": " (copy)", "lost": " lost"}.get(m.fate, "")
        if way.end == "open":
            note += " (under way)"
        text = f"{m.kind} {size(m.size)}{note}"
        key = (m.sender, m.receiver, m.sent_ms, note)
        if key in found:
            found[key].text += "\n" + text
        else:
            found[key] = _Label(text, [], colours[m.sender])
        found[key].ways.append(way)
    return list(found.values())


def _shade_rounds(figure: Figure, axes: Axes, trace: Trace, end: float) -> None:
    first: dict[int, tuple[float, str]] = {}
    for work in trace.work:
        if work.round and (work.round not in first or work.start_ms < first[work.round][0]):
            first[work.round] = (work.start_ms, work.name)
    rounds = sorted(first)
    starts = [min(first[r][0], end) for r in rounds] + [end]
    height = 2.3 * _FONT / 72 * _DPI  # of a label, in pixels
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
            fontsize=_FONT,
            color=DARK,
            va="center",
            linespacing=1.0,
        )


def _spread(wanted: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Positions close to the wanted ones, in order and at least ``gap`` apart."""
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
        "aborted": {"marker": "X", "color": VERMILLION, "ms": 9},
    }.get(status, {"marker": "o", "color": VERMILLION, "mfc": WHITE, "mew": 1.5, "ms": 7})
    axes.plot([x], [y], ls="none", zorder=6, clip_on=False, gid=f"ending-{status}", **style)


def _draw_way(axes: Axes, way: _Way, colour: str) -> None:
    number, faint = way.message.number, way.message.fate == "duplicate"
    style = ":" if faint else "-" if way.end == "arrow" else (0, (4, 2))
    legs = [(a, b) for a, b in pairwise(way.points) if a != b]
    for at, (start, stop) in enumerate(legs):
        headless = way.end != "arrow" and at == len(legs) - 1
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
    if way.end == "cross":
        x, y = way.points[-1]
        axes.plot(
            [x], [y], ls="none", marker="x", ms=8, mew=2, color=VERMILLION, zorder=7,
            gid=f"cross-{number}",
        )  # fmt: skip


def _place_labels(
    figure: Figure,
    axes: Axes,
    labels: Sequence[_Label],
    ways: Sequence[_Way],
    lifelines: Sequence[int],
    marks: Sequence[tuple[float, float]],
) -> None:
    """Write every label on or near its arrow where it hides no label or mark and little else."""
    frame = axes.get_window_extent()
    crosses = [axes.transData.transform(mark) for mark in marks]
    strokes = {
        id(way): [
            (axes.transData.transform(a), axes.transData.transform(b))
            for a, b in pairwise(way.points)
        ]
        for way in ways
    }
    columns = [float(axes.transData.transform((x, 0))[0]) for x in lifelines]
    taken: list[Bbox] = []
    left_out = 0

    def length(label: _Label) -> float:
        return max(float(abs(b[0] - a[0])) for way in label.ways for a, b in strokes[id(way)])

    for label in sorted(labels, key=length):
        text = axes.text(
            0,
            0,
            label.text,
            fontsize=_FONT,
            color=BLACK,
            ha="center",
            va="center",
            linespacing=1.05,
            zorder=8,
            gid="label",
            bbox={"boxstyle": "square,pad=0.15", "fc": WHITE, "ec": label.colour, "lw": 0.6},
        )
        box = _extent(figure, text)
        wide, high = box.width + 2, box.height + 2
        own = {id(way) for way in label.ways}
        others = [s for key, found in strokes.items() if key not in own for s in found]
        best: tuple[float, float, float, float, float] | None = None
        for (x0, y0), (x1, y1) in strokes[id(label.ways[0])]:
            if abs(x1 - x0) < 4:
                continue
            for step in range(2, 39):
                share = step / 40
                x, y = x0 + share * (x1 - x0), y0 + share * (y1 - y0)
                for lift in range(-14, 15):
                    shift = lift * high / 2
                    cost = abs(share - 0.5) + (1.5 + abs(lift) if lift else 0)
                    if best is not None and cost >= best[0]:
                        continue
                    here = Bbox.from_bounds(x - wide / 2, y + shift - high / 2, wide, high)
                    if not _inside(here, frame) or any(here.overlaps(b) for b in taken):
                        continue
                    if any(here.padded(5).contains(*cross) for cross in crosses):
                        continue
                    cost += 2.5 * sum(here.x0 - 3 < c < here.x1 + 3 for c in columns)
                    cost += 1.0 * sum(_crosses(a, b, here) for a, b in others)
                    if best is None or cost < best[0]:
                        best = (cost, x, y + shift, x, y)
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
            f"{left_out} labels have no room",
            (0, 0),
            (2, 3),
            xycoords="axes fraction",
            textcoords="offset points",
            fontsize=_FONT,
            color=VERMILLION,
        )


def _inside(box: Bbox, frame: Bbox) -> bool:
    return bool(frame.x0 <= box.x0 <= box.x1 <= frame.x1) and bool(
        frame.y0 <= box.y0 <= box.y1 <= frame.y1
    )


def _crosses(start: Any, stop: Any, box: Bbox) -> bool:
    """Whether a straight line meets a box (Liang and Barsky's clipping)."""
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


# ---------------------------------------------------------------------- bars


def _bar(
    axes: Axes, row: float, height: float, start: float, stop: float, kind: str, gid: str
) -> None:
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


def _segment(axes: Axes, row: float, height: float, segment: Segment, end: float, gid: str) -> None:
    """The parts of a segment side by side, up to the end of the axis."""
    now = segment.start_ms
    for part, ms in segment.parts.items():
        if ms > 0 and now < end:
            _bar(axes, row, height, now, min(now + ms, end), part, f"{gid}-{part}")
        now += ms


def _write(
    figure: Figure, axes: Axes, row: float, start: float, stop: float, texts: Sequence[str]
) -> bool:
    """Write the first of the texts that fits into a bar; whether one did."""
    left, right = (float(x) for x, _ in axes.transData.transform([(start, 0), (stop, 0)]))
    for text in texts:
        made = axes.text(
            (start + stop) / 2,
            row,
            text,
            fontsize=_FONT,
            color=BLACK,
            ha="center",
            va="center_baseline",
            zorder=8,
            gid="label",
        )
        if _extent(figure, made).width + 6 <= right - left:
            return True
        made.remove()
    return False


def _legend(figure: Figure, kinds: Iterable[str], texts: Mapping[str, str] | None = None) -> None:
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
            ncols=min(_LEGEND_COLUMNS, len(handles)),
            fontsize=_FONT,
            labelcolor=DARK,
            frameon=False,
            handlelength=1.4,
            columnspacing=1.4,
        )


_LEGEND_COLUMNS = 4


def _legend_inches(count: int) -> float:
    return 0.12 + 0.17 * -(-count // _LEGEND_COLUMNS)


def gantt(trace: Trace) -> Figure:
    """One lane per party with its computing and waiting, and under it the messages it sent.

    A message's bar runs from sending to receipt and is split into where the time went, hop by
    hop. Dropped and lost messages end in a cross.
    """
    end = _horizon(trace)
    sites = _sites(trace)
    rows: list[tuple[float, str, bool]] = []  # position, tick label, whether it is a party
    used: set[str] = set()
    drawn: list[tuple[float, PartyId | MessageRecord]] = []
    at = 0.0
    for party in _colours(trace):
        at += 0.9 if rows else 0.0
        rows.append((at, f"party {party}  {sites.get(party, '')}".rstrip(), True))
        drawn.append((at, party))
        at += 1.1
        for message in sorted(trace.messages, key=lambda m: (m.sent_ms, m.number)):
            if message.sender == party and message.sent_ms <= end:
                copy = ", copy" if message.fate == "duplicate" else ""
                text = f"{message.kind} → {message.receiver}, {size(message.size)}{copy}"
                rows.append((at, text, False))
                drawn.append((at, message))
                at += 0.8

    used = _gantt_kinds(trace)
    bottom = 0.55 + _legend_inches(len(used))
    tall = 0.21 * (at + 0.6)
    figure = _chart(9.5, tall + bottom + 0.8)
    top = _title(figure, trace) + 0.1
    longest = max((len(text) for _, text, _ in rows), default=10)
    axes = _axes(figure, 0.35 + 0.062 * longest, 0.25, top, bottom)
    axes.set_xlim(0, end * 1.01)
    axes.set_ylim(at - 0.3, -0.9)
    axes.set_xlabel("time (ms)", fontsize=8.5, color=DARK)
    axes.set_yticks([row for row, _, _ in rows], [text for _, text, _ in rows])
    axes.tick_params(axis="y", length=0)
    for tick, (_, _, is_party) in zip(axes.get_yticklabels(), rows, strict=True):
        tick.set_fontweight("bold" if is_party else "normal")
    axes.grid(axis="x", color=LIGHT, lw=0.6, zorder=0)
    axes.set_axisbelow(True)
    for row, item in drawn:
        if isinstance(item, MessageRecord):
            _draw_flight(axes, trace, item, row, end)
        else:
            _draw_lane(figure, axes, trace, item, row, end)
    _legend(figure, used)
    return figure


def _gantt_kinds(trace: Trace) -> set[str]:
    used = {"compute"} if any(w.end_ms > w.start_ms for w in trace.work) else set[str]()
    for message in trace.messages:
        for segment in analysis.flight(trace, message):
            used |= {part for part, ms in segment.parts.items() if ms > 0}
        if message.fate in ("dropped", "lost"):
            used.add("cross")
    for ending in trace.endings:
        if ending.status == "aborted":
            used.add("aborted")
        used |= {_LANE[wait.why] for wait in analysis.party_waits(trace, ending.party)}
    return used


_LANE: Final = {"message": "waiting", "contention": "contention", "unanswered": "unanswered"}


def _draw_flight(axes: Axes, trace: Trace, message: MessageRecord, row: float, end: float) -> None:
    gid = f"message-{message.number}"
    legs = analysis.flight(trace, message)
    for segment in legs:
        _segment(axes, row, 0.5, segment, end, gid)
    if message.fate in ("dropped", "lost"):
        x = min(legs[-1].end_ms if legs else message.sent_ms, end)
        axes.plot(
            [x], [row], ls="none", marker="x", ms=7, mew=2, color=VERMILLION, zorder=7,
            clip_on=False, gid=f"cross-{message.number}",
        )  # fmt: skip


def _draw_lane(
    figure: Figure, axes: Axes, trace: Trace, party: PartyId, row: float, end: float
) -> None:
    ending = next((e for e in trace.endings if e.party == party), None)
    if ending is None:
        return
    for work in trace.work:
        if work.party == party and work.end_ms > work.start_ms and work.start_ms < end:
            stop = min(work.end_ms, end)
            _bar(axes, row, 0.9, work.start_ms, stop, "compute", f"work-{work.number}")
    for wait in analysis.party_waits(trace, party):
        _bar(axes, row, 0.9, wait.start_ms, wait.end_ms, _LANE[wait.why], f"wait-{party}")
        axes.plot([wait.end_ms] * 2, [row - 0.45, row + 0.45], color=WHITE, lw=1, zorder=4)
        if wait.why == "message":
            texts = (f"waits for {wait.sender}", f"for {wait.sender}")
            _write(figure, axes, row, wait.start_ms, wait.end_ms, texts)
    if ending.status == "aborted":
        axes.plot(
            [ending.at_ms], [row], ls="none", marker="X", ms=9, color=VERMILLION, zorder=7,
            clip_on=False, gid="ending-aborted",
        )  # fmt: skip


# ---------------------------------------------------------------------- critical path


def critical_path(trace: Trace) -> Figure:
    """Where the time went, place by place, and in total.

    Above, one lane per party and link with the segments of the critical path in order of time;
    the rightmost figures are each place's total. Below, the same time by part.
    """
    path = analysis.critical_path(trace)
    end = path.total_ms or 1.0
    places = path.places
    parts = {part: ms for part, ms in path.parts.items() if ms}
    legend = _legend_inches(len(parts))
    lanes = 0.27 * (len(places) + 1) + 0.1
    below = 0.85 + legend
    figure = _chart(9.5, 0.75 + lanes + 0.5 + below)
    top = _title(figure, trace, "Critical path: ") + 0.1
    left = 0.35 + 0.062 * max((len(where) for where in places), default=8)
    axes = _axes(figure, left, 1.35, top, 0.5 + below - 0.2)
    total = _axes(figure, left, 1.35, top + lanes + 0.42, legend + 0.5)
    rows = {where: at + 1 for at, where in enumerate(places)}
    axes.set_ylim(len(rows) + 0.6, -0.6)
    axes.set_yticks([0, *rows.values()], ["message", *rows])
    axes.tick_params(axis="y", length=0)
    axes.tick_params(axis="x", labelbottom=False)
    for each in (axes, total):
        each.set_xlim(0, end)
        each.grid(axis="x", color=LIGHT, lw=0.6, zorder=0)
        each.set_axisbelow(True)

    for at, segment in enumerate(path.segments):
        _segment(axes, rows[segment.where], 0.6, segment, end, f"segment-{at}")
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
        _write(figure, axes, 0, start, stop, texts)
    for where, row in rows.items():
        share = f" ({places[where] / path.total_ms:.0%})" if path.total_ms else ""
        axes.annotate(
            f"{milliseconds(places[where])} ms{share}",
            (1, row),
            (4, 0),
            xycoords=("axes fraction", "data"),
            textcoords="offset points",
            fontsize=_FONT,
            color=DARK,
            va="center",
        )

    total.set_ylim(0.5, -0.5)
    total.set_yticks([0], ["total"])
    total.tick_params(axis="y", length=0)
    total.set_xlabel("time (ms)", fontsize=8.5, color=DARK)
    now = 0.0
    for part, ms in parts.items():
        _bar(total, 0, 0.7, now, now + ms, part, f"total-{part}")
        now += ms
    total.annotate(
        f"{milliseconds(path.total_ms)} ms",
        (1, 0),
        (4, 0),
        xycoords=("axes fraction", "data"),
        textcoords="offset points",
        fontsize=_FONT,
        fontweight="bold",
        color=DARK,
        va="center",
    )
    shares = {
        part: f"{FILLS[part].name}: {milliseconds(ms)} ms ({ms / path.total_ms:.1%})"
        for part, ms in parts.items()
    }
    _legend(figure, parts, shares)
    return figure
