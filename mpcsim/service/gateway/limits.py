"""How often a user may do something: so many times in a span of time, all of them at once if need
be. Off unless a rate is given.

Limits are the gateway's, since there is one for all REST nodes and their processes. What it sees
are verbs: a recovery is a ``recover``, a signature a ``sign`` or a ``presigned`` (a session that
makes presignatures counts as one, too), and a guess at a password is an ``open``, unless the REST
node says that it is for something else (``wire.NO_GUESS``): before a signature, or to see whether a
share is whole. This is no protection against whoever has a token and asks the gateway
itself: with one opened vault any number of passwords can be tried elsewhere.

What is refused, by this or for any other reason, does not count. Counts are in memory: a restart of
the gateway forgets them.
"""

from __future__ import annotations

import math
import re
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final, Self

from mpcsim.errors import InvalidEncoding, UsageError
from mpcsim.service.errors import GUESSES, RECOVERIES, SIGNATURES, Refused, too_often
from mpcsim.service.gateway.sessions.sessions import CallerContext
from mpcsim.service.web.user_limits import TokenBucket

MAX_USERS: Final = 100_000
"""Of whom it is known how much they have asked for, some 200 bytes each; of more, those who have
not asked for anything the longest may do so as if they never had."""
MINUTE_S: Final = 60.0
_RATE: Final = re.compile(r"(?P<count>[0-9]{1,9})(?:/(?P<seconds>[0-9]{1,9}(?:\.[0-9]{1,9})?)s?)?")

Verb = Callable[[CallerContext, bytes], Awaitable[Any]]


@dataclass(frozen=True)
class Rate:
    """So many times in so many seconds."""

    count: int
    seconds: float = MINUTE_S

    def __post_init__(self) -> None:
        if type(self.count) is not int or self.count < 1 or not 0 < self.seconds < math.inf:
            raise UsageError(f"{self} is no rate: at least 1, in a time above 0")

    @classmethod
    def parse(cls, text: str) -> Self:
        """``5``, which is a minute's, or ``5/30s``.

        Raises:
            UsageError: it is something else.
        """
        found = _RATE.fullmatch(text)
        if found is None:
            raise UsageError(f"{text!r} is no rate such as 5 (a minute) or 5/30s")
        return cls(int(found["count"]), float(found["seconds"] or MINUTE_S))

    def __str__(self) -> str:
        return f"{self.count}/{self.seconds:.9g}s"


class Limit:
    """One rate, for each user by itself: a bucket of ``count`` that fills up again evenly."""

    def __init__(
        self,
        what: str,
        rate: Rate,
        clock: Callable[[], float],
        is_counted: Callable[[CallerContext], bool] = lambda caller: True,
    ) -> None:
        """
        Args:
            what: is limited, for whoever is refused.
            clock: monotonic seconds.
            counts: whether a request is one of those.
        """
        self.what = what
        self.rate = rate
        self._bucket = TokenBucket(rate.count, rate.seconds)
        self._clock = clock
        self._is_counted = is_counted
        self._full_at: OrderedDict[str, float] = OrderedDict()
        """When a user's bucket is full again; who asked last is last. Who is not here has a full
        one."""

    def take(self, user_id: str) -> None:
        """Count one.

        Raises:
            Refused: the user has to wait; nothing is counted.
        """
        now, known = self._clock(), self._full_at
        while known and known[oldest := next(iter(known))] <= now:
            del known[oldest]
        full_at, wait_s = self._bucket.take(known.get(user_id, now), now)
        if wait_s > 0:
            raise too_often(self.what, max(1, math.ceil(wait_s)))
        known[user_id] = full_at
        known.move_to_end(user_id)
        if len(known) > MAX_USERS:
            known.popitem(last=False)

    def refund(self, user_id: str) -> None:
        """What was counted last has come to nothing."""
        if user_id in self._full_at:
            self._full_at[user_id] -= self._bucket.each_s

    @property
    def users(self) -> int:
        """Of whom something is known."""
        return len(self._full_at)

    def limit_verb(self, verb: Verb) -> Verb:
        """A verb of the gateway, as far as it is within the limit."""

        async def limited(caller: CallerContext, data: bytes) -> Any:
            if not self._is_counted(caller):
                return await verb(caller, data)
            user_id = caller.claims.user_id
            self.take(user_id)
            try:
                return await verb(caller, data)
            except (Refused, InvalidEncoding):
                self.refund(user_id)
                raise

        return limited


def limits_by_verb(
    clock: Callable[[], float],
    *,
    guesses: Rate | None = None,
    recoveries: Rate | None = None,
    signatures: Rate | None = None,
) -> dict[str, Limit]:
    """Which verbs of the gateway are limited, and how.

    Args:
        clock: monotonic seconds.
    """
    found = {}
    if guesses is not None:
        found["open"] = Limit(GUESSES, guesses, clock, lambda caller: caller.is_password_guess)
    if recoveries is not None:
        found["recover"] = Limit(RECOVERIES, recoveries, clock)
    if signatures is not None:
        found["sign"] = found["presigned"] = Limit(SIGNATURES, signatures, clock)
    return found
