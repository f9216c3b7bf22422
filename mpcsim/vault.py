"""The vault: the two strings in which a caller keeps its key share, and how they open again.

``encrypted_share`` is the serialized client share under XChaCha20-Poly1305. Its key is
HKDF-SHA256(pw_key || pepper), where pw_key = Argon2id(password, salt) and the pepper is 32 random
bytes. ``secret_store`` holds salt, Argon2id cost and pw_key || pepper. These 64 bytes are split by
XOR into two halves, each sealed to one of the two MPC nodes. To sign, the node that serves the
caller has both halves opened and re-encrypted to a key made for this one request, joins them and
decrypts the share. No password is needed for that; the password can still be checked, since the
opened store contains pw_key.

Binding: the sealed half names its MPC node, user and key, and the MPC node opens it for no other.
Key, curve, salt and cost enter the key derivation, whose second output, stored as confirmation,
is compared before anything else is done: a store that was altered, or put together from two, is
recognised as such, and an altered cost is never spent. The share's associated data are version,
key, curve and user.

What a thief gains:

The caller's database (both strings)
    Nothing to try passwords on: every guess lacks the pepper. Without the MPC nodes, neither share
    nor password. The thief does learn key id, curve, salt, cost and the share's size.
One MPC node (its seal key and key share)
    Halves of stores it gets to see. A half is independent of the password and of the share's key.
The database and one MPC node
    Still one half: the other is missing, and with it the client share, so that the thief has one
    key share of the two it takes to sign.
The database and both seal keys
    The share, without any password, and something to try passwords on. (Whoever has the key shares
    of both MPC nodes can sign without the vault.)
The gateway's logs, or a recording of all its traffic
    Halves sealed to the MPC nodes or to keys that are gone; salt, share and password never pass
    there. The sealed halves stay sealed only as long as both seal keys stay secret: there is no
    forward secrecy. A bearer token in a log is a stolen token.
An active gateway
    If it names a reply key of its own, it gets pw_key || pepper whenever a caller opens a vault,
    and likewise if it hands out seal keys of its own: the vault authenticates MPC nodes by the keys
    it is given and cannot tell whose they are. Without the database it has neither share nor salt,
    and so nothing to try passwords on; with it, it has the share, and can try passwords. It cannot
    make a vault open to a wrong result. As issuer of the tokens it can do whatever a stolen token
    can, for every user.
A stolen token
    Opens no vault without the ``secret_store``. With the database it opens the share, and pw_key
    then allows trying passwords. The vault does not limit what else a token permits: recovery in
    particular deals a new share to whoever holds a token, under a password of the thief's choice.
The node that serves the caller
    Sees password and share in the clear while it works for the caller.

Where one process runs the gateway and both MPC nodes, they are one thief. Whoever can write to the
database can put a vault of its own making in place of another: anyone can seal. The vault does not
notice, but the share inside must still fit the MPC nodes' shares before anything can be signed.

Secrets are kept in bytearrays and overwritten where this module can: Python and the bindings make
immutable copies of their own (of the share and the derived keys, for instance), which stay in
memory until that is used again.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated, Final, Self

import pybase64
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from nacl.bindings import (
    crypto_aead_xchacha20poly1305_ietf_ABYTES,
    crypto_aead_xchacha20poly1305_ietf_decrypt,
    crypto_aead_xchacha20poly1305_ietf_encrypt,
    crypto_aead_xchacha20poly1305_ietf_NPUBBYTES,
    crypto_box_beforenm,
    crypto_box_easy,
    crypto_box_NONCEBYTES,
    crypto_box_open_easy_afternm,
    crypto_box_PUBLICKEYBYTES,
    crypto_box_seal_open,
    crypto_box_SEALBYTES,
    crypto_box_SECRETKEYBYTES,
    crypto_pwhash_alg,
    crypto_pwhash_ALG_ARGON2ID13,
    crypto_pwhash_SALTBYTES,
    crypto_scalarmult_base,
)
from nacl.exceptions import CryptoError

from mpcsim.algebra.curves import curve as known_curve
from mpcsim.encoding import (
    BYTES32,
    NO_CONTEXT,
    U8,
    U32,
    Fixed,
    Message,
    Nested,
    PerParty,
    Reader,
    Text,
    WireContext,
    wire,
)
from mpcsim.errors import InvalidEncoding, MpcError, UsageError
from mpcsim.hashing import Tag, tagged_hash, u32
from mpcsim.ids import MPC_NODES, ROLES, PartyId
from mpcsim.rng import Rng

VERSION: Final = 1
"""First byte of both strings, before base64."""

SALT_BYTES: Final = crypto_pwhash_SALTBYTES
KEY_BYTES: Final = 32
"""Of pw_key, pepper, the share's key and the confirmation, each."""
HALF_BYTES: Final = 2 * KEY_BYTES
MAX_SHARE_BYTES: Final = 1 << 16

