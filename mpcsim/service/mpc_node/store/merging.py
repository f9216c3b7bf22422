"""Decisions of a restored store: which keys are served again, and which aborts may be signed.

The protocol and the reasons are on the page of ``mpc_node.agreement.restore_reconciliation``.
"""

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
    """Statement of the other node about a user's key on a curve: its word, but for ``in_force``."""

    user_id: str
    curve: str
    in_force: ActiveShare | None
    active: str | None
    """Epoch (key_id) of its active share; ``voted``: of its outstanding vote."""
    voted: str | None
    suspended: frozenset[str]
    restored: bool
    """Whether its own store was restored, and has not merged the key."""


class UnmergedReason(Enum):
    """Reason why a restored key stays unmerged, though the other node's statement is here."""

    REPLACED = "both nodes have put newer shares in force"
    BOTH_RESTORED = "both stores were put back"
    UNKNOWN = "the other node does not know these shares"
    DOUBTFUL = "the other node has voted for shares that this one may have voted for"


def is_suspended_on_both_sides(share: StoredShare) -> bool:
    """Return whether a share is suspended here, and marked as suspended at the other node. The mark
    alone may be from before the share was active here."""
    return share.suspended is not None and bool(share.suspended_there)


def _is_replaced(share: StoredShare | None, new: ActiveShare | None) -> bool:
    """Return whether a share is of an older epoch of the same key."""
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
    """Return the reason why a key stays unmerged; None: it may be served."""
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
    """Check that the abort of an unknown epoch contradicts no forgotten vote, or does no harm (R4).

    Raises:
        HistoryLost: it may.
    """
    if not _may_have_forgotten(cursor, key_id):
        return
    active = active_key_id(cursor, user_id, curve)
    if active is None or active != replaces:
        raise HistoryLost("it may have voted for this epoch before its store was put back")


def _may_have_forgotten(cursor: sqlite3.Cursor, key_id: str) -> bool:
    """Return whether this node may have signed for an epoch, and forgotten it since."""
    both = cursor.execute("SELECT both FROM put_back").fetchone()
    return both is not None and not both[0] and not was_entered(cursor, key_id)
