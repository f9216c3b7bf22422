"""Places of each user among a server's connections.

While a request is being answered its connection cannot make room for others, so no user may have
many of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from mpcsim.errors import MpcError

SHARE: Final = 4
"""One user may have one in so many of a process's connections."""
MOST_OF_USER: Final = 250
"""Unless somebody says otherwise."""


class TooManyOfUser(MpcError):
    """So many requests of the user are being answered that one more is refused."""


class UserPlaces:
    """How many requests of each user are being answered. For one event loop."""

    def __init__(self, most: int = MOST_OF_USER) -> None:
        self._most = most
        self._held: Counter[str] = Counter()

    @contextmanager
    def held(self, user_id: str) -> Iterator[None]:
        """Hold a place in the block.

        Raises:
            TooManyOfUser: there is none left.
        """
        if self._held[user_id] >= self._most:
            raise TooManyOfUser("too many requests of this user are being answered; try again")
        self._held[user_id] += 1
        try:
            yield
        finally:
            self._held[user_id] -= 1
            if not self._held[user_id]:
                del self._held[user_id]
