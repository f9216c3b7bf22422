"""Legends under figures, with as many entries side by side as fit."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from matplotlib.artist import Artist
from matplotlib.figure import Figure

from mpcsim.sim.colours import DARK
from mpcsim.sim.figures.parts.style import FONT

HANDLE: Final = 0.5
"""Width of a handle before a name, with the gap behind it, in inches."""
LINE: Final = 0.17
LETTER: Final = 0.056
"""Average width of a letter in long names, in inches."""


def legend_inches(labels: Sequence[str], width: float) -> float:
    """Return the height of a legend with these names in a figure of this width, in inches."""
    if not labels:
        return 0.0
    return 0.1 + LINE * math.ceil(len(labels) / _columns(labels, width))


def add_legend(figure: Figure, handles: Sequence[Artist]) -> None:
    """Add a legend of these handles at the bottom; none if there are no handles."""
    if not handles:
        return
    labels = [str(handle.get_label()) for handle in handles]
    figure.legend(
        handles=list(handles),
        loc="lower center",
        ncols=_columns(labels, float(figure.get_size_inches()[0])),
        fontsize=FONT,
        labelcolor=DARK,
        frameon=False,
        handlelength=2.2,
        handleheight=1.0,
        columnspacing=1.4,
        borderpad=0.2,
    )


def _columns(labels: Sequence[str], width: float) -> int:
    each = HANDLE + LETTER * max(map(len, labels))
    return max(1, min(len(labels), int((width - 0.1) / each)))
