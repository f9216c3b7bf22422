"""Colours of all figures, and the assignment of colours to parties.

The palette is that of Okabe and Ito, which colour-blind readers can tell apart, with neutral greys.
A party has the same colour in every figure, whoever else takes part.

Sources:
    M. Okabe and K. Ito, Color Universal Design, 2002 (rev. 2008).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

BLACK, ORANGE, SKY, GREEN = "#000000", "#E69F00", "#56B4E9", "#009E73"
YELLOW, BLUE, VERMILLION, PURPLE = "#F0E442", "#0072B2", "#D55E00", "#CC79A7"
PALETTE: Final = (BLACK, ORANGE, SKY, GREEN, YELLOW, BLUE, VERMILLION, PURPLE)
"""The eight colours of Okabe and Ito."""
WHITE, PALE, LIGHT, GREY, DARK = "#FFFFFF", "#F3F3F3", "#D9D9D9", "#7F7F7F", "#333333"
NEUTRALS: Final = (WHITE, PALE, LIGHT, GREY, DARK)
"""Greys, besides the palette."""


def tint(colour: str, strength: float) -> str:
    """Return a colour mixed with white: the colour itself at ``strength`` 1, white at 0."""
    parts = (255 - strength * (255 - byte) for byte in bytes.fromhex(colour[1:]))
    return "#" + "".join(f"{round(part):02X}" for part in parts)


@dataclass(frozen=True)
class PartyColour:
    """Colour of a party, and its shades for backgrounds that carry text."""

    line: str
    """Colour of the palette, for arrows, bars and names on white."""
    on_light: str
    """Shade for white text on it, or for text on a light ground (contrast 4.5 or more)."""
    on_dark: str
    """Shade for black text on it, or for text on a dark ground."""


_PARTIES: Final = (
    PartyColour(BLUE, "#0072B2", "#6CC0F2"),
    PartyColour(VERMILLION, "#B84E00", "#FF9B5E"),
    PartyColour(GREEN, "#007A58", "#3FD0A6"),
    PartyColour(PURPLE, "#A04A7D", "#E8A3CB"),
    PartyColour(ORANGE, "#8A6000", "#ECC04F"),
    PartyColour(BLACK, "#333333", "#DCDCDC"),
    PartyColour(SKY, "#1F7AA8", "#A5D8F3"),
)


def party_colour(party: int) -> PartyColour:
    """Return the colour of the party with this identifier; the eighth has that of the first."""
    return _PARTIES[(party - 1) % len(_PARTIES)]
