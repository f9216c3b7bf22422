"""The picture of the cast."""

from itertools import combinations

from matplotlib.text import Text

from mpcsim.ids import ROLES
from mpcsim.lab.explorer.data_flow_figure import COMPONENTS, data_flow


def words(figure):
    return [text for text in figure.findobj(Text) if text.get_text()]


def test_everyone_is_in_it_with_their_share():
    assert {station.party for station in COMPONENTS} == {None, *ROLES}
    said = " ".join(text.get_text() for text in words(data_flow()))
    for station in COMPONENTS:
        assert station.name in said
        assert station.words in said
    for party, role in ROLES.items():
        assert str(party) in said
        assert role in said


def test_no_words_run_into_others_or_out_of_the_picture():
    figure = data_flow()
    renderer = figure.canvas.get_renderer()
    boxes = {text: text.get_window_extent(renderer) for text in words(figure)}
    for (one, a), (other, b) in combinations(boxes.items(), 2):
        assert not a.overlaps(b), (one.get_text(), other.get_text())
    for text, box in boxes.items():
        assert all(figure.bbox.contains(*corner) for corner in (box.min, box.max)), text.get_text()
