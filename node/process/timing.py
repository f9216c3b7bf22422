"""Timing of a request's phases, for the ``Server-Timing`` header (W3C Server Timing)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from mpcsim.service.web.request_records import Span, totals_ms


class Timing:
    """Named durations of one request, from the moment this object is made.

    Spans of one name add up; spans may overlap (Argon2id runs beside the protocol's rounds), so
    their sum may exceed the total.

    Args:
        clock: seconds, monotonic.
    """

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._began = clock()
        self.spans: list[Span] = []
        """Phases so far, by the clock."""

    @contextmanager
    def span(self, name: str) -> Iterator[None]:
        """Count the time inside towards ``name`` (an HTTP token), whatever is raised inside."""
        began = self._clock()
        try:
            yield
        finally:
            self.spans.append((name, began, self._clock()))

    def total_ms(self) -> float:
        """Milliseconds so far."""
        return (self._clock() - self._began) * 1e3

    def header(self) -> str:
        """The header's value, in milliseconds: ``vault;dur=1.2, round1;dur=3.1, total;dur=8.0``."""
        spans = [f"{name};dur={ms:.1f}" for name, ms in totals_ms(self.spans).items()]
        return ", ".join([*spans, f"total;dur={self.total_ms():.1f}"])
