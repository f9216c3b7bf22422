"""Chart of the attack matrix: each attack with the check on and off. Needs matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from mpcsim.attacks.catalogue import FAMILIES
from mpcsim.attacks.model import Effect, Finding, Verdict
from mpcsim.attacks.report import Matrix
from mpcsim.errors import Consequence
from mpcsim.sim.figures import BLACK, DARK, WHITE, Chart, new_chart, tint

WIDTH: Final = 14.0
ROW: Final = 0.235
"""Sizes are in inches."""
NAME: Final = 3.6
CELL: Final = 1.65

SERIOUS: Final = {
    Effect.KEY: "private key recovered",
    Effect.FORGERY: "signature forged",
    Effect.LEAK: "secrets recovered",
    Effect.CHOSEN_KEY: "attacker chose the key",
}
"""Effects that cost the money, in short."""
OTHER: Final = {
    Effect.BIAS: "random value steered",
    Effect.UNUSABLE: "shares do not combine",
    Effect.SPLIT: "two truths",
    Effect.BAD_OUTPUT: "invalid signature out",
    Effect.MALLEABLE: "second encoding valid",
    Effect.AMBIGUOUS: "commitment opens twice",
    Effect.NO_KNOWLEDGE: "empty proof accepted",
    Effect.HONEST_BLAMED: "honest party blamed",
    Effect.NOBODY_NAMED: "cheater stays unnamed",
    Effect.CRASH: "honest party crashes",
}
"""Effects that cost availability or trust, in short."""
DO: Final = {
    Consequence.RETRY: "retry",
    Consequence.BAN: "ban",
    Consequence.BAN_AND_DISCARD_OT: "discard OT",
}
ENDED: Final = {
    Verdict.REFUSED: "refused before it starts",
    Verdict.WAITING: "waits, says for whom",
    Verdict.HARMLESS: "completes; nothing gained",
    Verdict.ERROR: "the entry failed",
    Verdict.BROKEN: "broken",
}


def short_text(found: Finding) -> str:
    """Return a finding in a few words."""
    if found.effect:
        return (SERIOUS | OTHER)[found.effect]
    if found.verdict is Verdict.ABORTED and found.consequence:
        named = f"names {min(found.culprits)}" if found.culprits else "names nobody"
        return f"aborts, {named}; {DO[found.consequence]}"
    return ENDED[found.verdict]


def matrix_chart(matrix: Matrix) -> Chart:
    """Draw the matrix: a row for each attack; the darker a cell, the worse its finding.

    >>> figure = at_a_glance(report.collect(list(report.run())))
    """
    found = {(cell.attack.id, cell.check_on): cell.observed for cell in matrix.cells}
    sizes = {family: 1.35 + len(attacks) for family, attacks in FAMILIES.items()}
    left: list[str] = []
    while sum(sizes[family] for family in left) < sum(sizes.values()) / 2:
        left.append(list(FAMILIES)[len(left)])
    columns = left, [family for family in FAMILIES if family not in left]
    rows = max(sum(sizes[family] for family in column) for column in columns) + 1
    figure = new_chart(WIDTH, ROW * rows)
    for at, column in enumerate(columns):
        axes = figure.add_axes((at / 2, 0, 0.5, 1))
        axes.set_xlim(0, WIDTH / 2)
        axes.set_ylim(rows - 1, -1)
        axes.axis("off")
        _draw(axes, column, found)
    return figure


def _draw(axes: Axes, families: Sequence[str], found: dict[tuple[str, bool], Finding]) -> None:
    places = ((NAME, True), (NAME + CELL + 0.05, False))
    for x, check_on in places:
        head = "check on" if check_on else "check off"
        axes.text(x, -0.4, head, weight="bold", fontsize=8.5, va="center")
    row = 0.0
    for family in families:
        axes.text(0.1, row + 0.5, family, weight="bold", fontsize=8.5, va="center")
        for attack in FAMILIES[family]:
            row += 1
            name = f"{attack.id}  {attack.name}"
            axes.text(0.15, row + 0.5, name, fontsize=7, color=DARK, va="center")
            for x, check_on in places:
                if (attack.id, check_on) in found:
                    _cell(axes, x, row, found[attack.id, check_on])
        row += 1.35


def _cell(axes: Axes, x: float, row: float, found: Finding) -> None:
    shade = _shade(found)
    face = tint(DARK, shade)
    axes.add_patch(Rectangle((x, row + 0.06), CELL, 0.88, facecolor=face, edgecolor="none"))
    ink = WHITE if shade > 0.5 else BLACK
    axes.text(x + 0.06, row + 0.5, short_text(found), fontsize=6.8, color=ink, va="center")


def _shade(found: Finding) -> float:
    if found.effect:
        return 0.95 if found.effect in SERIOUS else 0.6
    if found.verdict is Verdict.ABORTED:
        return 0.25 if found.culprits else 0.16
    return 0.07
