"""What a figure shows, as a reader sees it: texts and where they are, colours."""

from collections.abc import Iterator
from itertools import combinations

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.text import Annotation, Text
from matplotlib.transforms import Bbox

from mpcsim.sim.colours import DARK, NEUTRALS, PALETTE, party_colour, tint

SHADES = {
    tint(ink, percent / 100)
    for ink in (DARK, *(party_colour(party).line for party in range(1, 8)))
    for percent in range(101)
}
ALLOWED = {*PALETTE, *NEUTRALS, *SHADES}


def canvas_of(figure: Figure) -> FigureCanvasAgg:
    canvas = figure.canvas
    assert isinstance(canvas, FigureCanvasAgg)
    return canvas


def draw(figure: Figure) -> FigureCanvasAgg:
    canvas = canvas_of(figure)
    canvas.draw()
    return canvas


def texts(figure: Figure) -> Iterator[Text]:
    """All texts that are drawn."""
    for legend in figure.legends:
        yield from legend.get_texts()
    yield from figure.texts
    for axes in figure.axes:
        yield axes.title
        yield from axes.texts
        legend_of = axes.get_legend()
        if legend_of is not None:
            yield from legend_of.get_texts()
        if not axes.axison:
            continue
        for axis in (axes.xaxis, axes.yaxis):
            yield axis.label
            low, high = sorted(axis.get_view_interval())
            for tick in axis.get_major_ticks():
                for label in (tick.label1, tick.label2):
                    if low <= tick.get_loc() <= high and label.get_visible():
                        yield label


def written(figure: Figure) -> list[str]:
    return [text.get_text() for text in texts(figure) if text.get_text().strip()]


def box(canvas: FigureCanvasAgg, text: Text) -> Bbox:
    """Where a text is, with its frame."""
    renderer = canvas.get_renderer()
    patch = text.get_bbox_patch()
    if patch is not None:
        return patch.get_window_extent(renderer)
    if isinstance(text, Annotation):
        return Text.get_window_extent(text, renderer)
    return text.get_window_extent(renderer)


def check_texts(figure: Figure, at_least: int = 5) -> None:
    """No text overlaps another, or leaves the figure; the boxes of slanted ones say little."""
    canvas = draw(figure)
    shown = [(t, box(canvas, t)) for t in texts(figure) if t.get_text().strip()]
    assert len(shown) >= at_least
    level = [(t.get_text(), extent) for t, extent in shown if t.get_rotation() % 90 == 0]
    for (one, a), (other, b) in combinations(level, 2):
        assert not a.overlaps(b), f"{one!r} and {other!r} overlap"
    inside = figure.bbox.padded(1)
    for text, extent in shown:
        assert inside.contains(extent.x0, extent.y0), f"{text.get_text()!r} leaves the figure"
        assert inside.contains(extent.x1, extent.y1), f"{text.get_text()!r} leaves the figure"


def colours(figure: Figure) -> set[str]:
    """All colours that can be seen."""
    used = {to_hex(figure.get_facecolor()).upper()}
    for artist in figure.findobj(lambda artist: bool(artist.get_visible())):
        if isinstance(artist, Text) and artist.get_text():
            used.add(to_hex(artist.get_color()).upper())
        elif isinstance(artist, Line2D):
            used.add(to_hex(artist.get_color()).upper())
            if artist.get_marker() not in ("None", "", None):
                used.add(to_hex(artist.get_markerfacecolor()).upper())
        elif isinstance(artist, Patch):
            for colour in (artist.get_facecolor(), artist.get_edgecolor()):
                if colour[3]:
                    used.add(to_hex(colour).upper())
    return used


def hues(figure: Figure) -> set[str]:
    """Those of them that are no grey."""
    return {colour for colour in colours(figure) if len(set(bytes.fromhex(colour[1:]))) > 1}
