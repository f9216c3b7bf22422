"""What figures look like: colours, and how stretches of time are filled.

Colours are those of Okabe and Ito, which people with colour-blindness can tell apart, and neutral
greys.

Sources:
    M. Okabe and K. Ito, Color Universal Design, 2002 (rev. 2008).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

BLACK, ORANGE, SKY, GREEN = "#000000", "#E69F00", "#56B4E9", "#009E73"
YELLOW, BLUE, VERMILLION, PURPLE = "#F0E442", "#0072B2", "#D55E00", "#CC79A7"
PALETTE: Final = (BLACK, ORANGE, SKY, GREEN, YELLOW, BLUE, VERMILLION, PURPLE)
"""The eight colours of Okabe and Ito."""
WHITE, PALE, LIGHT, GREY, DARK = "#FFFFFF", "#F3F3F3", "#D9D9D9", "#7F7F7F", "#333333"
NEUTRALS: Final = (WHITE, PALE, LIGHT, GREY, DARK)
"""Greys, besides the palette."""

PARTY_COLOURS: Final = (BLUE, VERMILLION, GREEN, PURPLE, ORANGE, BLACK, SKY)
"""Of parties 1 to 7, then from the beginning again."""


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


FONT = 7.5
"""Size of small text, in points."""