MAX_OPERATIONS: Final = 4
MAX_MEMORY_KIB: Final = 1 << 18
"""256 MiB. A ``secret_store`` comes from outside and must not choose how much memory is used."""
_MIN_MEMORY_KIB = 8

_BINDING_BYTES = 32
_SEALED_BYTES = crypto_box_SEALBYTES + _BINDING_BYTES + HALF_BYTES
_NONCE_BYTES = crypto_aead_xchacha20poly1305_ietf_NPUBBYTES
_SHARE_OVERHEAD = 1 + _NONCE_BYTES + crypto_aead_xchacha20poly1305_ietf_ABYTES
_MAX_STORE_BYTES = 512


class VaultError(MpcError):
    """A vault cannot be used. The message holds nothing secret and may be shown to the caller."""


class MalformedVault(VaultError):
    """Not the encoding of anything: refused before any key is touched."""


class WrongKey(VaultError):
    """Well-formed, but it does not open: damaged, or another user's, key's or node's."""


@wire
class Argon2Cost(Message):
    """Cost of one Argon2id (RFC 9106, version 1.3, one lane).

    Raises:
        UsageError: outside what the vault accepts.
    """

    operations: Annotated[int, U8]
    """Passes over the memory, 1 to ``MAX_OPERATIONS``."""
    memory_kib: Annotated[int, U32]
    """8 to ``MAX_MEMORY_KIB``."""

    def __post_init__(self) -> None:
        if not 1 <= self.operations <= MAX_OPERATIONS:
            raise UsageError(f"Argon2id operations are outside 1..{MAX_OPERATIONS}")
        if not _MIN_MEMORY_KIB <= self.memory_kib <= MAX_MEMORY_KIB:
            raise UsageError(f"Argon2id memory is outside {_MIN_MEMORY_KIB}..{MAX_MEMORY_KIB} KiB")


INTERACTIVE: Final = Argon2Cost(operations=2, memory_kib=1 << 16)
"""libsodium's cost for interactive use, 64 MiB."""


@dataclass(frozen=True)
class _KeyId:
    """64 lower-case hex digits, 32 bytes on the wire."""

    def write(self, value: str, context: WireContext) -> bytes:
        return _key_id_bytes(value)

    def read(self, reader: Reader, context: WireContext) -> str:
        return BYTES32.read(reader, context).hex()


