"""Random number streams of simulations: one generator for each seed, purpose and index.

Two streams are independent unless all three are equal: keys are SHA-256 digests, so that every bit
of a seed counts and adjacent seeds have nothing in common.
"""

from __future__ import annotations

import hashlib
import json
import operator
from typing import Final

import numpy as np

from mpcsim.errors import UsageError

SEED_BITS: Final = 53
"""Bits of a derived seed: every file format and browser holds such integers exactly."""


def whole_seed(seed: int) -> int:
    """Return a seed, an integer of any library, as one of Python.

    Raises:
        UsageError: it is no whole number.
    """
    try:
        return operator.index(seed)
    except TypeError:
        raise UsageError(f"seed: expected int, not {type(seed).__name__}") from None


def stream_key(seed: int, purpose: str, *index: int | str) -> int:
    """Derive 128 bits from a seed, a purpose and an index (SHA-256).

    Raises:
        UsageError: the seed is no whole number.
    """
    name = json.dumps([whole_seed(seed), purpose, *index], ensure_ascii=True)
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:16], "big")


def generator(seed: int, purpose: str, *index: int | str) -> np.random.Generator:
    """Return the generator of a stream."""
    return np.random.default_rng(stream_key(seed, purpose, *index))


def derived_seed(seed: int, purpose: str, *index: int | str) -> int:
    """Derive a seed of ``SEED_BITS`` bits, for a component with streams of its own."""
    return stream_key(seed, purpose, *index) >> (128 - SEED_BITS)
