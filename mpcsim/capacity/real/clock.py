"""Clock of a run, as exact as the kernel's.

An event loop counts seconds and rounds its timers. TCP's clock has whole ticks: what is due at the
end of one would be due a tick later after a rounding error.
"""

from __future__ import annotations

import asyncio
from typing import Final

CLOSE_MS: Final = 2e-6
"""Difference below which two times are the same."""


class Clock:
    """Milliseconds since the beginning, by the running event loop."""

    def __init__(self) -> None:
        self._began_s: float | None = None
        self._exact_ms = 0.0

    def begin(self) -> None:
        """Start the clock, unless it runs."""
        if self._began_s is None:
            self._began_s = asyncio.get_running_loop().time()

    def now_ms(self) -> float:
        """Return the time; before the beginning 0."""
        if self._began_s is None:
            return 0.0
        now = (asyncio.get_running_loop().time() - self._began_s) * 1000
        return self._exact_ms if abs(now - self._exact_ms) < CLOSE_MS else now

    def at(self, exact_ms: float) -> None:
        """Set the exact time of the present event."""
        self._exact_ms = exact_ms
