"""Identity of an MPC node: the Ed25519 key (RFC 8032) that signs its statements."""

from __future__ import annotations

from typing import Self

from nacl.bindings import crypto_sign_seed_keypair, crypto_sign_SEEDBYTES

from mpcsim.crypto.rng import Rng
from mpcsim.service.rpc import signed_messages
from mpcsim.service.rpc.statements import Statement, sign_digest


class Identity:
    """Ed25519 key pair of an MPC node; the secret half never leaves it."""

    __slots__ = ("_signing", "public", "secret")

    def __init__(self, secret: bytes) -> None:
        self.secret = secret
        """Seed of RFC 8032, 32 bytes."""
        self.public, self._signing = crypto_sign_seed_keypair(secret)

    @classmethod
    def generate(cls, rng: Rng) -> Self:
        """Create a new identity."""
        return cls(rng.bytes(crypto_sign_SEEDBYTES))

    def sign(self, statement: Statement) -> bytes:
        """Sign a statement; 64 bytes."""
        return self._sign(statement.digest())

    def sign_mail(self, envelope: bytes) -> bytes:
        """Append a signature to an envelope, if it is not sealed."""
        return signed_messages.sign_unsealed(envelope, self._sign)

    def _sign(self, digest: bytes) -> bytes:
        return sign_digest(self._signing, digest)

    def __repr__(self) -> str:
        return f"Identity(public={self.public.hex()})"
