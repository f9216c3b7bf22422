"""Limits of each user: places among a server's connections, and tokens for what may be asked often.

While a request is being answered its connection cannot make room for others, so no user may have
many of them. A token bucket lets so many through at once, and as many again in a span of time, one
after the other.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from mpcsim.errors import MpcError

SHARE: Final = 4
"""Divisor of a process's connections: the share that one user may have."""
MOST_OF_USER: Final = 250
"""Unless somebody says otherwise."""
MAX_BUCKETS: Final = 100_000
"""Buckets of one kind that are kept, some 200 bytes each; beyond, those not asked for the longest
are full again."""


class TooManyOfUser(MpcError):
    """Too many requests of the user are being answered already."""


class UserSlots:
    """Counts of requests of each user that are being answered. For one event loop."""

    def __init__(self, most: int = MOST_OF_USER) -> None:
        self._most = most
        self._counts: Counter[str] = Counter()

    @contextmanager
    def hold(self, user_id: str) -> Iterator[None]:
        """Hold a place in the block.

        Raises:
            TooManyOfUser: there is none left.
        """
        if self._counts[user_id] >= self._most:
            raise TooManyOfUser("too many requests of this user are being answered; try again")
        self._counts[user_id] += 1
        try:
            yield
        finally:
            self._counts[user_id] -= 1
            if not self._counts[user_id]:
                del self._counts[user_id]


@dataclass(frozen=True)
class TokenBucket:
    """The size of a bucket; how full one is its user remembers, as the time when it is full again
    (the virtual scheduling of ITU-T I.371)."""

    count: float
    """Tokens in a full one."""
    span_s: float
    """Seconds in which an empty bucket fills up."""

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


class KeyedBuckets:
    """A token bucket for each key, such as a user. For one thread at a time."""

    def __init__(self, bucket: TokenBucket) -> None:
        self._bucket = bucket
        self._full_at: OrderedDict[Hashable, float] = OrderedDict()
        """Time at which each bucket is full again, the last one that was asked for at the end.
        Those that are not here are full."""

    def __len__(self) -> int:
        return len(self._full_at)

    def take(self, key: Hashable, now: float) -> float:
        """Take a token from a key's bucket.

        Args:
            now: seconds, of any clock.

        Returns:
            0; or the seconds to wait if there is none, in which case it is not taken.
        """
        known = self._full_at
        while known and known[oldest := next(iter(known))] <= now:
            del known[oldest]
        known[key], wait_s = self._bucket.take(known.pop(key, now), now)
        if len(known) > MAX_BUCKETS:
            known.popitem(last=False)
        return wait_s

    def refund(self, key: Hashable) -> None:
        """Return the last token taken from a key's bucket."""
        if key in self._full_at:
            self._full_at[key] -= self._bucket.each_s
