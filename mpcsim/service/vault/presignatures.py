"""A client's part of a presignature, as its caller keeps it: sealed like the share itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Final, Self

from nacl.bindings import (
    crypto_aead_xchacha20poly1305_ietf_ABYTES,
    crypto_aead_xchacha20poly1305_ietf_decrypt,
    crypto_aead_xchacha20poly1305_ietf_encrypt,
)
from nacl.exceptions import CryptoError

from mpcsim.crypto.encoding import (
    BYTES32,
    NO_CONTEXT,
    U8,
    U16,
    Bytes,
    Fixed,
    Message,
    Nested,
    PerParty,
    wire,
)
from mpcsim.crypto.hashing import Tag, tagged_hash
from mpcsim.crypto.rng import Rng
from mpcsim.errors import InvalidEncoding
from mpcsim.ids import ALLOWANCE_BYTES, BOOT_BYTES, PartyId
from mpcsim.service.vault.strings import (
    NONCE_BYTES,
    MalformedVault,
    WrongKey,
    decode_base64url,
    encode_base64url,
)

PRESIGNATURE_VERSION: Final = 1
MAX_PRESIGNATURE_BYTES: Final = 1 << 10
TAG_BYTES: Final = crypto_aead_xchacha20poly1305_ietf_ABYTES


@wire
class PresignatureHeader(Message):
    """Header of a sealed presignature, in the clear. Nobody can put it on another one."""

    id: Annotated[bytes, BYTES32]
    """Id of the presignature."""
    key_id: Annotated[bytes, BYTES32]
    """The epoch that it was made in."""
    signer: Annotated[int, U16]
    """The MPC node that has the other part."""
    boots: Annotated[Mapping[PartyId, bytes], PerParty(Fixed(BOOT_BYTES))]
    """Boots of both MPC nodes when it was made: it is good for no others."""
    allowance: Annotated[bytes, Fixed(ALLOWANCE_BYTES)]
    """Under which the other MPC node keeps it, until it is used."""
    index: Annotated[int, U8]
    """Index among the presignatures under this allowance."""


@wire
class _Sealed(Message):
    header: Annotated[PresignatureHeader, Nested(PresignatureHeader)]
    nonce: Annotated[bytes, Fixed(NONCE_BYTES)]
    ciphertext: Annotated[bytes, Bytes(MAX_PRESIGNATURE_BYTES)]


@dataclass(frozen=True)
class SealedPresignature:
    """The opened form of an entry of ``presignatures``; what is in it is sealed."""

    header: PresignatureHeader
    nonce: bytes
    ciphertext: bytes
    """Ciphertext with its tag."""

    def to_text(self) -> str:
        """URL-safe base64 without padding."""
        body = _Sealed(self.header, self.nonce, self.ciphertext)
        return encode_base64url(bytes([PRESIGNATURE_VERSION]) + body.encode(NO_CONTEXT))

    @classmethod
    def from_text(cls, text: str) -> Self:
        """Strict inverse of ``to_text``.

        Raises:
            MalformedVault: not a sealed presignature.
        """
        versions = (PRESIGNATURE_VERSION,)
        data = decode_base64url(text, "presignature", 2 * MAX_PRESIGNATURE_BYTES, versions)
        try:
            body = _Sealed.decode(data[1:], NO_CONTEXT)
        except InvalidEncoding as error:
            raise MalformedVault(f"presignature: {error}") from None
        if len(body.ciphertext) < TAG_BYTES:
            raise MalformedVault("presignature: too short to hold one")
        return cls(body.header, body.nonce, body.ciphertext)

    def __repr__(self) -> str:
        return f"SealedPresignature<{self.header.id.hex()}, sealed>"


def seal_presignature(
    presignature: bytes,
    header: PresignatureHeader,
    key: bytes,
    user_id: str,
    rng: Rng,
) -> SealedPresignature:
    """Seal a serialized part of a presignature under the share's key.

    Args:
        key: the share's (``share_key``).
    """
    nonce = rng.bytes(NONCE_BYTES)
    ciphertext = crypto_aead_xchacha20poly1305_ietf_encrypt(
        presignature, _associated_data(header, user_id), nonce, key
    )
    return SealedPresignature(header, nonce, ciphertext)


def open_presignature(sealed: SealedPresignature, key: bytes, user_id: str) -> bytes:
    """The serialized part.

    Raises:
        WrongKey: it or its header was altered, or it belongs to another key or user.
    """
    associated = _associated_data(sealed.header, user_id)
    try:
        return crypto_aead_xchacha20poly1305_ietf_decrypt(
            sealed.ciphertext, associated, sealed.nonce, key
        )
    except CryptoError:
        raise WrongKey("presignature does not open with this secret_store") from None


def _associated_data(header: PresignatureHeader, user_id: str) -> bytes:
    version = bytes([PRESIGNATURE_VERSION])
    plain = header.encode(NO_CONTEXT)
    return tagged_hash(Tag.VAULT_PRESIGNATURE, version, plain, user_id.encode())
