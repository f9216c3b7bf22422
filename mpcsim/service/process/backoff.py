"""Pauses between attempts."""

from __future__ import annotations

from collections.abc import Iterator


def retry_pauses(first_s: float, last_s: float) -> Iterator[float]:
    """Yield the seconds between attempts, each twice the one before, up to the last."""
    while True:
        yield first_s
        first_s = min(2 * first_s, last_s)
