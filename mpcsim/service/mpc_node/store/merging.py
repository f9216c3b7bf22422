"""Decisions of an MPC node's store that was put back from a backup: which keys are served again,
and which aborts may be signed (``mpcsim.service.mpc_node.agreement.testimonies`` says why)."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection
from dataclasses import dataclass
from enum import Enum

from mpcsim.service.mpc_node.store.rows import Forgotten, StoredShare, active_key_id
from mpcsim.service.mpc_node.store.signatures import was_entered


@dataclass(frozen=True)
class InForce:
    """Shares for which both nodes have voted, as their signatures prove."""

    public_key: bytes
    number: int
    """Epochs of the key before this one."""


@dataclass(frozen=True)
class Heard:
    """Statement of the other node about a user's key on a curve; but for ``in_force``, its word."""

    user_id: str
    curve: str
    in_force: InForce | None
    active: str | None
    """Epochs, that is key_ids."""
    voted: str | None
    suspended: frozenset[str]
    restored: bool
    """Whether its store was put back, too, and has not heard of this key since."""


class Open(Enum):
    """Reason why a key that was put back is still not served once the other node has been heard."""

    REPLACED = "both nodes have put newer shares in force"
    BOTH_RESTORED = "both stores were put back"
    UNKNOWN = "the other node does not know these shares"
    DOUBTFUL = "the other node has voted for shares that this one may have voted for"


def is_suspended(share: StoredShare) -> bool:
    """Whether it is suspended here, and known to be there: that may have been heard before it was
    in force here, and nothing followed."""
    return share.suspended is not None and bool(share.suspended_there)


def _replaced(share: StoredShare | None, new: InForce | None) -> bool:
    """Whether a share is of an epoch that another one has replaced."""
    return (
        share is not None
        and new is not None
        and share.public_key == new.public_key
        and share.recoveries < new.number
    )


def still_open(
    cursor: sqlite3.Cursor, said: Heard, rows: Collection[StoredShare], active: StoredShare | None
) -> Open | None:
    """Return why what the other node says does not do for a key to be served."""
    if _replaced(active, said.in_force):
        return Open.REPLACED
    both = cursor.execute("SELECT both FROM put_back").fetchone()
    if both and both[0]:
        return None
    if said.restored:
        return Open.BOTH_RESTORED
    if active is not None and active.key_id not in (said.active, said.voted):
        return Open.UNKNOWN
    known = {share.key_id for share in rows}
    if said.voted is not None and said.voted not in known and not was_entered(cursor, said.voted):
        return Open.DOUBTFUL
    return None


def check_remembered(
    cursor: sqlite3.Cursor, user_id: str, curve: str, key_id: str, replaces: str | None
) -> None:
    """Check that an abort of what is not here contradicts no vote that has been forgotten, or does
    no harm: what the epoch would have replaced is in force here.

    Raises:
        Forgotten: neither is so.
    """
    if not _forgetful(cursor, key_id):
        return
    active = active_key_id(cursor, user_id, curve)
    if active is None or active != replaces:
        raise Forgotten("it may have voted for this epoch before its store was put back")


def _forgetful(cursor: sqlite3.Cursor, key_id: str) -> bool:
    """Whether something about an epoch may have been signed here and forgotten since."""
    both = cursor.execute("SELECT both FROM put_back").fetchone()
    return both is not None and not both[0] and not was_entered(cursor, key_id)
