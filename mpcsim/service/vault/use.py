"""Proofs of use: only who holds the client's share, or its secret store, may have a key used.

Anyone can seal a half, so that a half that opens proves nothing about who sends it, and the token
behind a request proves no more than that its issuer agrees. Client and MPC node, however, share a
secret since their shares were made. A key derived from it (``KeyShare.auth_key``) authenticates
requests: the MPC node derives it from its own share, the ``secret_store`` carries the client's two,
and neither is ever sent. Whatever carries a request can then not put another reply key, message,
path or first protocol message in its place, nor make a request of its own.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple, Self

from mpcsim.crypto.bip32 import Path, path_bytes
from mpcsim.crypto.hashing import Tag, tagged_mac, u32
from mpcsim.ids import PartyId


def sha256_each(messages: Iterable[bytes]) -> tuple[bytes, ...]:
    """SHA-256 of each message."""
    return tuple(hashlib.sha256(message).digest() for message in messages)


def answer_tag(pair_secret: bytes, sender: PartyId, session_id: bytes, mac: bytes) -> bytes:
    """Return the tag with which an MPC node names the request to sign that it answers; 32 bytes.

    The client compares it before it looks at anything else. If what arrived was another request
    than the client's, nobody can be named: whoever has the store and carries the request could have
    put another in its place, and what the MPC node says to that one is no reason to blame it.

    Args:
        pair_secret: of client and MPC node.
        sender: the MPC node.
        mac: of the request, which it is a digest of, also for those who have its key.
    """
    return tagged_mac(Tag.VAULT_ANSWER, pair_secret, session_id, u32(sender), mac)


@dataclass(frozen=True)
class SigningRequest:
    """A message to be signed, and the session in which."""

    signer: PartyId
    session_id: bytes
    message: bytes
    path: Path = ()
    """Path of the child key to sign with."""
    presignatures: int = 0
    """Number of presignatures to make in place of a signature."""


class VaultUse(NamedTuple):
    """Request to an MPC node to use a key; parts that do not apply are empty."""

    verb: str
    key_id: bytes
    """The epoch."""
    user_id: str
    boot: bytes
    """The MPC node's present one: what was asked before its last start is not asked again."""
    reply_key: bytes = b""
    """X25519 public key that an opened half is to be encrypted to."""
    signer: PartyId | None = None
    session_id: bytes = b""
    message: bytes = b""
    """Hash of what is to be signed."""
    first: tuple[bytes, ...] = ()
    """Hashes of the client's first messages."""
    path: Path = ()
    """Path of the child key to sign with."""
    presignatures: int = 0
    """To be made: how many."""
    using: bytes = b""
    """The encoding of what is said of a presignature to be used: ``Using`` of
    ``mpcsim.service.rpc.wire``, or ``HiddenUse`` to the MPC node that does not sign."""

    @classmethod
    def for_opening(
        cls,
        key_id: bytes,
        user_id: str,
        boot: bytes,
        reply_key: bytes,
        *,
        presignatures: int = 0,
        using: bytes = b"",
    ) -> Self:
        """Opening a half.

        Args:
            presignatures: how many the other MPC node makes, which this one is to allow.
            using: of one that the other MPC node is to sign with, if this one still allows it.
        """
        return cls(
            "open", key_id, user_id, boot, reply_key, presignatures=presignatures, using=using
        )

    @classmethod
    def for_presigned(
        cls, key_id: bytes, user_id: str, boot: bytes, reply_key: bytes, using: bytes
    ) -> Self:
        """Opening a half, and signing with a presignature."""
        return cls("presigned", key_id, user_id, boot, reply_key, using=using)

    @classmethod
    def for_signing(
        cls,
        key_id: bytes,
        user_id: str,
        boot: bytes,
        request: SigningRequest,
        first: tuple[bytes, ...],
        reply_key: bytes = b"",
    ) -> Self:
        """Beginning a signing session.

        Args:
            first: ``sha256_each`` of the client's first messages.
            reply_key: where the MPC node is to open its half, too.
        """
        return cls(
            "sign",
            key_id,
            user_id,
            boot,
            reply_key=reply_key,
            signer=request.signer,
            session_id=request.session_id,
            message=hashlib.sha256(request.message).digest(),
            first=first,
            path=request.path,
            presignatures=request.presignatures,
        )

    def mac(self, key: bytes) -> bytes:
        """Keyed BLAKE2b-256 (RFC 7693) under an ``auth_key``; 32 bytes."""
        signer = b"" if self.signer is None else u32(self.signer)
        return tagged_mac(
            Tag.VAULT_USE,
            key,
            self.verb.encode(),
            self.key_id,
            self.user_id.encode(),
            self.boot,
            self.reply_key,
            signer,
            self.session_id,
            self.message,
            b"".join(self.first),
            path_bytes(self.path),
            u32(self.presignatures),
            self.using,
        )

    def is_authenticated_by(self, key: bytes, mac: bytes) -> bool:
        """Return whether this is what a holder of the key has asked for."""
        return hmac.compare_digest(self.mac(key), mac)
