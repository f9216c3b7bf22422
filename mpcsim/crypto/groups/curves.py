"""The supported curves, by name."""

from __future__ import annotations

from mpcsim.crypto.groups.ed25519 import ED25519
from mpcsim.crypto.groups.group import Group
from mpcsim.crypto.groups.secp256k1 import SECP256K1
from mpcsim.errors import UsageError

CURVES: dict[str, Group] = {group.name: group for group in (SECP256K1, ED25519)}


def curve(name: str) -> Group:
    """Return the group of that name.

    Raises:
        UsageError: unknown name.
    """
    try:
        return CURVES[name]
    except (KeyError, TypeError):  # TypeError: not even hashable
        raise UsageError(f"unknown curve {name!r}; known: {', '.join(CURVES)}") from None
