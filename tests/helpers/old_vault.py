"""Vaults of version 1, made with other people's primitives: of what is in callers' databases from
before requests to open one were authenticated."""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
from collections.abc import Mapping

from cryptography.hazmat.primitives.kdf.argon2 import Argon2id
from nacl.bindings import crypto_aead_xchacha20poly1305_ietf_encrypt
from nacl.public import PublicKey, SealedBox

from mpcsim.ids import INSTITUTION, OPERATOR, PartyId


def old_vault(
    share: bytes,
    *,
    password: str,
    key_id: str,
    curve: str,
    user_id: str,
    seal_keys: Mapping[PartyId, bytes],
) -> tuple[str, str]:
    """``encrypted_share`` and ``secret_store``, at the lowest cost there is."""
    salt, operations, memory_kib = os.urandom(16), 1, 8
    argon2 = Argon2id(salt=salt, length=32, iterations=operations, lanes=1, memory_cost=memory_kib)
    secret = argon2.derive(password.encode()) + os.urandom(32)
    key, name, user = bytes.fromhex(key_id), curve.encode(), user_id.encode()
    costs = operations.to_bytes(4, "big"), memory_kib.to_bytes(4, "big")
    okm = _hkdf(secret, _tagged("mpcsim/vault/keys/v1", b"\1", key, name, salt, *costs))

    pad = os.urandom(64)
    halves = {OPERATOR: pad, INSTITUTION: bytes(a ^ b for a, b in zip(secret, pad, strict=True))}
    store = b"\1" + key + len(name).to_bytes(4, "big") + name + salt + b"\1" + costs[1]
    store += okm[32:] + b"\0\2"
    for party, half in halves.items():
        binding = _tagged("mpcsim/vault/half/v1", party.to_bytes(4, "big"), key, user)
        store += party.to_bytes(2, "big")
        store += SealedBox(PublicKey(seal_keys[party])).encrypt(binding + half)

    nonce, associated = os.urandom(24), _tagged("mpcsim/vault/share/v1", b"\1", key, name, user)
    ciphertext = crypto_aead_xchacha20poly1305_ietf_encrypt(share, associated, nonce, okm[:32])
    return _text(b"\1" + nonce + ciphertext), _text(store)


def _tagged(tag: str, *parts: bytes) -> bytes:
    framed = b"".join(len(p).to_bytes(8, "big") + p for p in (tag.encode(), *parts))
    return hashlib.sha256(framed).digest()


def _hkdf(secret: bytes, info: bytes) -> bytes:
    """RFC 5869, 64 bytes, no salt."""
    prk = hmac.digest(bytes(32), secret, "sha256")
    first = hmac.digest(prk, info + b"\1", "sha256")
    return first + hmac.digest(prk, first + info + b"\2", "sha256")


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")