@wire
class SecretStore(Message):
    """The opened form of ``secret_store``; what is secret in it is sealed.

    Raises:
        UsageError: unknown curve, or not exactly one half for each MPC node.
    """

    key_id: Annotated[str, _KeyId()]
    curve: Annotated[str, Text(16)]
    salt: Annotated[bytes, Fixed(SALT_BYTES)]
    cost: Annotated[Argon2Cost, Nested(Argon2Cost)]
    confirmation: Annotated[bytes, Fixed(KEY_BYTES)]
    """Second output of the key derivation: shows that the joined halves belong to this store."""
    halves: Annotated[Mapping[PartyId, bytes], PerParty(Fixed(_SEALED_BYTES))]
    """The sealed half of each MPC node."""

    def __post_init__(self) -> None:
        known_curve(self.curve)
        if set(self.halves) != set(MPC_NODES):
            raise UsageError("one half for each MPC node expected")

    def to_text(self) -> str:
        """URL-safe base64 without padding."""
        return _text(bytes([VERSION]) + self.encode(NO_CONTEXT))

    @classmethod
    def from_text(cls, text: str) -> Self:
        """Strict inverse of ``to_text``.

        Raises:
            MalformedVault: not a secret store, or its Argon2id cost is beyond what is accepted.
        """
        data = _bytes(text, "secret_store", _MAX_STORE_BYTES)
        try:
            return cls.decode(data[1:], NO_CONTEXT)
        except (InvalidEncoding, UsageError) as error:
            raise MalformedVault(f"secret_store: {error}") from None

    def __repr__(self) -> str:
        return f"SecretStore<{self.curve}, key {self.key_id}, sealed>"


@dataclass(frozen=True)
class EncryptedShare:
    """The opened form of ``encrypted_share``; the share in it is sealed."""

    nonce: bytes
    ciphertext: bytes
    """With its tag."""

    def to_text(self) -> str:
        """URL-safe base64 without padding."""
        return _text(bytes([VERSION]) + self.nonce + self.ciphertext)

    @classmethod
    def from_text(cls, text: str) -> Self:
        """Strict inverse of ``to_text``.

        Raises:
            MalformedVault: not an encrypted share.
        """
        data = _bytes(text, "encrypted_share", _SHARE_OVERHEAD + MAX_SHARE_BYTES)
        if len(data) <= _SHARE_OVERHEAD:
            raise MalformedVault("encrypted_share: too short to hold a share")
        return cls(data[1 : 1 + _NONCE_BYTES], data[1 + _NONCE_BYTES :])

    def __repr__(self) -> str:
        return f"EncryptedShare<{len(self.ciphertext)} bytes, sealed>"


class VaultKey:
    """pw_key || pepper of an opened vault. A context manager: overwritten at its end."""

    __slots__ = ("secret",)

    def __init__(self, secret: bytearray) -> None:
        self.secret = secret
        """``HALF_BYTES`` bytes."""

    def wipe(self) -> None:
        wipe(self.secret)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.wipe()

    def __repr__(self) -> str:
        return "VaultKey(<redacted>)"


def wipe(secret: bytearray) -> None:
    """Overwrite a secret in place."""
    secret[:] = bytes(len(secret))


# --- at the node that serves the caller ---------------------------------------------------------


def new_salt(rng: Rng) -> bytes:
    """A fresh Argon2id salt."""
    return rng.bytes(SALT_BYTES)


def stretch(password: str, salt: bytes, cost: Argon2Cost) -> bytearray:
    """pw_key = Argon2id(password, salt), 32 bytes, of the password's exact UTF-8 (not normalised).

    Slow on purpose and without the interpreter lock: call it in a thread. The caller wipes the
    result.

    Raises:
        UsageError: salt of the wrong size.
    """
    if len(salt) != SALT_BYTES:
        raise UsageError(f"salt of {len(salt)} bytes, expected {SALT_BYTES}")
    # A lone surrogate is no UTF-8; the error it would raise quotes the whole password.
    exact = password.encode("utf-8", "surrogatepass")
    algorithm = crypto_pwhash_ALG_ARGON2ID13
    memory = cost.memory_kib * 1024
    return bytearray(crypto_pwhash_alg(KEY_BYTES, exact, salt, cost.operations, memory, algorithm))


