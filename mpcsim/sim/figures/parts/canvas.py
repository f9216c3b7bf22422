"""Canvas of a figure: size, axes, title, formats; and what all figures of traces share."""

from __future__ import annotations

from base64 import b64encode
from html import escape
from io import BytesIO, StringIO
from textwrap import wrap
from typing import Any

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.transforms import Bbox

from mpcsim.errors import UsageError
from mpcsim.ids import PartyId
from mpcsim.sim.colours import BLACK, DARK, GREY, WHITE, party_colour
from mpcsim.sim.figures.parts.style import FONT
from mpcsim.sim.rich_display import milliseconds
from mpcsim.sim.traces.records import RunRecord, Verdict

DPI = 100
TALLEST = 9.0
"""Greatest height of a figure in inches: a taller one would not fit on a screen."""
CLOSEST = 0.14
"""Least distance of rows in inches: closer texts would touch each other."""


class Chart(Figure):
    """Figure that a notebook shows by itself, whichever backend is in use.

    It is shown as an HTML image with the SVG inside, never wider than its frame and in untrusted
    notebooks, too (JupyterLab does neither with an SVG of its own); and as a PNG where HTML is not
    shown. In JupyterLab's dark theme the image is inverted, with its hues kept; files that are
    saved are on white.
    """

    def _repr_html_(self) -> str:
        return html(self)

    def _repr_png_(self) -> bytes:
        return png(self)


DARK_THEME = (
    '<style>[data-jp-theme-light="false"] .mpcsim-figure'
    "{filter:invert(.93) hue-rotate(180deg)}</style>"
)
"""Style of an image on JupyterLab's dark theme: white becomes the page's own dark grey."""


def svg(figure: Figure) -> str:
    """Return the figure as SVG; the same figure always gives the same text."""
    out = StringIO()
    with rc_context({"svg.hashsalt": "mpcsim", "svg.fonttype": "path"}):
        figure.savefig(out, format="svg", metadata={"Date": None})
    return out.getvalue()


def html(figure: Figure, text: str = "figure") -> str:
    """Return the figure as a self-contained HTML image; ``text`` is the alternative text."""
    data = b64encode(svg(figure).encode()).decode()
    said = escape(text, quote=True)
    return (
        f'{DARK_THEME}<img alt="{said}" class="mpcsim-figure" style="max-width:100%" '
        f'src="data:image/svg+xml;base64,{data}">'
    )


def png(figure: Figure) -> bytes:
    """Return the figure as a PNG at twice the usual resolution."""
    out = BytesIO()
    figure.savefig(out, format="png", dpi=2 * DPI)
    return out.getvalue()


def new_chart(width: float, height: float) -> Chart:
    """Return an empty figure; sizes are in inches.

    Raises:
        UsageError: it is taller than a screen.
    """
    if height > TALLEST + 1e-9:
        raise UsageError(f"a figure of {height:.0f} inches is taller than a screen: show less")
    figure = Chart(figsize=(width, height), dpi=DPI, facecolor=WHITE)
    FigureCanvasAgg(figure)
    return figure


def add_axes(
    figure: Figure, left: float, right: float, top: float, bottom: float, **options: Any
) -> Axes:
    """Add axes with margins in inches."""
    width, height = figure.get_size_inches()
    box = (left / width, bottom / height, 1 - (left + right) / width, 1 - (top + bottom) / height)
    axes = figure.add_axes(box, facecolor=WHITE, **options)
    for side in axes.spines.values():
        side.set_color(GREY)
        side.set_linewidth(0.8)
    axes.tick_params(labelsize=FONT, colors=DARK, width=0.8, length=3)
    return axes


def row_height(rows: int, wanted: float, around: float, what: str) -> float:
    """Return the height of each of ``rows`` rows, in inches, so that all fit on a screen.

    Raises:
        UsageError: they do not.
    """
    room = (TALLEST - around) / max(rows, 1)
    if room < CLOSEST:
        raise UsageError(f"{rows} {what} are taller than a screen: show less")
    return min(wanted, room)


def add_heading(figure: Figure, text: str) -> None:
    """Write a figure's title at the top left."""
    width, height = figure.get_size_inches()
    figure.text(
        0.15 / width, 1 - 0.12 / height, text, fontsize=9, fontweight="bold", color=BLACK, va="top"
    )


def add_title(figure: Figure, trace: RunRecord, what: str = "") -> float:
    """Write a trace's title at the top left; return its height in inches."""
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
        f"{trace.clock} clock, compute {trace.compute}, scope {trace.scope}",
        fontsize=8.5,
        color=DARK if good else BLACK,
        fontweight="normal" if good else "bold",
        va="top",
    )
    return 0.35 + 0.17 * len(lines)


def text_bounds(figure: Figure, text: Text) -> Bbox:
    """Return the bounding box of a text, with its frame, in pixels."""
    canvas = figure.canvas
    assert isinstance(canvas, FigureCanvasAgg)
    patch = text.get_bbox_patch()
    box = text.get_window_extent(canvas.get_renderer())  # type: ignore[no-untyped-call]
    if patch is not None:
        text.update_bbox_position_size(canvas.get_renderer())  # type: ignore[no-untyped-call]
        box = patch.get_window_extent(canvas.get_renderer())  # type: ignore[no-untyped-call]
    return box


def party_colours(trace: RunRecord) -> dict[PartyId, str]:
    """Return the colour of every party of a trace."""
    parties = sorted(
        {e.party for e in trace.endings}
        | {i for m in trace.messages for i in (m.sender, m.receiver)}
    )
    return {i: party_colour(i).line for i in parties}


def party_sites(trace: RunRecord) -> dict[PartyId, str]:
    """Return each party's site, as far as the trace shows it."""
    found = {work.party: work.site for work in trace.work}
    for message in trace.messages:
        if message.hops:
            found.setdefault(message.sender, message.hops[0].source)
    return found


def end_of_time_axis(trace: RunRecord) -> float:
    """Return the end of the time axis; a millisecond for a run that took no time."""
    return trace.finished_ms or 1.0
