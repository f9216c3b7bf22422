"""What an MPC node keeps of presignatures, in memory only.

Of those it signs with, its own part (``PresignatureShares``). Of those that the other MPC node
signs with, that they may be used, once (``UsageTokens``): for a client that keeps to the rules,
single use does not rest on the one that signs, which may be corrupt, or come back from a backup. (A
client that does not, with store, share and token, can open its vault without an allowance; against
it the parts count, so that no process is to be restored from a snapshot of its memory.) Neither
list is ever stored, so that a restart voids everything; and a boot, which is in what the client
keeps, is of one process.

Whatever is dropped for want of room is signed by the full protocol instead.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable
from typing import Final, Generic, TypeVar

from mpcsim.crypto.rng import Rng
from mpcsim.ids import ALLOWANCE_BYTES
from mpcsim.protocols.presign import Presignature
from mpcsim.service.errors import no_such_presignature

K = TypeVar("K")
V = TypeVar("V")

MAX_OF_A_KEY: Final = 256
"""Presignatures of one key; then the oldest go. Some kB each."""
MAX_OF_ALL: Final = 1 << 16
"""Presignatures; then those go whose key has got none for longest."""


class _BoundedPool(Generic[K, V]):
    """Things of keys, in the order in which they came."""

    def __init__(self) -> None:
        self._of: OrderedDict[str, OrderedDict[K, V]] = OrderedDict()
        self._size = 0

    def put(self, key_id: str, name: K, thing: V) -> None:
        mine = self._of.setdefault(key_id, OrderedDict())
        self._of.move_to_end(key_id)
        mine[name] = thing
        self._size += 1
        if len(mine) > MAX_OF_A_KEY:
            self._pop(key_id, next(iter(mine)))
        if self._size > MAX_OF_ALL:
            self.forget(next(iter(self._of)))

    def take(self, key_id: str, name: K) -> V:
        """What is there under that name; then it is not there any more.

        Raises:
            Refused: there is nothing.
        """
        if name not in self._of.get(key_id, ()):
            raise no_such_presignature()
        return self._pop(key_id, name)

    def forget(self, key_id: str) -> None:
        """Of a key that is not signed with any more."""
        self._size -= len(self._of.pop(key_id, ()))

    def clear(self) -> None:
        self._of.clear()
        self._size = 0

    def _pop(self, key_id: str, name: K) -> V:
        mine = self._of[key_id]
        thing = mine.pop(name)
        self._size -= 1
        if not mine:
            del self._of[key_id]
        return thing


class PresignatureShares:
    """This node's parts of presignatures that it signs with."""

    def __init__(self) -> None:
        self._pool: _BoundedPool[bytes, Presignature] = _BoundedPool()

    def keep(self, key_id: str, presignatures: Iterable[Presignature]) -> None:
        for presignature in presignatures:
            self._pool.put(key_id, presignature.id, presignature)

    def take(self, key_id: str, identifier: bytes) -> Presignature:
        """A part, which is not kept any more.

        Raises:
            Refused: it is not here.
        """
        return self._pool.take(key_id, identifier)

    def forget(self, key_id: str) -> None:
        """All of a key."""
        self._pool.forget(key_id)

    def clear(self) -> None:
        """All of all keys."""
        self._pool.clear()


class UsageTokens:
    """Which presignatures the other MPC node's signatures may still be made with."""

    def __init__(self) -> None:
        self._pool: _BoundedPool[tuple[bytes, int], None] = _BoundedPool()

    def issue(self, key_id: str, count: int, rng: Rng) -> bytes:
        """Allow so many to be used once each: numbers 0, 1, ... under the allowance returned.

        It is another one every time: who has a request for it repeated allows nothing again that
        has been used.
        """
        allowance = rng.bytes(ALLOWANCE_BYTES)
        for index in range(count):
            self._pool.put(key_id, (allowance, index), None)
        return allowance

    def use(self, key_id: str, allowance: bytes, index: int) -> None:
        """Allow it no more.

        Raises:
            Refused: it is not allowed.
        """
        self._pool.take(key_id, (allowance, index))

    def forget(self, key_id: str) -> None:
        """All of a key."""
        self._pool.forget(key_id)

    def clear(self) -> None:
        """All of all keys."""
        self._pool.clear()


class Presignatures:
    """All that an MPC node keeps of presignatures; changed under the node's lock."""

    def __init__(self, lock: threading.RLock) -> None:
        self.shares, self.usage_tokens = PresignatureShares(), UsageTokens()
        self._lock = lock

    def forget(self, key_id: str) -> None:
        """Forget those of a key that is suspended, or not in force any more."""
        with self._lock:
            self.shares.forget(key_id)
            self.usage_tokens.forget(key_id)

    def clear(self) -> None:
        """Forget all of them, as a restart does."""
        self.shares.clear()
        self.usage_tokens.clear()
