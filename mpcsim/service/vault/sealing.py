"""A client's share under a password: sealed when a key is made, opened whenever it is used."""

from __future__ import annotations

import hmac
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from nacl.bindings import (
    crypto_aead_xchacha20poly1305_ietf_decrypt,
    crypto_aead_xchacha20poly1305_ietf_encrypt,
    crypto_pwhash_alg,
    crypto_pwhash_ALG_ARGON2ID13,
)
from nacl.exceptions import CryptoError

from mpcsim.crypto.hashing import Tag, tagged_hash, u32
from mpcsim.crypto.rng import Rng
from mpcsim.errors import UsageError
from mpcsim.ids import MPC_NODES, PartyId
from mpcsim.service.vault.halves import VaultKey, seal_halves, wipe
from mpcsim.service.vault.strings import (
    HALF_BYTES,
    KEY_BYTES,
    MAX_SHARE_BYTES,
    NONCE_BYTES,
    SALT_BYTES,
    SHARE_VERSION,
    Argon2Cost,
    EncryptedShare,
    SecretStore,
    WrongKey,
    key_id_bytes,
)


def new_salt(rng: Rng) -> bytes:
    """A fresh Argon2id salt."""
    return rng.bytes(SALT_BYTES)


def password_key(password: str, salt: bytes, cost: Argon2Cost) -> bytearray:
    """pw_key = Argon2id(password, salt), 32 bytes, of the password's UTF-8.

    In Unicode's normal form C (UAX #15): keyboards differ in how they spell a letter.

    Slow on purpose and without the interpreter lock: call it in a thread. The caller wipes the
    result.

    Raises:
        UsageError: salt of the wrong size.
    """
    if len(salt) != SALT_BYTES:
        raise UsageError(f"salt of {len(salt)} bytes, expected {SALT_BYTES}")
    # A lone surrogate is no UTF-8; the error it would raise quotes the whole password.
    data = unicodedata.normalize("NFC", password).encode("utf-8", "surrogatepass")
    algorithm = crypto_pwhash_ALG_ARGON2ID13
    memory = cost.memory_kib * 1024
    return bytearray(crypto_pwhash_alg(KEY_BYTES, data, salt, cost.operations, memory, algorithm))


@dataclass(frozen=True)
class DerivedKey:
    """Key of a password, with what it was derived under."""

    key: bytes | bytearray = field(repr=False)
    """Output of ``password_key``; SECRET, the caller wipes it."""
    salt: bytes
    cost: Argon2Cost


@dataclass(frozen=True)
class NodeKeys:
    """Keys of both MPC nodes that go into a vault, by party."""

    seal_keys: Mapping[PartyId, bytes]
    """X25519 public keys."""
    auth_keys: Mapping[PartyId, bytes] = field(repr=False)
    """``KeyShare.auth_key`` of the share and each MPC node."""
    identities: Mapping[PartyId, bytes]
    """Ed25519 public keys."""