def seal_share(
    share: bytes,
    *,
    pw_key: bytes | bytearray,
    salt: bytes,
    cost: Argon2Cost,
    key_id: str,
    curve: str,
    user_id: str,
    node_keys: Mapping[PartyId, bytes],
    rng: Rng,
) -> tuple[str, str]:
    """A new vault: (``encrypted_share``, ``secret_store``).

    Args:
        share: serialized client share, at most ``MAX_SHARE_BYTES``.
        pw_key: from ``stretch`` with the same salt and cost; the caller wipes it.
        key_id: 64 lower-case hex digits.
        node_keys: X25519 public key of each MPC node.

    Raises:
        UsageError: an argument of the wrong size or kind, or a public key of low order.
    """
    if not 1 <= len(share) <= MAX_SHARE_BYTES:
        raise UsageError(f"share of {len(share)} bytes, 1 to {MAX_SHARE_BYTES} can be sealed")
    if len(pw_key) != KEY_BYTES:
        raise UsageError(f"pw_key of {len(pw_key)} bytes, expected {KEY_BYTES}")
    if len(salt) != SALT_BYTES:
        raise UsageError(f"salt of {len(salt)} bytes, expected {SALT_BYTES}")
    if set(node_keys) != set(MPC_NODES):
        raise UsageError("one seal key for each MPC node expected")
    operator, institution = MPC_NODES
    secret = bytearray(pw_key) + rng.bytes(KEY_BYTES)
    try:
        share_key, confirmation = _derive(secret, key_id, curve, salt, cost)
        pad = rng.bytes(HALF_BYTES)
        _xor(secret, pad)
        plain = {operator: pad, institution: bytes(secret)}
    finally:
        wipe(secret)
    halves = {j: _seal_half(plain[j], node_keys[j], j, key_id, user_id, rng) for j in MPC_NODES}
    store = SecretStore(key_id, curve, salt, cost, confirmation, halves)
    nonce = rng.bytes(_NONCE_BYTES)
    ciphertext = crypto_aead_xchacha20poly1305_ietf_encrypt(
        share, _associated_data(key_id, curve, user_id), nonce, share_key
    )
    return EncryptedShare(nonce, ciphertext).to_text(), store.to_text()


def open_share(
    encrypted_share: EncryptedShare, store: SecretStore, key: VaultKey, user_id: str
) -> bytes:
    """The serialized client share.

    Raises:
        WrongKey: store or share were altered, or belong to another key or user.
    """
    share_key = _share_key(store, key)
    associated = _associated_data(store.key_id, store.curve, user_id)
    try:
        return crypto_aead_xchacha20poly1305_ietf_decrypt(
            encrypted_share.ciphertext, associated, encrypted_share.nonce, share_key
        )
    except CryptoError:
        raise WrongKey("encrypted_share does not open with this secret_store") from None


def password_matches(store: SecretStore, key: VaultKey, password: str) -> bool:
    """Whether the vault was sealed with this password. As slow as ``stretch``.

    Raises:
        WrongKey: the store was altered; no password is tried on it.
    """
    _share_key(store, key)
    candidate = stretch(password, store.salt, store.cost)
    try:
        return hmac.compare_digest(memoryview(key.secret)[:KEY_BYTES], candidate)
    finally:
        wipe(candidate)


