"""Notices that a key is to be suspended: from whoever has the client's share to one MPC node.

A notice is sealed (XChaCha20-Poly1305) under a key that follows from what the two share since these
shares of the key were made. So whoever carries it can neither read nor forge it, and nobody without
a share can have a key suspended.
"""

from __future__ import annotations

from typing import Final

from nacl.bindings import (
    crypto_aead_xchacha20poly1305_ietf_decrypt,
    crypto_aead_xchacha20poly1305_ietf_encrypt,
    crypto_aead_xchacha20poly1305_ietf_NPUBBYTES,
)
from nacl.exceptions import CryptoError

from mpcsim.crypto.hashing import Tag, tagged_hash, u32
from mpcsim.crypto.rng import Rng
from mpcsim.ids import PartyId
from mpcsim.service.rpc.wire import AbortedSession

_NONCE_BYTES: Final = crypto_aead_xchacha20poly1305_ietf_NPUBBYTES


def seal_notice(
    pair_secret: bytes, at: AbortedSession, to: PartyId, culprit: int, rng: Rng
) -> bytes:
    """The notice to one MPC node that ``culprit`` was caught cheating.

    Args:
        pair_secret: the client's with this MPC node.
    """
    nonce = rng.bytes(_NONCE_BYTES)
    key, bound = _key(pair_secret, at), _bound(at, to)
    return nonce + crypto_aead_xchacha20poly1305_ietf_encrypt(u32(culprit), bound, nonce, key)


def open_notice(pair_secret: bytes, at: AbortedSession, to: PartyId, notice: bytes) -> int | None:
    """The culprit that a notice names; None if it was not sealed with this secret for this."""
    nonce, box = notice[:_NONCE_BYTES], notice[_NONCE_BYTES:]
    key, bound = _key(pair_secret, at), _bound(at, to)
    try:
        said = crypto_aead_xchacha20poly1305_ietf_decrypt(box, bound, nonce, key)
    except CryptoError:
        return None
    return int.from_bytes(said, "big")


def notice_digest(notice: bytes) -> bytes:
    """Return the digest that stands for a notice in ``statements.SuspensionReceipt``."""
    return tagged_hash(Tag.SUSPENSION_NOTICE, notice)


def _key(pair_secret: bytes, at: AbortedSession) -> bytes:
    return tagged_hash(Tag.SUSPENSION, at.key_id, pair_secret)


def _bound(at: AbortedSession, to: PartyId) -> bytes:
    return u32(to) + at.to_bytes()