def seal_share(
    share: bytes,
    *,
    password: DerivedKey,
    key_id: str,
    curve: str,
    user_id: str,
    nodes: NodeKeys,
    rng: Rng,
    whole: bool = False,
) -> tuple[str, str]:
    """A new vault: (``encrypted_share``, ``secret_store``).

    Args:
        share: serialized client share, at most ``MAX_SHARE_BYTES``.
        key_id: 64 lower-case hex digits.
        whole: vault policy ``signer``: either MPC node opens it alone.

    Raises:
        UsageError: an argument of the wrong size or kind, or a public key of low order.
    """
    if not 1 <= len(share) <= MAX_SHARE_BYTES:
        raise UsageError(f"share of {len(share)} bytes, 1 to {MAX_SHARE_BYTES} can be sealed")
    pw_key, salt = password.key, password.salt
    if len(pw_key) != KEY_BYTES:
        raise UsageError(f"pw_key of {len(pw_key)} bytes, expected {KEY_BYTES}")
    if len(salt) != SALT_BYTES:
        raise UsageError(f"salt of {len(salt)} bytes, expected {SALT_BYTES}")
    for what, keys in (
        ("seal key", nodes.seal_keys),
        ("authentication key", nodes.auth_keys),
        ("identity", nodes.identities),
    ):
        if set(keys) != set(MPC_NODES):
            raise UsageError(f"one {what} for each MPC node expected")
        if lengths := {len(key) for key in keys.values()} - {KEY_BYTES}:
            raise UsageError(f"{what} of {lengths.pop()} bytes, expected {KEY_BYTES}")
    secret = bytearray(HALF_BYTES)
    memoryview(secret)[:KEY_BYTES] = pw_key  # in place: a sum would leave a copy of it behind
    memoryview(secret)[KEY_BYTES:] = rng.bytes(KEY_BYTES)
    try:
        store = SecretStore(
            key_id=key_id,
            curve=curve,
            salt=salt,
            cost=password.cost,
            confirmation=bytes(KEY_BYTES),
            halves=seal_halves(secret, nodes.seal_keys, key_id, user_id, rng, whole=whole),
            auth_keys=nodes.auth_keys,
            identities=nodes.identities,
            whole=whole,
        )
        key, confirmation = _derive(secret, store)
        store = replace(store, confirmation=confirmation)
    finally:
        wipe(secret)
    nonce = rng.bytes(NONCE_BYTES)
    ciphertext = crypto_aead_xchacha20poly1305_ietf_encrypt(
        share, _associated_data(key_id, curve, user_id), nonce, key
    )
    return EncryptedShare(nonce, ciphertext).to_text(), store.to_text()


def open_share(
    encrypted_share: EncryptedShare, store: SecretStore, key: VaultKey, user_id: str
) -> bytes:
    """The serialized client share.

    Raises:
        WrongKey: store or share were altered, or belong to another key or user.
    """
    associated = _associated_data(store.key_id, store.curve, user_id)
    try:
        return crypto_aead_xchacha20poly1305_ietf_decrypt(
            encrypted_share.ciphertext, associated, encrypted_share.nonce, share_key(store, key)
        )
    except CryptoError:
        raise WrongKey("encrypted_share does not open with this secret_store") from None


def password_matches(store: SecretStore, key: VaultKey, password: str) -> bool:
    """Return whether the vault was sealed with this password. As slow as ``password_key``.

    Raises:
        WrongKey: the store was altered; no password is tried on it.
    """
    share_key(store, key)
    candidate = password_key(password, store.salt, store.cost)
    try:
        return hmac.compare_digest(memoryview(key.secret)[:KEY_BYTES], candidate)
    finally:
        wipe(candidate)


# --- pieces -------------------------------------------------------------------------------------


def _derive(secret: bytearray, store: SecretStore) -> tuple[bytes, bytes]:
    """The share's key and the store's confirmation: HKDF-SHA256 without salt (RFC 5869)."""
    # bound here, not only in the associated data: the password check never opens the share
    info = tagged_hash(
        Tag.VAULT_KEYS,
        bytes([store.version]),
        key_id_bytes(store.key_id),
        store.curve.encode(),
        store.salt,
        u32(store.cost.operations),
        u32(store.cost.memory_kib),
        *(store.auth_keys[j] for j in sorted(store.auth_keys)),
        *(store.identities[j] for j in sorted(store.identities)),
    )
    okm = HKDF(SHA256(), 2 * KEY_BYTES, None, info).derive(secret)
    return okm[:KEY_BYTES], okm[KEY_BYTES:]


def share_key(store: SecretStore, key: VaultKey) -> bytes:
    """Return the key that the share is sealed with, and what else its holder seals for itself.

    Raises:
        WrongKey: the store was altered, or the key is of another one.
    """
    found, confirmation = _derive(key.secret, store)
    if not hmac.compare_digest(confirmation, store.confirmation):
        raise WrongKey("secret_store was altered, or its halves do not belong together")
    return found


def _associated_data(key_id: str, curve: str, user_id: str) -> bytes:
    version = bytes([SHARE_VERSION])
    key = key_id_bytes(key_id)
    return tagged_hash(Tag.VAULT_SHARE, version, key, curve.encode(), user_id.encode())
