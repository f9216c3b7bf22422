"""What a figure shows, as a reader sees it: texts and where they are, colours."""

from collections.abc import Iterator
from itertools import combinations, groupby

import numpy as np
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


def artists(figure: Figure) -> Iterator[str]:
    """Yield the labels of axes, and a line for artists of one look that follow each other: their
    look and number; of the first, the last and their mean a corner, the middle and the size."""
    yield f"figure: {[text.get_text() for text in figure.texts]}"
    for axes in figure.axes:
        yield f"axes: {axes.get_title()!r}, {axes.get_xlabel()!r}, {axes.get_ylabel()!r}"
        every = (*axes.patches, *axes.lines, *axes.texts)
        for look, alike in groupby(map(_look, every), key=lambda each: each[0]):
            where = np.array([each for _, each in alike])
            shown = where if len(where) < 3 else (where[0], where[-1], where.mean(axis=0))
            places = (" ".join(f"{each:.3f}" for each in place) for place in shown)
            yield f"{look}: {len(where)} at {' | '.join(places)}"


def _look(artist: Patch | Line2D | Text) -> tuple[str, tuple[float, ...]]:
    """Return what artists that look alike share, and where one is."""
    if isinstance(artist, Text):
        style = f"{artist.get_color()} {artist.get_ha()} {artist.get_va()} {artist.get_weight()}"
        box = artist.get_bbox_patch()
        frame = f" in {_look(box)[0]}" if box else ""
        return f"{artist.get_text()!r} {style}{frame}", artist.get_position()
    if isinstance(artist, Line2D):
        path, colours = artist.get_path(), str(artist.get_color())
    else:
        path = artist.get_patch_transform().transform_path(artist.get_path())
        faces = (artist.get_facecolor(), artist.get_edgecolor())
        colours = " ".join(to_hex(each, keep_alpha=True) for each in faces)
    points = path.vertices
    label = str(artist.get_label()).partition("_")[0]
    look = f"{label} {type(artist).__name__} {colours} {artist.get_linestyle()}"
    look += f" {artist.get_linewidth():g} z{artist.get_zorder():g}"
    return look.strip(), (*points[0], *points.mean(axis=0), *np.ptp(points, axis=0))