class ReplyKey:
    """X25519 key of one request: the MPC nodes encrypt the opened halves to it."""

    __slots__ = ("_secret", "_shared", "public")

    def __init__(self, rng: Rng) -> None:
        self._secret = rng.bytes(crypto_box_SECRETKEYBYTES)
        self.public = crypto_scalarmult_base(self._secret)
        """32 bytes."""
        self._shared: dict[bytes, bytes] = {}
        """An MPC node's public key to the secret shared with it."""

    def prepare(self, node_keys: Mapping[PartyId, bytes]) -> None:
        """Do what ``combine`` can do before it has the halves: meanwhile the MPC nodes work."""
        for node_key in node_keys.values():
            with suppress(CryptoError):  # ``combine`` will meet it again
                self._shared_with(node_key)

    def combine(
        self, wrapped: Mapping[PartyId, bytes], node_keys: Mapping[PartyId, bytes]
    ) -> VaultKey:
        """Join the halves that ``rewrap_half`` made at the two MPC nodes.

        Args:
            node_keys: X25519 public key of each MPC node.

        Raises:
            WrongKey: a half is missing or does not come from its MPC node for this request.
            UsageError: not one public key for each MPC node.
        """
        if set(node_keys) != set(MPC_NODES):
            raise UsageError("one seal key for each MPC node expected")
        secret = bytearray(HALF_BYTES)
        try:
            for j in MPC_NODES:
                _xor(secret, self._unwrap(wrapped.get(j, b""), node_keys[j], j))
        except WrongKey:
            wipe(secret)
            raise
        return VaultKey(secret)

    def _unwrap(self, wrapped: bytes, node_key: bytes, node: PartyId) -> bytes:
        nonce, box = wrapped[:crypto_box_NONCEBYTES], wrapped[crypto_box_NONCEBYTES:]
        try:
            half = crypto_box_open_easy_afternm(box, nonce, self._shared_with(node_key))
        except CryptoError:
            half = b""
        if len(half) != HALF_BYTES:
            raise WrongKey(f"the {ROLES[node]}'s half of the secret_store did not arrive intact")
        return half

    def _shared_with(self, node_key: bytes) -> bytes:
        if node_key not in self._shared:
            self._shared[node_key] = crypto_box_beforenm(node_key, self._secret)
        return self._shared[node_key]

    def __repr__(self) -> str:
        return f"ReplyKey(public={self.public.hex()})"


# --- at an MPC node -----------------------------------------------------------------------------


class SealKey:
    """X25519 key of an MPC node: halves are sealed to it."""

    __slots__ = ("public", "secret")

    def __init__(self, secret: bytes) -> None:
        self.secret = secret
        """32 bytes."""
        self.public = crypto_scalarmult_base(secret)
        """32 bytes."""

    @classmethod
    def fresh(cls, rng: Rng) -> Self:
        """A new one."""
        return cls(rng.bytes(crypto_box_SECRETKEYBYTES))

    def __repr__(self) -> str:
        return f"SealKey(public={self.public.hex()})"


def rewrap_half(
    sealed: bytes,
    seal_key: SealKey,
    *,
    me: PartyId,
    key_id: str,
    user_id: str,
    reply_key: bytes,
    rng: Rng,
) -> bytes:
    """Open this MPC node's half and encrypt it to the reply key: nonce || crypto_box.

    The same static key opens sealed halves and authenticates replies. Neither can pass for the
    other: their plaintexts differ in length, and a seal's nonce is a hash of its public keys.

    Args:
        sealed: this node's entry of ``SecretStore.halves``.
        seal_key: this node's.
        key_id: the key the request is about, 64 lower-case hex digits.
        user_id: the user whose token came with the request.
        reply_key: ``ReplyKey.public``.

    Raises:
        MalformedVault: ``sealed`` or ``reply_key`` cannot be what they should be.
        WrongKey: the half does not open, or was sealed for another node, key or user.
    """
    if len(sealed) != _SEALED_BYTES:
        raise MalformedVault(f"half of {len(sealed)} bytes, expected {_SEALED_BYTES}")
    name = f"the {ROLES[me]}'s half of the secret_store"
    try:
        plain = crypto_box_seal_open(sealed, seal_key.public, seal_key.secret)
    except CryptoError:
        raise WrongKey(f"{name} does not open") from None
    binding, half = plain[:_BINDING_BYTES], plain[_BINDING_BYTES:]
    if not hmac.compare_digest(binding, _binding(me, key_id, user_id)):
        raise WrongKey(f"{name} belongs to another key, user or node")
    nonce = rng.bytes(crypto_box_NONCEBYTES)
    try:
        return nonce + crypto_box_easy(half, nonce, reply_key, seal_key.secret)
    except CryptoError:
        raise MalformedVault("the reply key is not a usable X25519 public key") from None


# --- pieces -------------------------------------------------------------------------------------


