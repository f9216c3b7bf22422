"""The two strings in which a caller keeps its key share: what is in them, and how it is written."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated, Final, Self

import pybase64
from nacl.bindings import (
    crypto_aead_xchacha20poly1305_ietf_ABYTES,
    crypto_aead_xchacha20poly1305_ietf_NPUBBYTES,
    crypto_box_SEALBYTES,
    crypto_pwhash_SALTBYTES,
    crypto_sign_PUBLICKEYBYTES,
)

from mpcsim.crypto.encoding import (
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
from mpcsim.crypto.groups.curves import curve as known_curve
from mpcsim.errors import InvalidEncoding, MpcError, UsageError
from mpcsim.ids import MPC_NODES, PartyId

VERSION: Final = 2
"""First byte of a ``secret_store``, before base64."""
WHOLE_VERSION: Final = 3
"""Version of a ``secret_store`` that either MPC node opens alone."""
SHARE_VERSION: Final = 1
"""First byte of an ``encrypted_share``, before base64."""

SALT_BYTES: Final = crypto_pwhash_SALTBYTES
KEY_BYTES: Final = 32
"""Size of pw_key, pepper, the share's key, the confirmation and an authentication key, each."""
HALF_BYTES: Final = 2 * KEY_BYTES
MAX_SHARE_BYTES: Final = 1 << 16

MAX_OPERATIONS: Final = 4
MAX_MEMORY_KIB: Final = 1 << 18
"""256 MiB. A ``secret_store`` comes from outside and must not choose how much memory is used."""
_MIN_MEMORY_KIB = 8

BINDING_BYTES: Final = 32
SEALED_BYTES: Final = crypto_box_SEALBYTES + BINDING_BYTES + HALF_BYTES
NONCE_BYTES: Final = crypto_aead_xchacha20poly1305_ietf_NPUBBYTES
_SHARE_OVERHEAD = 1 + NONCE_BYTES + crypto_aead_xchacha20poly1305_ietf_ABYTES
_MAX_STORE_BYTES = 1024


class VaultError(MpcError):
    """A vault cannot be used. The message holds nothing secret and may be shown to the caller."""


class MalformedVault(VaultError):
    """Invalid encoding of a vault: refused before any key is touched."""


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
        return key_id_bytes(value)

    def read(self, reader: Reader, context: WireContext) -> str:
        return BYTES32.read(reader, context).hex()


@dataclass(frozen=True)
class _Whole:
    """Whether a store is of ``WHOLE_VERSION``: a byte at the end, which others do not have."""

    def write(self, value: bool, context: WireContext) -> bytes:
        return b"\1" if value else b""

    def read(self, reader: Reader, context: WireContext) -> bool:
        if reader.position == len(reader.data):
            return False
        if U8.read(reader, context) != 1:
            raise InvalidEncoding("neither halves nor a whole")
        return True


