"""The matrix at a glance: every finding has its words, and what is worse is darker."""

from mpcsim.attacks.catalogue import ATTACKS
from mpcsim.attacks.model import Cell, Effect, Finding
from mpcsim.attacks.picture import OTHER, SERIOUS, matrix_chart
from mpcsim.attacks.report import Matrix
from mpcsim.errors import InRound, Reason
from tests.helpers.pictures import check_texts, hues, written

ABORTED = Finding.aborted(Reason.SHARE_INCONSISTENT, InRound(4, "finish"), culprits=[2])


def test_every_effect_has_its_words():
    assert SERIOUS.keys() | OTHER.keys() == set(Effect)
    assert not SERIOUS.keys() & OTHER.keys()


def test_all_of_it_at_a_glance():
    effects = list(Effect)
    cells = [
        cell
        for at, attack in enumerate(ATTACKS)
        for cell in (
            Cell(attack, True, ABORTED),
            Cell(attack, False, Finding.broken(effects[at % len(effects)])),
        )
    ]
    figure = matrix_chart(Matrix(tuple(cells)))
    check_texts(figure)
    assert not hues(figure)
    assert figure.get_figheight() <= 9
    said = written(figure)
    assert said.count("aborts, names 2; ban") == len(ATTACKS)
    assert all(f"{attack.id}  {attack.name}" in said for attack in ATTACKS)
    shade = {
        text.get_text(): patch.get_facecolor()[0]
        for axes in figure.axes
        for text, patch in zip(
            [t for t in axes.texts if t.get_fontsize() == 6.8], axes.patches, strict=True
        )
    }
    dark, less = (max(shade[each] for each in group.values()) for group in (SERIOUS, OTHER))
    assert dark < less < shade["aborts, names 2; ban"]
