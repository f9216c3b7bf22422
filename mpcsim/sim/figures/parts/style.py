"""Style of figures: fills of time intervals, styles of lines and markers, size of text.

Hue identifies the party, in every figure. Parts of time differ in lightness and hatching, other
lines in lightness and dashes; a bar can therefore show both its party and its part.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from mpcsim.errors import UsageError
from mpcsim.sim.colours import BLACK, DARK, GREY, LIGHT, WHITE, tint

Style = Mapping[str, Any]
"""Keyword arguments of matplotlib's line."""


@dataclass(frozen=True)
class Fill:
    """Fill of a time interval: a shade of the party's colour, and a hatching."""

    name: str
    shade: float
    """Strength of the colour: 1 is the colour itself, 0 white."""
    hatch: str = ""
    neutral: bool = False
    """Whether it is grey for every party: nothing happens."""

    def patch(self, ink: str = DARK) -> dict[str, Any]:
        """Return matplotlib's arguments of a patch with this fill, in a party's colour."""
        if self.neutral:
            ground, edge = (LIGHT if self.shade else WHITE), GREY if self.hatch else LIGHT
        else:
            ground, edge = tint(ink, self.shade), ink
        return {"facecolor": ground, "edgecolor": edge, "hatch": self.hatch or None, "lw": 0.5}


FILLS: Final[Mapping[str, Fill]] = {
    "compute": Fill("compute", 1.0),
    "waiting": Fill("waiting for a message", 1.0, neutral=True),
    "unanswered": Fill("waiting in vain", 1.0, "xxx", neutral=True),
    "propagation": Fill("propagation", 0.45),
    "transmission": Fill("transmission", 0.15),
    "window": Fill("window (slow start)", 0.0, "////"),
    "handshake": Fill("handshake", 0.25, r"\\\\"),
    "queueing": Fill("queueing", 0.0, "...."),
    "recovery": Fill("recovery (loss)", 0.0, "xxxxx"),
    "service": Fill("service at the gateway", 0.75),
    "contention": Fill("processor busy", 0.45, "||||"),
    "fault": Fill("delay by a fault", 0.0, "++++"),
    "flight": Fill("under way", 0.15, "..."),
    "idle": Fill("nothing happened", 0.0, "xxx", neutral=True),
}
"""Fills of the parts of time, in the order of the legend."""

OTHERS: Final = ((1.0, ""), (0.15, ""), (0.0, "////"), (0.5, ""), (0.0, "...."), (0.3, r"\\\\"))
OTHERS_MORE: Final = ((0.0, "xxxx"), (0.75, ""), (0.0, ""))


def fills_of(kinds: Iterable[str]) -> dict[str, Fill]:
    """Return a fill for each kind: that of ``FILLS``, or neutral fills if a kind is not there.

    Raises:
        UsageError: more kinds than can be told apart.
    """
    names = list(dict.fromkeys(kinds))
    if all(name in FILLS for name in names):
        return {name: fill for name, fill in FILLS.items() if name in names}
    looks = (*OTHERS, *OTHERS_MORE)
    if len(names) > len(looks):
        raise UsageError(f"{len(names)} kinds of parts: more than can be told apart")
    return {name: Fill(name, *look) for name, look in zip(names, looks, strict=False)}


LINES: Final[tuple[Style, ...]] = (
    {"color": BLACK, "linestyle": "-", "linewidth": 1.3},
    {"color": GREY, "linestyle": "-", "linewidth": 2.2},
    {"color": BLACK, "linestyle": "--", "linewidth": 1.3},
    {"color": GREY, "linestyle": ":", "linewidth": 2.2},
    {"color": BLACK, "linestyle": ":", "linewidth": 1.3},
    {"color": GREY, "linestyle": "--", "linewidth": 2.2},
)
"""Styles of lines that belong to no party."""
MARKERS: Final[tuple[Style, ...]] = (
    {"color": BLACK, "marker": "o", "markerfacecolor": BLACK, "markeredgecolor": BLACK},
    {"color": BLACK, "marker": "o", "markerfacecolor": WHITE, "markeredgecolor": BLACK},
    {"color": GREY, "marker": "s", "markerfacecolor": GREY, "markeredgecolor": GREY},
    {"color": GREY, "marker": "D", "markerfacecolor": WHITE, "markeredgecolor": GREY},
)
"""Styles of markers that belong to no party."""

FONT: Final = 7.5
"""Size of small text, in points."""
LETTER: Final = 0.062
"""Average width of a letter of small text in inches, rounded up."""
