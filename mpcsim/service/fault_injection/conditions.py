"""Messages over a control line: one JSON object a line, and an answer with the same number for
each."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mpcsim.errors import UsageError


@dataclass(frozen=True)
class Conditions:
    """Conditions in force in a process until others are set; the first line of its control line
    sets them."""

    ahead_s: float = 0.0
    """Seconds that its clock is ahead."""
    scenario: str | None = None
    """Text of a scenario file, for the gateway; None: as it was started."""
    delay_ms: float = 0.0
    """Delay of every request."""
    cut: bool = False
    """Whether the process is cut off: nothing gets in or out."""


AS_STARTED = Conditions()


class NotApplied(UsageError):
    """A process has not carried out a command, or not in time."""


def command_line(number: int, do: str, what: Mapping[str, Any]) -> bytes:
    """Return the line that tells a process to do something."""
    return json.dumps({"number": number, "do": do, **what}).encode() + b"\n"
