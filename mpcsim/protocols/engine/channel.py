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

from collections.abc import Callable, Iterable, Mapping

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


class PeerSecrets:
    """Secrets that a party shares with its peers, by peer, and what messages of theirs have shown.

    Three generations of secrets, oldest first: those of ``early``, with which a signer may have
    sealed its first message before it had its key share; the initial ones, there from the start;
    and the ones in force, which key generation replaces as it goes on.
    """

    def __init__(
        self,
        initial: Mapping[PartyId, bytes],
        early: Callable[[], Mapping[PartyId, bytes]],
        identified: Iterable[PartyId],
    ) -> None:
        """
        Args:
            initial: secrets from the start.
            early: gives the secrets of first messages, when one has to be opened with them.
            identified: peers that prove in the session who they are (``Definition.identified``).
        """
        self.initial = initial
        self.in_force: dict[PartyId, bytes] = dict(initial)
        self._early = early
        self._identified = {*initial, *identified}

        self.sealing: set[PartyId] = set(initial)
        """Peers that seal everything: from the start, or once one of their messages has opened."""
        self.unproven: set[PartyId] = set()
        """Peers of whom a message opened with an early secret, which others may have, and none yet
        with a secret that the pair alone shares. No check names them."""
        self.unopened: set[PartyId] = set()
        """Peers in whose name a message came that does not open (``Waiting.unopened``)."""

    @property
    def authenticated(self) -> set[PartyId]:
        """Peers that seal everything, and have proved who they are."""
        return self.sealing & self._identified

    def open(self, envelope: Envelope, *, current: bool, initial: bool) -> bytes | None:
        """Return the payload if a secret opens the envelope, and note that its sender has it.

        Args:
            current: try the secret in force.
            initial: try the secret from the start.
        """
        sender = envelope.sender
        for secrets in (self.in_force,) * current + (self.initial,) * initial:
            if sender in secrets and (opened := unseal(secrets[sender], envelope)) is not None:
                self.unproven.discard(sender)
                self.sealing.add(sender)
                return opened
        return None

    def open_early(self, envelope: Envelope) -> bytes | None:
        """Return the payload of a first message that was sealed before its sender had its share."""
        secret = self._early().get(envelope.sender)
        return None if secret is None else unseal(secret, envelope)
