"""A token bucket: so many at once, and as many again in a span of time, one after the other."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TokenBucket:
    """The size of a bucket; how full one is its user remembers, as the time when it is full again
    (the virtual scheduling of ITU-T I.371)."""

    count: float
    """Tokens in a full one."""
    span_s: float
    """In which an empty one fills up."""

    @property
    def each_s(self) -> float:
        """Seconds that it takes for one token."""
        return self.span_s / self.count

    def take(self, full_at: float, now: float) -> tuple[float, float]:
        """Take a token.

        Args:
            full_at: when the bucket is full again; a time that is over: it is full.

        Returns:
            When it is full again after that; and how long to wait if there is none, in which case
            it is not taken.
        """
        after = max(full_at, now) + self.each_s
        # What fills up evenly and what was taken at once may differ by rounding.
        wait_s = after - now - self.span_s - 1e-9 * self.span_s
        return (full_at, wait_s) if wait_s > 0 else (after, 0.0)
