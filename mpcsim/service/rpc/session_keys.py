"""Keys of sessions: who opened a session goes on with it, and no other holder of a token does.

The id of a session is the Ed25519 verification key of a fresh pair, so that the opening carries the
key, every envelope names it, and all who take part know it. Signed with it are

* every later call of the session (``exchange``, ``activate``): the gateway checks the header
  ``Session-Proof``;
* the client's messages that are not sealed yet (``signed_messages``): the MPC nodes check them.

The id may stand in logs; the signing key stays in the memory of whoever opened the session.
"""

from __future__ import annotations

import hashlib

from nacl import bindings as sodium

from mpcsim.crypto.hashing import Tag, tagged_hash
from mpcsim.crypto.rng import Rng, SystemRng
from mpcsim.service.rpc import signed_messages
from mpcsim.service.rpc.statements import is_authentic, sign_digest

HEADER = "Session-Proof"
"""A signature in hex."""


class SessionKey:
    """The key pair of one session. SECRET: whoever has it speaks in the session for the client."""

    def __init__(self, rng: Rng | None = None) -> None:
        self.session_id, self._secret = sodium.crypto_sign_seed_keypair(
            (rng or SystemRng()).bytes(sodium.crypto_sign_SEEDBYTES)
        )

    def proof(self, verb: str, body: bytes) -> str:
        """Return the header's value for a call of the session."""
        return self._sign(_call_digest(verb, hashlib.sha256(body).digest())).hex()

    def sign_messages(self, messages: tuple[bytes, ...]) -> tuple[bytes, ...]:
        """Return the client's envelopes, with a signature behind each that is not sealed."""
        return tuple(signed_messages.sign_unsealed(data, self._sign) for data in messages)

    def _sign(self, digest: bytes) -> bytes:
        return sign_digest(self._secret, digest)

    def __repr__(self) -> str:
        return f"SessionKey<{self.session_id.hex()}>"


def is_proven(session_id: bytes, verb: str, body_hash: bytes, proof: str | None) -> bool:
    """Return whether a call of a session is by whoever opened it.

    Args:
        body_hash: SHA-256 of the whole body.
        proof: the header; None: there is none.
    """
    try:
        signed = bytes.fromhex(proof or "")
    except ValueError:
        return False
    return is_authentic(session_id, _call_digest(verb, body_hash), signed)


def is_body_proven(session_id: bytes, verb: str, body: bytes, proof: str | None) -> bool:
    """Return the same for a body that is there."""
    return is_proven(session_id, verb, hashlib.sha256(body).digest(), proof)


def _call_digest(verb: str, body_hash: bytes) -> bytes:
    return tagged_hash(Tag.SESSION_CALL, verb.encode(), body_hash)
