"""The colours of all pictures, and which of them is whose.

Colours are those of Okabe and Ito, which people with colour-blindness can tell apart, and neutral
greys. A party has the same colour in every picture, whoever else takes part.

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
    """A colour mixed with white: all of it at 1, none at 0."""
    parts = (255 - strength * (255 - byte) for byte in bytes.fromhex(colour[1:]))
    return "#" + "".join(f"{round(part):02X}" for part in parts)


@dataclass(frozen=True)
class PartyColour:
    """A party's colour, and its shades for grounds that carry text."""

    line: str
    """Of the palette: arrows, bars and names on white."""
    on_light: str
    """Under white text, or as text on a light ground (contrast 4.5 or more)."""
    on_dark: str
    """The same with black text, on a dark ground."""


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
    """The colour of the party with this identifier, in every picture; the eighth begins anew."""
    return _PARTIES[(party - 1) % len(_PARTIES)]
