"""What figures look like: how stretches of time are filled, how large small text is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from mpcsim.sim.colours import (
    BLACK,
    BLUE,
    GREEN,
    GREY,
    LIGHT,
    ORANGE,
    PURPLE,
    SKY,
    VERMILLION,
    WHITE,
    YELLOW,
)


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
