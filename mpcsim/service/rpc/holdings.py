"""What an MPC node says of the shares in its store: that they are there, and how far they are."""

from __future__ import annotations

from typing import Final, NamedTuple

PREPARED: Final = "prepared"
VOTED: Final = "voted"
ACTIVE: Final = "active"


class Holding(NamedTuple):
    """That a share is there, without the share."""

    key_id: str
    user_id: str
    curve: str
    public_key: bytes
    state: str
    recoveries: int
