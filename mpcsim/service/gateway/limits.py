"""Rate limits of users at the gateway: a token bucket for each user and limited verb.

Off unless a rate is given. The limits are the gateway's, since it serves all REST nodes and their
processes. It sees verbs: a recovery is a ``recover``, a signature a ``sign`` or a ``presigned`` (a
session that makes presignatures counts as one, too), and a password guess is an ``open``, unless
the REST node says that it opens the vault for something else (``wire.NO_GUESS``), such as a
signature. This does not protect against a caller who asks the gateway itself with a token: with one
opened vault any number of passwords can be tried elsewhere.

Refused requests do not count, whatever the reason. Counts are in memory: a restart of the gateway
forgets them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final, Self

from mpcsim.errors import InvalidEncoding, UsageError
from mpcsim.service.errors import GUESSES, RECOVERIES, SIGNATURES, Refused, rate_exceeded
from mpcsim.service.gateway.sessions.sessions import CallerContext
from mpcsim.service.web.user_limits import KeyedBuckets, TokenBucket

MINUTE_S: Final = 60.0
_RATE: Final = re.compile(r"(?P<count>[0-9]{1,9})(?:/(?P<seconds>[0-9]{1,9}(?:\.[0-9]{1,9})?)s?)?")

Verb = Callable[[CallerContext, bytes], Awaitable[Any]]


@dataclass(frozen=True)
class Rate:
    """Rate: ``count`` times in ``seconds``; all of them may come at once."""

    count: int
    seconds: float = MINUTE_S

    def __post_init__(self) -> None:
        if type(self.count) is not int or self.count < 1 or not 0 < self.seconds < math.inf:
            raise UsageError(f"{self} is no rate: at least 1, in a time above 0")

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse ``5`` (a minute) or ``5/30s``.

        Raises:
            UsageError: the text is no rate.
        """
        found = _RATE.fullmatch(text)
        if found is None:
            raise UsageError(f"{text!r} is no rate such as 5 (a minute) or 5/30s")
        return cls(int(found["count"]), float(found["seconds"] or MINUTE_S))

    def __str__(self) -> str:
        return f"{self.count}/{self.seconds:.9g}s"


class Limit:
    """Rate limit of one verb: a token bucket of ``count`` for each user."""

    def __init__(
        self,
        what: str,
        rate: Rate,
        clock: Callable[[], float],
        is_counted: Callable[[CallerContext], bool] = lambda caller: True,
    ) -> None:
        """
        Args:
            what: name of what is limited, for error texts.
            clock: monotonic seconds.
            is_counted: whether a request counts against the limit.
        """
        self.what = what
        self.rate = rate
        self.buckets = KeyedBuckets(TokenBucket(rate.count, rate.seconds))
        self._clock = clock
        self._is_counted = is_counted

    def take(self, user_id: str) -> None:
        """Take one token from a user's bucket.

        Raises:
            Refused: the bucket is empty; nothing is taken.
        """
        if wait_s := self.buckets.take(user_id, self._clock()):
            raise rate_exceeded(self.what, max(1, math.ceil(wait_s)))

    def limit_verb(self, verb: Verb) -> Verb:
        """Wrap a verb of the gateway so that it is refused beyond the limit."""

        async def limited(caller: CallerContext, data: bytes) -> Any:
            if not self._is_counted(caller):
                return await verb(caller, data)
            user_id = caller.claims.user_id
            self.take(user_id)
            try:
                return await verb(caller, data)
            except (Refused, InvalidEncoding):
                self.buckets.refund(user_id)
                raise

        return limited


def limits_by_verb(
    clock: Callable[[], float],
    *,
    guesses: Rate | None = None,
    recoveries: Rate | None = None,
    signatures: Rate | None = None,
) -> dict[str, Limit]:
    """Return the limits by verb of the gateway.

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
