"""Sources of randomness, which are arguments and never globals.

``SystemRng`` is the default. Each protocol session draws one 32-byte seed from it and forks its
own ``Drbg``, so that a paused session resumes exactly where it was. ``SeededRng`` makes whole
experiments reproducible; it says so in its name, its repr and the first event of every trace.
"""

from __future__ import annotations

import hashlib
import os
from typing import Protocol

from mpcsim.crypto.hashing import Tag, tagged_hash

SEED_BYTES = 32


class Rng(Protocol):
    """A source of random bytes."""

    reproducible: bool
    """True when the output can be computed again by someone who knows a seed outside."""

    def bytes(self, n: int) -> bytes:
        """``n`` fresh random bytes."""
        ...


class SystemRng:
    """The operating system's generator."""

    reproducible = False

    def bytes(self, n: int) -> bytes:
        return os.urandom(n)


class Drbg:
    """Deterministic generator: SHAKE-256 of (seed, counter).

    Holds a secret; the repr does not show it.
    """

    __slots__ = ("_counter", "_key", "reproducible")

    def __init__(self, seed: bytes, *, reproducible: bool = False) -> None:
        self._key = tagged_hash(Tag.RNG, seed)
        self._counter = 0
        self.reproducible = reproducible

    def bytes(self, n: int) -> bytes:
        self._counter += 1
        block = self._key + self._counter.to_bytes(8, "big")
        return hashlib.shake_256(block).digest(n)

    def fork(self, label: str) -> Drbg:
        """Return an independent generator; the same seed and label give the same one."""
        forked = Drbg.__new__(Drbg)
        forked._key = tagged_hash(Tag.RNG_FORK, self._key, label.encode())
        forked._counter = 0
        forked.reproducible = self.reproducible
        return forked

    def __repr__(self) -> str:
        return f"{type(self).__name__}(<redacted>)"


class SeededRng(Drbg):
    """REPRODUCIBLE randomness for experiments: whoever knows the seed knows every secret."""

    __slots__ = ()

    def __init__(self, seed: bytes | int | str) -> None:
        if isinstance(seed, int):
            seed = str(seed)
        if isinstance(seed, str):
            seed = seed.encode()
        super().__init__(seed, reproducible=True)

    def __repr__(self) -> str:
        return "SeededRng(REPRODUCIBLE, NOT FOR REAL KEYS)"