def _derive(
    secret: bytearray, key_id: str, curve: str, salt: bytes, cost: Argon2Cost
) -> tuple[bytes, bytes]:
    """The share's key and the confirmation: HKDF-SHA256 without salt (RFC 5869)."""
    # bound here, not only in the associated data: the password check never opens the share
    info = tagged_hash(
        Tag.VAULT_KEYS,
        bytes([VERSION]),
        _key_id_bytes(key_id),
        curve.encode(),
        salt,
        u32(cost.operations),
        u32(cost.memory_kib),
    )
    okm = HKDF(SHA256(), 2 * KEY_BYTES, None, info).derive(secret)
    return okm[:KEY_BYTES], okm[KEY_BYTES:]


def _share_key(store: SecretStore, key: VaultKey) -> bytes:
    share_key, confirmation = _derive(key.secret, store.key_id, store.curve, store.salt, store.cost)
    if not hmac.compare_digest(confirmation, store.confirmation):
        raise WrongKey("secret_store was altered, or its halves do not belong together")
    return share_key


def _associated_data(key_id: str, curve: str, user_id: str) -> bytes:
    version = bytes([VERSION])
    key = _key_id_bytes(key_id)
    return tagged_hash(Tag.VAULT_SHARE, version, key, curve.encode(), user_id.encode())


def _binding(node: PartyId, key_id: str, user_id: str) -> bytes:
    return tagged_hash(Tag.VAULT_HALF, u32(node), _key_id_bytes(key_id), user_id.encode())


def _seal_half(
    half: bytes, public_key: bytes, node: PartyId, key_id: str, user_id: str, rng: Rng
) -> bytes:
    """libsodium's sealed box (crypto_box_seal) of binding and half.

    Built here because libsodium draws the ephemeral key itself; it opens what this makes.
    """
    if len(public_key) != crypto_box_PUBLICKEYBYTES:
        raise UsageError(f"seal key of {len(public_key)} bytes")
    ephemeral = rng.bytes(crypto_box_SECRETKEYBYTES)
    ephemeral_public = crypto_scalarmult_base(ephemeral)
    nonce = hashlib.blake2b(
        ephemeral_public + public_key, digest_size=crypto_box_NONCEBYTES
    ).digest()
    plain = _binding(node, key_id, user_id) + half
    try:
        return ephemeral_public + crypto_box_easy(plain, nonce, public_key, ephemeral)
    except CryptoError:
        raise UsageError(f"the {ROLES[node]}'s seal key is of low order") from None


def _xor(target: bytearray, other: bytes) -> None:
    n = len(target)
    target[:] = (int.from_bytes(target) ^ int.from_bytes(other)).to_bytes(n)


def _key_id_bytes(key_id: str) -> bytes:
    try:
        data = bytes.fromhex(key_id)
    except ValueError:
        data = b""
    if len(data) != 32 or data.hex() != key_id:
        raise UsageError("key id is not 64 lower-case hex digits")
    return data


def _text(data: bytes) -> str:
    return pybase64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _bytes(text: str, name: str, limit: int) -> bytes:
    """Strict inverse of ``_text`` for at most ``limit`` bytes that begin with the version.

    Raises:
        MalformedVault: of which string, and why.
    """
    if len(text) > (limit * 4 + 2) // 3:
        raise MalformedVault(f"{name}: more than {limit} bytes")
    data = b""
    if "+" not in text and "/" not in text:  # with these the decoder warns, and goes on
        with suppress(ValueError):
            data = pybase64.b64decode(text + "=" * (-len(text) % 4), b"-_", validate=True)
    # bits beyond the last byte may be anything to the decoder; one spelling only is accepted
    if _text(data) != text:
        raise MalformedVault(f"{name}: not URL-safe base64 without padding")
    if not data:
        raise MalformedVault(f"{name}: empty")
    if data[0] != VERSION:
        raise MalformedVault(f"{name}: version {data[0]}, expected {VERSION}")
    return data