@wire
class SecretStore(Message):
    """The opened form of ``secret_store``; its halves are sealed.

    Raises:
        UsageError: unknown curve, or something is not there for exactly the MPC nodes.
    """

    key_id: Annotated[str, _KeyId()]
    curve: Annotated[str, Text(16)]
    salt: Annotated[bytes, Fixed(SALT_BYTES)]
    cost: Annotated[Argon2Cost, Nested(Argon2Cost)]
    confirmation: Annotated[bytes, Fixed(KEY_BYTES)]
    """Second output of the key derivation: shows that the joined halves belong to this store."""
    halves: Annotated[Mapping[PartyId, bytes], PerParty(Fixed(SEALED_BYTES))]
    """The sealed half of each MPC node."""
    auth_keys: Annotated[Mapping[PartyId, bytes], PerParty(BYTES32)]
    """Keys that authenticate requests to each MPC node (``KeyShare.auth_key``). Secret."""
    identities: Annotated[Mapping[PartyId, bytes], PerParty(Fixed(crypto_sign_PUBLICKEYBYTES))]
    """The MPC nodes with which the key was made: public keys of theirs."""
    whole: Annotated[bool, _Whole()] = False
    """Vault policy ``signer``: in place of a half, the whole is sealed to each MPC node."""

    def __post_init__(self) -> None:
        known_curve(self.curve)
        if set(self.halves) != set(MPC_NODES):
            raise UsageError("one half for each MPC node expected")
        if set(self.auth_keys) != set(MPC_NODES):
            raise UsageError("one authentication key for each MPC node expected")
        if set(self.identities) != set(MPC_NODES):
            raise UsageError("one identity for each MPC node expected")

    @property
    def version(self) -> int:
        """``VERSION`` or ``WHOLE_VERSION``."""
        return WHOLE_VERSION if self.whole else VERSION

    def to_text(self) -> str:
        """URL-safe base64 without padding."""
        return encode_base64url(bytes([self.version]) + self.encode(NO_CONTEXT))

    @classmethod
    def from_text(cls, text: str) -> Self:
        """Strict inverse of ``to_text``.

        Raises:
            MalformedVault: not a secret store, or its Argon2id cost is beyond what is accepted.
        """
        data = decode_base64url(text, "secret_store", _MAX_STORE_BYTES, (VERSION, WHOLE_VERSION))
        try:
            store = cls.decode(data[1:], NO_CONTEXT)
        except (InvalidEncoding, UsageError) as error:
            raise MalformedVault(f"secret_store: {error}") from None
        if store.version != data[0]:
            raise MalformedVault(f"secret_store: not what version {data[0]} has in it")
        return store

    def __repr__(self) -> str:
        return f"SecretStore<{self.curve}, key {self.key_id}, sealed>"


@dataclass(frozen=True)
class EncryptedShare:
    """The opened form of ``encrypted_share``; the share in it is sealed."""

    nonce: bytes
    ciphertext: bytes
    """Ciphertext with its tag."""

    def to_text(self) -> str:
        """URL-safe base64 without padding."""
        return encode_base64url(bytes([SHARE_VERSION]) + self.nonce + self.ciphertext)

    @classmethod
    def from_text(cls, text: str) -> Self:
        """Strict inverse of ``to_text``.

        Raises:
            MalformedVault: not an encrypted share.
        """
        limit = _SHARE_OVERHEAD + MAX_SHARE_BYTES
        data = decode_base64url(text, "encrypted_share", limit, (SHARE_VERSION,))
        if len(data) <= _SHARE_OVERHEAD:
            raise MalformedVault("encrypted_share: too short to hold a share")
        return cls(data[1 : 1 + NONCE_BYTES], data[1 + NONCE_BYTES :])

    def __repr__(self) -> str:
        return f"EncryptedShare<{len(self.ciphertext)} bytes, sealed>"


def key_id_bytes(key_id: str) -> bytes:
    """A key id as its 32 bytes.

    Raises:
        UsageError: it is not 64 lower-case hex digits.
    """
    try:
        data = bytes.fromhex(key_id)
    except ValueError:
        data = b""
    if len(data) != 32 or data.hex() != key_id:
        raise UsageError("key id is not 64 lower-case hex digits")
    return data


def encode_base64url(data: bytes) -> str:
    return pybase64.urlsafe_b64encode(data).rstrip(b"=").decode()


def decode_base64url(text: str, name: str, limit: int, versions: tuple[int, ...]) -> bytes:
    """Strict inverse of ``encode_base64url`` for at most ``limit`` bytes that begin with a version.

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
    if encode_base64url(data) != text:
        raise MalformedVault(f"{name}: not URL-safe base64 without padding")
    if not data:
        raise MalformedVault(f"{name}: empty")
    if data[0] not in versions:
        known = " or ".join(map(str, versions))
        raise MalformedVault(f"{name}: version {data[0]}, expected {known}")
    return data
