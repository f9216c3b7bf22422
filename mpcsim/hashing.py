"""Random oracles: tagged, versioned and injectively framed.

No hash in this package is taken over hand-concatenated bytes: every part is length-prefixed
(alpha-shuffle, CVE-2022-47931, is what happens otherwise) and every use has its own tag, so no two
oracles can be confused.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from enum import Enum


class Tag(Enum):
    """Every domain-separation tag of the package, in one place."""

    RNG = "mpcsim/rng/v1"
    RNG_FORK = "mpcsim/rng/fork/v1"
    COMMITMENT = "mpcsim/commitment/v1"
    SCHNORR = "mpcsim/schnorr/v1"
    CONTEXT = "mpcsim/session/context/v1"
    SESSION = "mpcsim/session/id/v1"
    ECHO = "mpcsim/session/echo/v1"
    EPOCH = "mpcsim/key/epoch/v1"
    PAIR_SECRET = "mpcsim/channel/pair/v1"
    CHANNEL_KEY = "mpcsim/channel/key/v1"
    ZERO_SEED = "mpcsim/zero-share/seed/v1"
    ZERO_SHARE = "mpcsim/zero-share/v1"
    OT_BASE_POINT = "mpcsim/ot-base/hash-to-point/v1"
    OT_BASE_KEY = "mpcsim/ot-base/key/v1"
    OT_EXT_PRG = "mpcsim/ot-extension/prg/v1"
    OT_EXT_CHALLENGE = "mpcsim/ot-extension/challenge/v1"
    OT_EXT_OUTPUT = "mpcsim/ot-extension/output/v1"
    MTA_GADGET = "mpcsim/mta/ot/gadget/v1"
    MTA_SESSION = "mpcsim/mta/session/v1"
    MTA_THETA = "mpcsim/mta/ot/theta/v1"
    MTA_MU = "mpcsim/mta/ot/mu/v1"
    CONFIRM = "mpcsim/dkg/confirm/v1"


def u32(n: int) -> bytes:
    """Fixed-width encoding of a small integer, for use as a hash part."""
    return n.to_bytes(4, "big")


def _absorb(hasher: hashlib._Hash, tag: Tag, parts: Iterable[bytes]) -> None:
    for part in (tag.value.encode(), *parts):
        hasher.update(len(part).to_bytes(8, "big"))
        hasher.update(part)


def tagged_hash(tag: Tag, *parts: bytes) -> bytes:
    """SHA-256 of the framed tag and parts; 32 bytes."""
    hasher = hashlib.sha256()
    _absorb(hasher, tag, parts)
    return hasher.digest()


def tagged_xof(tag: Tag, length: int, *parts: bytes) -> bytes:
    """SHAKE-128 of the framed tag and parts; ``length`` bytes (128-bit security)."""
    hasher = hashlib.shake_128()
    _absorb(hasher, tag, parts)
    return hasher.digest(length)
