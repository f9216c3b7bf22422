"""Rows of an MPC node's store: its key shares."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass, field
from typing import Final

from mpcsim.errors import MpcError

COLUMNS: Final = (
    "key_id, user_id, curve, public_key, share, state, suspended, recoveries, predecessor, record,"
    " suspended_there, unmerged"
)


class StaleUpdate(MpcError):
    """Error: a change does not follow from the state of the store; nothing has changed."""


class HistoryLost(StaleUpdate):
    """Error: this node may have signed the contrary before its store was restored."""


@dataclass(frozen=True)
class StoredShare:
    """A row of the store."""

    key_id: str
    user_id: str
    curve: str
    public_key: bytes
    share: bytes = field(repr=False)
    """``KeyShare.to_bytes``. Secret."""
    state: str
    suspended: str | None = None
    """Reason why the share is suspended; None: it is not."""
    recoveries: int = 0
    """Number of recoveries of the key until it had this share."""
    predecessor: str | None = None
    """The ``key_id`` whose shares it replaces."""
    record: bytes | None = field(default=None, repr=False)
    """``SignedRecord.to_bytes``: with this node's vote once voted, with both once active."""
    suspended_there: int = 0
    """1: the other node has stated that it is suspended there."""
    unmerged: int = 0
    """1: its store was restored, and the key has not been merged since."""


def row_of(cursor: sqlite3.Cursor, key_id: str) -> StoredShare | None:
    """Return the share of an epoch."""
    row = cursor.execute(f"SELECT {COLUMNS} FROM shares WHERE key_id = ?", (key_id,)).fetchone()
    return None if row is None else StoredShare(*row)


def rows_of(cursor: sqlite3.Cursor, user_id: str, curve: str) -> list[StoredShare]:
    """Return all shares of a user's key on a curve."""
    query = f"SELECT {COLUMNS} FROM shares WHERE user_id = ? AND curve = ?"
    return [StoredShare(*row) for row in cursor.execute(query, (user_id, curve))]


def active_key_id(cursor: sqlite3.Cursor, user_id: str, curve: str) -> str | None:
    """Return the epoch of the share of a user's present key on a curve."""
    row = cursor.execute(
        "SELECT key_id FROM shares WHERE user_id = ? AND curve = ? AND state = 'active'",
        (user_id, curve),
    ).fetchone()
    return None if row is None else row[0]
