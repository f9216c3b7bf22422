"""What is said over a line: one JSON object a line, an answer for each with the same number."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mpcsim.errors import UsageError


@dataclass(frozen=True)
class Conditions:
    """What is in force in a process until it is told otherwise; its first line says it, too."""

    ahead_s: float = 0.0
    """Of its clock."""
    scenario: str | None = None
    """Text of a scenario file, for the gateway; None: as it was started."""
    delay_ms: float = 0.0
    """Of every request."""
    cut: bool = False
    """Nothing gets in or out."""


AS_STARTED = Conditions()


class NotApplied(UsageError):
    """A process has not done what it was told, or not in time."""


def command_line(number: int, do: str, what: Mapping[str, Any]) -> bytes:
    """What a process is to do."""
    return json.dumps({"number": number, "do": do, **what}).encode() + b"\n"
