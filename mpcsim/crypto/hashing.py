"""Random oracles: tagged, versioned and injectively framed.

No oracle is queried on hand-concatenated bytes: every part is length-prefixed (alpha-shuffle,
CVE-2022-47931, is what happens otherwise) and every use has its own tag, so no two can be confused.
"""

from __future__ import annotations

import hashlib
from enum import Enum
from functools import lru_cache
from typing import Final

RESERVED: Final = "mpcsim/"
"""Prefix of the package's own tags."""


class HashTag(Enum):
    """Domain-separation tags.

    A protocol of another project has tags of its own in a subclass::

        class CoinTag(HashTag):
            COMMITMENT = "coin-toss/commitment/v1"
    """

    def __init__(self, name: str) -> None:
        """
        Raises:
            ValueError: the tag begins as the package's own do, and is none of them.
        """
        if name.startswith(RESERVED) and type(self).__module__ != __name__:
            raise ValueError(f"hash tag {name!r}: those with {RESERVED} are mpcsim's own")
        self.prefix = len(name).to_bytes(8, "big") + name.encode()
        """The framed tag."""


class Tag(HashTag):
    """Every domain-separation tag of the package, in one place."""

    RNG = "mpcsim/rng/v1"
    RNG_FORK = "mpcsim/rng/fork/v1"
    COMMITMENT = "mpcsim/commitment/v1"
    SCHNORR = "mpcsim/schnorr/v1"
    CONTEXT = "mpcsim/session/context/v1"
    SESSION = "mpcsim/session/id/v1"
    HEDGE = "mpcsim/session/hedge/v1"
    SESSION_CALL = "mpcsim/session/call/v1"
    RECEIVED = "mpcsim/session/received/v1"
    ECHO = "mpcsim/session/echo/v1"
    EPOCH = "mpcsim/key/epoch/v1"
    CHAIN_CODE = "mpcsim/key/chain-code/v1"
    PAIR_SECRET = "mpcsim/channel/pair/v1"
    CHANNEL_KEY = "mpcsim/channel/key/v1"
    ZERO_SEED = "mpcsim/zero-share/seed/v1"
    ZERO_SHARE = "mpcsim/zero-share/v1"
    OT_BASE_POINT = "mpcsim/ot-base/hash-to-point/v1"
    OT_BASE_KEY = "mpcsim/ot-base/key/v1"
    OT_TREE = "mpcsim/ot-all-but-one/level/v1"
    OT_LEAF = "mpcsim/ot-all-but-one/leaf/v1"
    OT_LEAVES = "mpcsim/ot-all-but-one/leaves/v1"
    OT_EXT_PRG = "mpcsim/ot-extension/prg/v1"
    OT_EXT_CHALLENGE = "mpcsim/ot-extension/challenge/v1"
    OT_EXT_OPENING = "mpcsim/ot-extension/opening/v1"
    OT_EXT_OUTPUT = "mpcsim/ot-extension/output/v1"
    MTA_GADGET = "mpcsim/mta/ot/gadget/v1"
    MTA_SESSION = "mpcsim/mta/session/v1"
    MTA_CORRECTIONS = "mpcsim/mta/ot/corrections/v1"
    MTA_THETA = "mpcsim/mta/ot/theta/v1"
    MTA_MU = "mpcsim/mta/ot/mu/v1"
    OFFER = "mpcsim/dkg/offer/v1"
    CONFIRM = "mpcsim/dkg/confirm/v1"
    PRESIGN = "mpcsim/presign/nonce/v1"
    PRESIGNED = "mpcsim/presigned/context/v1"
    RERANDOMISE = "mpcsim/presigned/delta/v1"
    FROST_HEDGE = "mpcsim/frost/hedge/v1"
    FROST_VIEW = "mpcsim/frost/view/v1"
    STORED = "mpcsim/stored/v1"
    VAULT_KEYS = "mpcsim/vault/keys/v1"
    VAULT_SHARE = "mpcsim/vault/share/v1"
    VAULT_HALF = "mpcsim/vault/half/v1"
    VAULT_WHOLE = "mpcsim/vault/whole/v1"
    VAULT_AUTH = "mpcsim/vault/auth/v1"
    VAULT_ANSWER = "mpcsim/vault/answer/v1"
    VAULT_PRESIGNATURE = "mpcsim/vault/presignature/v1"
    VAULT_USE = "mpcsim/vault/use/v1"
    HIDDEN_USE = "mpcsim/vault/use/hidden/v1"
    GRANT = "mpcsim/grant/v1"
    GRANTED_MESSAGE = "mpcsim/grant/message/v1"
    MAIL = "mpcsim/mail/v1"
    SUSPENSION = "mpcsim/suspension/key/v1"
    SUSPENSION_NOTICE = "mpcsim/suspension/notice/v1"
    SUSPENSION_TAG = "mpcsim/suspension/tag/v1"
    VOTE = "mpcsim/statement/vote/v1"
    ABORT = "mpcsim/statement/abort/v1"
    SEAL_KEY = "mpcsim/statement/seal-key/v1"
    SUSPENDED = "mpcsim/statement/suspended/v1"
    ATTESTED = "mpcsim/statement/attested/v1"
    TESTIMONY = "mpcsim/statement/testimony/v1"
    PUBLIC_SHARES = "mpcsim/key-record/shares/v1"
    EVENT = "mpcsim/event/v1"


REMEMBERED = 1024
"""Numbers and frames that are remembered: those of one session come again in the next."""


@lru_cache(REMEMBERED)
def u32(n: int) -> bytes:
    """Fixed-width encoding of a small integer, for use as a hash part."""
    return n.to_bytes(4, "big")


@lru_cache(REMEMBERED)
def _frame(prefix: bytes, *lengths: int) -> bytes:
    """Return the framed tag, and for each part its length in eight bytes and a place (%b) where it
    goes.

    Few shapes are ever hashed: what a hash takes is one of these, with the parts filled in.
    """
    frame = [prefix.replace(b"%", b"%%")]
    for n in lengths:
        frame += (n.to_bytes(8, "big").replace(b"%", b"%%"), b"%b")
    return b"".join(frame)


def tagged_hash(tag: HashTag, *parts: bytes) -> bytes:
    """SHA-256 of the framed tag and parts; 32 bytes."""
    return hashlib.sha256(_frame(tag.prefix, *map(len, parts)) % parts).digest()


def tagged_mac(tag: HashTag, key: bytes, *parts: bytes) -> bytes:
    """Keyed BLAKE2b-256 (RFC 7693) of the framed tag and parts; 32 bytes."""
    framed = _frame(tag.prefix, *map(len, parts)) % parts
    return hashlib.blake2b(framed, key=key, digest_size=32).digest()


def tagged_xof(tag: HashTag, length: int, *parts: bytes) -> bytes:
    """SHAKE-128 of the framed tag and parts; ``length`` bytes (128-bit security)."""
    return hashlib.shake_128(_frame(tag.prefix, *map(len, parts)) % parts).digest(length)
