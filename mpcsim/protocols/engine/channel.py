"""End-to-end sealing between two parties: whatever carries the messages (a gateway, say) can
neither read nor forge them.

Each pair of share holders gets a secret from key generation (X25519, keys committed before they
are revealed). Every message is sealed under a key of its own, derived from that secret, the
session, the direction, the kind and a salt. The salt comes from randomness that depends on
everything the sender had received (see ``party``), so one key never seals two different messages,
not even after a party was rolled back to a snapshot. A message that does not open cannot have come
from the peer: it is ignored, never blamed on anyone.
"""

from __future__ import annotations

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from mpcsim.crypto.hashing import Tag, tagged_hash, u32
from mpcsim.crypto.rng import Rng
from mpcsim.ids import PartyId
from mpcsim.protocols.engine.envelope import Envelope

SALT_BYTES = 16
TAG_BYTES = 16
_NONCE = bytes(12)  # constant: every key seals exactly one message


def _message_key(pair_secret: bytes, envelope: Envelope, salt: bytes) -> AESGCM:
    return AESGCM(
        tagged_hash(
            Tag.CHANNEL_KEY,
            pair_secret,
            envelope.session_id,
            u32(envelope.sender),
            u32(envelope.receiver),
            u32(envelope.kind),
            salt,
        )
    )


def seal(pair_secret: bytes, envelope: Envelope, payload: bytes, rng: Rng) -> Envelope:
    """Return the envelope with the payload sealed into its body (salt, AES-256-GCM ciphertext)."""
    salt = rng.bytes(SALT_BYTES)
    key = _message_key(pair_secret, envelope, salt)
    return _with_body(envelope, salt + key.encrypt(_NONCE, payload, envelope.header()))


def unseal(pair_secret: bytes, envelope: Envelope) -> bytes | None:
    """Return the payload, or None if the body was not sealed with this secret for this envelope."""
    if len(envelope.body) < SALT_BYTES + TAG_BYTES:
        return None
    key = _message_key(pair_secret, envelope, envelope.body[:SALT_BYTES])
    try:
        return key.decrypt(_NONCE, envelope.body[SALT_BYTES:], envelope.header())
    except InvalidTag:
        return None


def pair_secret(transcript: bytes, i: PartyId, j: PartyId, *shared: bytes) -> bytes:
    """Return the long-lived secret of the pair {i, j}, from everything the two share."""
    low, high = sorted((i, j))
    return tagged_hash(Tag.PAIR_SECRET, transcript, u32(low), u32(high), *shared)


def _with_body(envelope: Envelope, body: bytes) -> Envelope:
    return Envelope(
        envelope.protocol,
        envelope.kind,
        envelope.sealed,
        envelope.sender,
        envelope.receiver,
        envelope.session_id,
        body,
    )
