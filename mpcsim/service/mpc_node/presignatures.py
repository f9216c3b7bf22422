"""Single use of presignatures: each is spent at two MPC nodes, which both must agree to one use.

Participants
    C      a client (the REST node); the caller keeps C's part of each presignature, sealed
    X      the MPC node that signs with it; keeps its own share of the presignature
    Y      the other MPC node; keeps usage tokens (``allowance`` on the wire): each permits one use
    G      the gateway: routes; may crash, replay or lie

Messages in order; nothing is stored at X or Y, all of it lives in one process's memory
  making
    1   C -> X       sign(count): a session of the presigning protocol
    2   C -> Y       open(half of the vault, count)
    3   X            keeps its share of each presignature, by id
    4   Y -> C       its half, and a fresh random usage token, kept with the numbers 0 to count - 1
    5   C            seals its parts with X, the ids, token, numbers and the boots of X and Y
  use, both requests at once
    6   C -> X       presigned(id, message hash, path, rho, proof)
    7   X -> C       [share of the presignature removed] share of the signature, re-randomised by
                     the request, and X's half of the vault
    8   C -> Y       open(half, id, token and number, hash of message, path and rho, proof)
    9   Y -> C       [token and number removed] Y's half
    10  C            opens the vault with both halves, and finishes the signature

Invariants
    P1  X signs at most once with its share of a presignature: removed before anything is computed.
    P2  Y opens its half at most once for a presignature: so a client that keeps to the rules gets
        at most one signature of each, even if X is corrupt or restored from a backup.
    P3  Shares and tokens end with the process. The proofs in 6 and 8 name the node's start, and
        another one refuses them (``Boot.check_boot``).
    P4  They end with the epoch: when it is suspended or replaced.

Crashes
    before 5           what X and Y keep is used by nobody, and makes room for later ones
    an answer is lost  the presignature is spent: the caller signs with another, or in a session
    X or Y restarts    all presignatures with it are void

Limits
    A client that breaks the rules, with store, share and token, can open its vault without a usage
    token. Against it only P1 counts: no process may be restored from a snapshot of its memory.
    Beyond ``MAX_OF_A_KEY`` and ``MAX_OF_ALL`` the oldest are dropped: such a signature takes a
    session.

Checked by: ``tests/node/test_presignatures``; ``tests/service/mpc_node``: ``test_presigned``,
``test_presignatures``; the rows of ``tests/attacks/test_service`` on presignatures.
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
"""Presignatures kept of one key, some kB each; beyond, the oldest are dropped."""
MAX_OF_ALL: Final = 1 << 16
"""Presignatures kept of all keys; beyond, those of the key that got none for longest go."""


class _BoundedPool(Generic[K, V]):
    """Pool of values by key_id and name, bounded by dropping the oldest."""

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
        """Remove a value and return it.

        Raises:
            Refused: there is none of that name.
        """
        if name not in self._of.get(key_id, ()):
            raise no_such_presignature()
        return self._pop(key_id, name)

    def forget(self, key_id: str) -> None:
        """Drop all values of a key."""
        self._size -= len(self._of.pop(key_id, ()))

    def clear(self) -> None:
        """Drop all values of all keys."""
        self._of.clear()
        self._size = 0

    def _pop(self, key_id: str, name: K) -> V:
        mine = self._of[key_id]
        thing = mine.pop(name)
        self._size -= 1
        if not mine:
            del self._of[key_id]
        return thing


class PresignatureShares(_BoundedPool[bytes, Presignature]):
    """This node's shares of presignatures that it signs with, by id; taken at 7 (P1)."""

    def keep(self, key_id: str, presignatures: Iterable[Presignature]) -> None:
        for presignature in presignatures:
            self.put(key_id, presignature.id, presignature)


class UsageTokens(_BoundedPool[tuple[bytes, int], None]):
    """Usage tokens: each permits one use of presignatures that the other node signs with (P2)."""

    def issue(self, key_id: str, count: int, rng: Rng) -> bytes:
        """Return a usage token for ``count`` presignatures: numbers 0, 1, ... of it (4).

        It is a new one every time, so that a repeated request permits nothing again that has been
        used.
        """
        allowance = rng.bytes(ALLOWANCE_BYTES)
        for index in range(count):
            self.put(key_id, (allowance, index), None)
        return allowance

    def use(self, key_id: str, allowance: bytes, index: int) -> None:
        """Spend a number of a usage token (9).

        Raises:
            Refused: it has been spent, or never was issued.
        """
        self.take(key_id, (allowance, index))


class Presignatures:
    """Shares and usage tokens of one MPC node; changed under the node's lock."""

    def __init__(self, lock: threading.RLock) -> None:
        self.shares, self.usage_tokens = PresignatureShares(), UsageTokens()
        self._lock = lock

    def forget(self, key_id: str) -> None:
        """Drop those of a key that is suspended, or not in force any more (P4)."""
        with self._lock:
            self.shares.forget(key_id)
            self.usage_tokens.forget(key_id)

    def clear(self) -> None:
        """Drop all of them, as a restart does (P3)."""
        self.shares.clear()
        self.usage_tokens.clear()
