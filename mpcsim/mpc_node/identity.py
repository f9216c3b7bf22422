"""An MPC node's identity: the Ed25519 key (RFC 8032) that signs its statements."""

from __future__ import annotations

from typing import Self

from nacl.bindings import crypto_sign, crypto_sign_seed_keypair, crypto_sign_SEEDBYTES

from mpcsim.protocol.envelope import Envelope
from mpcsim.rng import Rng
from mpcsim.rpc.mail import digest
from mpcsim.rpc.statements import Statement
from mpcsim.rpc.wire import SIGNATURE_BYTES


class Identity:
    """The secret half, which never leaves its MPC node."""

    __slots__ = ("_signing", "public", "secret")

    def __init__(self, secret: bytes) -> None:
        self.secret = secret
        """32 bytes, the seed of RFC 8032."""
        self.public, self._signing = crypto_sign_seed_keypair(secret)

    @classmethod
    def fresh(cls, rng: Rng) -> Self:
        """A new one."""
        return cls(rng.bytes(crypto_sign_SEEDBYTES))

    def sign(self, statement: Statement) -> bytes:
        """64 bytes."""
        return self._sign(statement.digest())

    def sign_mail(self, envelope: bytes) -> bytes:
        """An envelope with its signature behind it, if it is not sealed."""
        if Envelope.decode(envelope).sealed:
            return envelope
        return envelope + self._sign(digest(envelope))

    def _sign(self, digest: bytes) -> bytes:
        return crypto_sign(digest, self._signing)[:SIGNATURE_BYTES]

    def __repr__(self) -> str:
        return f"Identity(public={self.public.hex()})"
