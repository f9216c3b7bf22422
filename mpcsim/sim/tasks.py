"""Operations of a wallet and their arguments, as data: the tasks of a simulation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from mpcsim.crypto.bip32 import Path
from mpcsim.errors import check_type


@dataclass(frozen=True)
class Generate:
    """Generate a key among all placed parties."""

    curve: str = "secp256k1"
    """``secp256k1`` (ECDSA) or ``ed25519`` (FROST)."""
    threshold: int = 2
    """Number of signers that the key needs."""
    scheme: str | None = None
    """Multiplication scheme on secp256k1, e.g. ``ot/80``."""


@dataclass(frozen=True)
class Sign:
    """Sign with the kept shares."""

    message: bytes = b"hello"
    """Message, hashed with SHA-256 for secp256k1 and signed as it is for ed25519."""
    signers: tuple[int, ...] | None = None
    """Signing parties; by default the first holders of the key, as many as it needs."""
    path: Path = ()
    """Derivation path of the child key (BIP 32, secp256k1), e.g. ``(0, 7)``."""

    def __post_init__(self) -> None:
        check_type("message", self.message, bytes)


@dataclass(frozen=True)
class Presign:
    """Make presignatures with the kept shares."""

    count: int = 1
    signers: tuple[int, ...] | None = None
    """Signing parties, as in ``Sign``."""


@dataclass(frozen=True)
class SignPresigned:
    """Sign with a kept presignature."""

    message: bytes = b"hello"
    signers: tuple[int, ...] | None = None
    """Signing parties, as in ``Sign``."""
    finisher: int | None = None
    """Signer that the others answer; by default the first."""
    path: Path = ()
    """Derivation path, as in ``Sign``; presignatures are not bound to a path."""

    def __post_init__(self) -> None:
        check_type("message", self.message, bytes)


@dataclass(frozen=True)
class Recover:
    """Replace a lost share: the other holders reshare, everyone gets a fresh share."""

    lost: int = 1
    """Holder whose share is lost."""
    dealers: tuple[int, ...] | None = None
    """Parties that deal; by default as many of the others as are needed."""


Task = Generate | Sign | Presign | SignPresigned | Recover

TASKS: Final[Mapping[str, type[Task]]] = {
    "generate": Generate,
    "sign": Sign,
    "presign": Presign,
    "sign presigned": SignPresigned,
    "recover": Recover,
}
"""Tasks by their names in scenario files."""
