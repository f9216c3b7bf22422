"""What a simulation can be told to do, as data: a wallet's operations and their arguments."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from mpcsim.crypto.bip32 import Path


@dataclass(frozen=True)
class Generate:
    """Generate a key among all placed parties."""

    curve: str = "secp256k1"
    """``secp256k1`` (ECDSA) or ``ed25519`` (FROST)."""
    threshold: int = 2
    """Signers that the key needs."""
    scheme: str | None = None
    """Multiplication scheme on secp256k1, e.g. ``ot/80``."""


@dataclass(frozen=True)
class Sign:
    """Sign with the kept shares."""

    message: bytes = b"hello"
    """Hashed with SHA-256 for secp256k1, signed as it is for ed25519."""
    signers: tuple[int, ...] | None = None
    """By default the first holders of the key, as many as it needs."""
    path: Path = ()
    """Of the child key to sign with (BIP 32, secp256k1), e.g. ``(0, 7)``."""


@dataclass(frozen=True)
class Presign:
    """Make presignatures with the kept shares."""

    count: int = 1
    signers: tuple[int, ...] | None = None
    """As of ``Sign``."""


@dataclass(frozen=True)
class SignPresigned:
    """Sign with a kept presignature."""

    message: bytes = b"hello"
    signers: tuple[int, ...] | None = None
    """As of ``Sign``."""
    finisher: int | None = None
    """The signer whom the others answer; by default the first."""
    path: Path = ()
    """As of ``Sign``; presignatures are not bound to one."""


@dataclass(frozen=True)
class Recover:
    """Replace a lost share: the other holders reshare, everyone gets a fresh share."""

    lost: int = 1
    """The holder whose share is gone."""
    dealers: tuple[int, ...] | None = None
    """Who deals; by default as many of the others as are needed."""


Task = Generate | Sign | Presign | SignPresigned | Recover

TASKS: Final[Mapping[str, type[Task]]] = {
    "generate": Generate,
    "sign": Sign,
    "presign": Presign,
    "sign presigned": SignPresigned,
    "recover": Recover,
}
"""By the names that they have in scenario files."""
