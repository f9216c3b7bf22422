"""Decisions of an MPC node's store that was put back from a backup: which keys are served again,
and which aborts may be signed (``mpcsim.service.mpc_node.agreement.restore_reconciliation`` says
why)."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection
from dataclasses import dataclass
from enum import Enum

from mpcsim.service.mpc_node.store.rows import HistoryLost, StoredShare, active_key_id
from mpcsim.service.mpc_node.store.signatures import was_entered


@dataclass(frozen=True)
class ActiveShare:
    """Shares for which both nodes have voted, as their signatures prove."""

    public_key: bytes
    number: int
    """Epochs of the key before this one."""


@dataclass(frozen=True)
class NodeStatement:
    """Statement of the other node about a user's key on a curve; but for ``in_force``, its word."""

    user_id: str
    curve: str
    in_force: ActiveShare | None
    active: str | None
    """Epochs, that is key_ids."""
    voted: str | None
    suspended: frozenset[str]
    restored: bool
    """Whether its store was put back, too, and has not heard of this key since."""


class UnmergedReason(Enum):
    """Reason why a key that was put back is still not served once the other node has been heard."""

    REPLACED = "both nodes have put newer shares in force"
    BOTH_RESTORED = "both stores were put back"
    UNKNOWN = "the other node does not know these shares"
    DOUBTFUL = "the other node has voted for shares that this one may have voted for"


def is_suspended_on_both_sides(share: StoredShare) -> bool:
    """Whether it is suspended here, and known to be there: that may have been heard before it was
    in force here, and nothing followed."""
    return share.suspended is not None and bool(share.suspended_there)


def _is_replaced(share: StoredShare | None, new: ActiveShare | None) -> bool:
    """Whether a share is of an epoch that another one has replaced."""
    return (
        share is not None
        and new is not None
        and share.public_key == new.public_key
        and share.recoveries < new.number
    )


def reason_unmerged(
    cursor: sqlite3.Cursor,
    said: NodeStatement,
    rows: Collection[StoredShare],
    active: StoredShare | None,
) -> UnmergedReason | None:
    """Return why what the other node says does not do for a key to be served."""
    if _is_replaced(active, said.in_force):
        return UnmergedReason.REPLACED
    both = cursor.execute("SELECT both FROM put_back").fetchone()
    if both and both[0]:
        return None
    if said.restored:
        return UnmergedReason.BOTH_RESTORED
    if active is not None and active.key_id not in (said.active, said.voted):
        return UnmergedReason.UNKNOWN
    known = {share.key_id for share in rows}
    if said.voted is not None and said.voted not in known and not was_entered(cursor, said.voted):
        return UnmergedReason.DOUBTFUL
    return None


def check_not_forgotten(
    cursor: sqlite3.Cursor, user_id: str, curve: str, key_id: str, replaces: str | None
) -> None:
    """Check that an abort of what is not here contradicts no vote that has been forgotten, or does
    no harm: what the epoch would have replaced is in force here.

    Raises:
        HistoryLost: neither is so.
    """
    if not _may_have_forgotten(cursor, key_id):
        return
    active = active_key_id(cursor, user_id, curve)
    if active is None or active != replaces:
        raise HistoryLost("it may have voted for this epoch before its store was put back")


def _may_have_forgotten(cursor: sqlite3.Cursor, key_id: str) -> bool:
    """Whether something about an epoch may have been signed here and forgotten since."""
    both = cursor.execute("SELECT both FROM put_back").fetchone()
    return both is not None and not both[0] and not was_entered(cursor, key_id)
