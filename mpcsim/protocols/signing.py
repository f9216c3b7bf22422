"""The wallet's protocols, and the one that signs with the keys of each curve.

ECDSA signs on secp256k1, FROST on ed25519. This module makes signers for a share of either;
``presigned`` those for a presignature.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from coincurve import PublicKey
from nacl.exceptions import BadSignatureError
from nacl.signing import VerifyKey

from mpcsim.crypto.bip32 import Path, check_curve
from mpcsim.crypto.groups.curves import curve
from mpcsim.crypto.groups.secp256k1 import ORDER, SECP256K1
from mpcsim.crypto.rng import Rng
from mpcsim.ids import PartyId
from mpcsim.protocols import dkg, ecdsa, frost, presign, presigned, reshare
from mpcsim.protocols.engine import Definition, Party
from mpcsim.protocols.engine.events import Listener, silent
from mpcsim.protocols.engine.prestart import PrestartedParty
from mpcsim.protocols.key_share import KeyShare, PublicKeyRecord

PROTOCOLS: Final[Mapping[str, Definition[Any, Any]]] = {
    definition.name: definition
    for definition in (
        dkg.DKG,
        ecdsa.ECDSA,
        presign.PRESIGN,
        presigned.PRESIGNED,
        frost.FROST,
        reshare.RESHARE,
    )
}
"""All protocols of the wallet, by name."""

_LOW_S: Final = (ORDER // 2).to_bytes(32, "big")
"""Largest s that is released (BIP 62)."""


def signing_input(record: PublicKeyRecord, message: bytes) -> bytes:
    """Return the bytes to sign for a message: its SHA-256 on secp256k1, itself on ed25519."""
    return hashlib.sha256(message).digest() if record.group is SECP256K1 else message


def protocol_of_curve(curve_name: str) -> Definition[Any, Any]:
    """Return the protocol that signs with the keys of a curve."""
    return ecdsa.ECDSA if curve(curve_name) is SECP256K1 else frost.FROST


def signer(
    share: KeyShare,
    signers: tuple[int, ...],
    message: bytes,
    *,
    path: Path = (),
    session_id: bytes,
    rng: Rng | None = None,
    listener: Listener = silent,
) -> Party[Any, Any]:
    """Return the holder of the share as a signer; its result has ``encode``, the signature's bytes.

    Args:
        signers: identifiers of everyone who signs, this party included.
        message: the 32-byte hash on secp256k1, the message on ed25519.
        path: path of the child key to sign with, on secp256k1; empty: the key itself.

    Raises:
        UsageError: as from ``ecdsa.setup`` or ``frost.setup``; a path on ed25519.
    """
    if share.group is SECP256K1:
        hashed = ecdsa.setup(share, signers, message, path=path)
        return ecdsa.party(hashed, session_id=session_id, rng=rng, listener=listener)
    _check_path(share.record.curve_name, path)
    whole = frost.setup(share, signers, message)
    return frost.party(whole, session_id=session_id, rng=rng, listener=listener)


def prestart(
    curve_name: str,
    epoch: bytes,
    signers: tuple[int, ...],
    message: bytes,
    *,
    path: Path = (),
    me: PartyId,
    auth_keys: Mapping[PartyId, bytes],
    session_id: bytes,
    rng: Rng | None = None,
) -> PrestartedParty[Any, Any]:
    """Return a signer whose share is still to come; ``PrestartedParty.party`` makes it a party.

    Args:
        auth_keys: keys that this holder shares with every other (``KeyShare.auth_key``).

    Raises:
        UsageError: as from ``signer``, as far as it can be seen already; of the share, then.
    """
    begin: Any = frost.prestart
    if curve(curve_name) is SECP256K1:
        begin = partial(ecdsa.prestart, path=path)
    else:
        _check_path(curve_name, path)
    prestarted: PrestartedParty[Any, Any] = begin(
        epoch, signers, message, me=me, auth_keys=auth_keys, session_id=session_id, rng=rng
    )
    return prestarted


def _check_path(curve_name: str, path: Path) -> None:
    if path:
        check_curve(curve_name)


def verifies(record: PublicKeyRecord, message: bytes, signature: bytes, *, path: Path = ()) -> bool:
    """Return whether a signature is valid for the message and key, by libsecp256k1 or libsodium.

    A second opinion: the signers check with code of their own.

    Args:
        message: the 32-byte hash on secp256k1, the message on ed25519.
        signature: 65 bytes r, s, v (s must be low, and v = 27 or 28 recover the key), or 64 bytes.
        path: path of the child key that it is said to be signed with.

    Raises:
        UsageError: as from ``PublicKeyRecord.derive``.
    """
    public_key = record.derive(path)[0].encode()
    try:
        if record.group is SECP256K1:
            r, s, (v,) = signature[:32], signature[32:64], signature[64:]
            recoverable = r + s + bytes([v - 27])
            found = PublicKey.from_signature_and_message(recoverable, message, hasher=None)
            # libsecp256k1 takes high s, too, and v = 29 and 30; the EVM does not (EIP-2).
            return s <= _LOW_S and v in (27, 28) and found.format() == public_key
        VerifyKey(public_key).verify(message, signature)
    except (ValueError, BadSignatureError):
        return False
    return True
