"""A secret in two halves, each sealed to one MPC node; and how the halves come back."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Collection, Mapping
from contextlib import suppress
from typing import Self

from nacl.bindings import (
    crypto_box_beforenm,
    crypto_box_easy,
    crypto_box_NONCEBYTES,
    crypto_box_open_easy_afternm,
    crypto_box_seal_open,
    crypto_box_SECRETKEYBYTES,
    crypto_scalarmult_base,
)
from nacl.exceptions import CryptoError

from mpcsim.crypto.hashing import Tag, tagged_hash, u32
from mpcsim.crypto.rng import Rng
from mpcsim.errors import UsageError
from mpcsim.ids import MPC_NODES, ROLES, PartyId
from mpcsim.service.vault.strings import (
    BINDING_BYTES,
    HALF_BYTES,
    SEALED_BYTES,
    MalformedVault,
    WrongKey,
    key_id_bytes,
)


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
    """Overwrite a secret in place. What libsodium's binding takes or returns as bytes for a moment
    cannot be, and is left to the allocator."""
    secret[:] = bytes(len(secret))


# --- at the node that serves the caller ---------------------------------------------------------


def seal_halves(
    secret: bytearray,
    node_keys: Mapping[PartyId, bytes],
    key_id: str,
    user_id: str,
    rng: Rng,
    *,
    whole: bool = False,
) -> dict[PartyId, bytes]:
    """Split a secret of ``HALF_BYTES`` by XOR, and seal each half to its MPC node.

    Args:
        whole: do not split it: seal the whole to each.

    Raises:
        UsageError: a public key of low order.
    """
    operator, institution = MPC_NODES
    if whole:
        plain = dict.fromkeys(MPC_NODES, bytes(secret))
    else:
        pad, rest = rng.bytes(HALF_BYTES), bytearray(secret)
        _xor(rest, pad)
        plain = {operator: pad, institution: bytes(rest)}
        wipe(rest)
    binding = {j: _binding(j, key_id, user_id, whole) for j in MPC_NODES}
    return {j: _seal_half(binding[j] + plain[j], node_keys[j], j, rng) for j in MPC_NODES}


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
        """Compute the shared secrets that ``combine`` needs, while the MPC nodes are still
        working."""
        for node_key in node_keys.values():
            with suppress(CryptoError):  # ``combine`` will meet it again
                self._shared_with(node_key)

    def combine(
        self,
        wrapped: Mapping[PartyId, bytes],
        node_keys: Mapping[PartyId, bytes],
        *,
        opened_by: Collection[PartyId] = MPC_NODES,
    ) -> VaultKey:
        """Join the halves that ``rewrap_half`` made at the two MPC nodes.

        Args:
            node_keys: X25519 public key of each MPC node.
            opened_by: one MPC node alone, where that has the whole.

        Raises:
            WrongKey: a half is missing or does not come from its MPC node for this request.
            UsageError: not one public key for each MPC node.
        """
        if set(node_keys) != set(MPC_NODES):
            raise UsageError("one seal key for each MPC node expected")
        secret = bytearray(HALF_BYTES)
        try:
            for j in opened_by:
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
    def generate(cls, rng: Rng) -> Self:
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
    whole: bool = False,
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
        whole: it is not a half but the whole.

    Raises:
        MalformedVault: ``sealed`` or ``reply_key`` cannot be what they should be.
        WrongKey: the half does not open, or was sealed for another node, key or user.
    """
    if len(sealed) != SEALED_BYTES:
        raise MalformedVault(f"half of {len(sealed)} bytes, expected {SEALED_BYTES}")
    name = f"the {ROLES[me]}'s half of the secret_store"
    try:
        plain = crypto_box_seal_open(sealed, seal_key.public, seal_key.secret)
    except CryptoError:
        raise WrongKey(f"{name} does not open") from None
    binding, half = plain[:BINDING_BYTES], plain[BINDING_BYTES:]
    if not hmac.compare_digest(binding, _binding(me, key_id, user_id, whole)):
        raise WrongKey(f"{name} belongs to another key, user or node")
    nonce = rng.bytes(crypto_box_NONCEBYTES)
    try:
        return nonce + crypto_box_easy(half, nonce, reply_key, seal_key.secret)
    except CryptoError:
        raise MalformedVault("the reply key is not a usable X25519 public key") from None


# --- pieces -------------------------------------------------------------------------------------


def _binding(node: PartyId, key_id: str, user_id: str, whole: bool) -> bytes:
    tag = Tag.VAULT_WHOLE if whole else Tag.VAULT_HALF
    return tagged_hash(tag, u32(node), key_id_bytes(key_id), user_id.encode())


def _seal_half(plain: bytes, public_key: bytes, node: PartyId, rng: Rng) -> bytes:
    """libsodium's sealed box (crypto_box_seal) of binding and half.

    Built here because libsodium draws the ephemeral key itself; it opens what this makes.
    """
    ephemeral = rng.bytes(crypto_box_SECRETKEYBYTES)
    ephemeral_public = crypto_scalarmult_base(ephemeral)
    nonce = hashlib.blake2b(
        ephemeral_public + public_key, digest_size=crypto_box_NONCEBYTES
    ).digest()
    try:
        return ephemeral_public + crypto_box_easy(plain, nonce, public_key, ephemeral)
    except CryptoError:
        raise UsageError(f"the {ROLES[node]}'s seal key is of low order") from None


def _xor(target: bytearray, other: bytes) -> None:
    n = len(target)
    target[:] = (int.from_bytes(target) ^ int.from_bytes(other)).to_bytes(n)
