"""Model of the data that a service holds, as far as a caller can know it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final, Literal

Curve = Literal["secp256k1", "ed25519"]
CURVES: Final[tuple[Curve, ...]] = ("ed25519", "secp256k1")
"""Curves, the quick one first: examples shrink toward it."""


@dataclass
class IssuedShare:
    """A key share record as generate or recover returned it, with its password."""

    key_id: str
    encrypted_share: str = field(repr=False)
    secret_store: str = field(repr=False)
    public_key: str
    curve: str
    password: str = field(repr=False)
    retired: bool = False
    """Whether a later recovery has replaced it."""

    @classmethod
    def of(cls, document: Any, password: str) -> IssuedShare:
        """Make it from a checked record."""
        return cls(
            document["key_id"],
            document["encrypted_share"],
            document["secret_store"],
            document["public_key"],
            document["curve"],
            password,
        )

    def stored(self) -> dict[str, str]:
        """Return the members that a caller sends back."""
        return {
            "key_id": self.key_id,
            "encrypted_share": self.encrypted_share,
            "secret_store": self.secret_store,
            "curve": self.curve,
        }


@dataclass
class Key:
    """A user's key on one curve, and all its shares, the first one first."""

    curve: str
    public_key: str
    shares: list[IssuedShare]
    xpub: str = ""
    """Extended public key, once an answer named it, on targets with child keys."""
    presignatures: list[str] = field(default_factory=list, repr=False)
    """Presignatures that the caller has left."""
    backup: list[str] = field(default_factory=list, repr=False)
    """Presignatures that the caller ever had."""

    @property
    def present(self) -> IssuedShare:
        return self.shares[-1]

    def replace(self, share: IssuedShare) -> None:
        """Replace the present share after a recovery."""
        for old in self.shares:
            old.retired = True
        self.shares.append(share)


@dataclass
class User:
    """User of the service, with an access token."""

    name: str
    """Name in descriptions."""
    login: str
    """Name at the service."""
    token: str = field(repr=False)
    user_id: str | None = None
    """Identifier, once an answer named it."""
    keys: dict[str, Key] = field(default_factory=dict)
    addresses: dict[str, Any] = field(default_factory=dict)
    """Addresses by curve, once an answer named them."""


@dataclass
class Model:
    """All users of one run."""

    users: dict[str, User] = field(default_factory=dict)

    def every_key(self) -> Iterator[tuple[User, Key]]:
        """Yield every key with its owner."""
        for user in self.users.values():
            for key in user.keys.values():
                yield user, key

    def key_ids(self) -> set[str]:
        """Return every key_id ever issued."""
        return {share.key_id for _, key in self.every_key() for share in key.shares}
