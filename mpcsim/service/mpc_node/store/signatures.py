"""Votes and aborts that an MPC node has signed, and epochs that it has entered, in its store.

Each function runs within a transaction of the store.
"""

from __future__ import annotations

import sqlite3
from typing import Final

from mpcsim.service.mpc_node.store.rows import StaleUpdate, StoredShare, active_key_id

SIGNED: Final = 64
"""Newest votes of a user and curve that are kept, and newest aborts; some 250 bytes each. Older
ones are harmless to forget: the share of an older vote has been deleted, on the other node's
signature; and no vote follows an older abort, since its session has ended."""
ENTERED: Final = 64
"""Sessions of a user and curve that ended without a vote and are kept, some 250 bytes each. Of
older ones a restored store does not know that they ended: their epochs are in doubt."""


def check_follows(cursor: sqlite3.Cursor, share: StoredShare) -> None:
    """Check that the share that is active now is the one to be replaced.

    Raises:
        StaleUpdate: it is not.
    """
    if active_key_id(cursor, share.user_id, share.curve) != share.predecessor:
        raise StaleUpdate("the share that it replaces is not the active one")


def sign_once(cursor: sqlite3.Cursor, key_id: str, user_id: str, curve: str, what: str) -> None:
    """Store what this node signs for an epoch (A1), as long as that matters (``SIGNED``).

    Raises:
        StaleUpdate: it has signed the contrary.
    """
    signed = signed_for(cursor, key_id, user_id, curve)
    if signed is None:
        cursor.execute("INSERT INTO signed VALUES (?, ?, ?, ?)", (key_id, user_id, curve, what))
        cursor.execute(
            "DELETE FROM signed WHERE rowid IN (SELECT rowid FROM signed WHERE user_id = ?"
            " AND curve = ? AND what = ? ORDER BY rowid DESC LIMIT -1 OFFSET ?)",
            (user_id, curve, what, SIGNED),
        )
    elif signed != what:
        raise StaleUpdate(f"what is signed for this epoch is the {signed}")


def signed_for(cursor: sqlite3.Cursor, key_id: str, user_id: str, curve: str) -> str | None:
    """Return what this node has signed for an epoch: vote, abort, or nothing."""
    row = cursor.execute(
        "SELECT what FROM signed WHERE user_id = ? AND curve = ? AND key_id = ?",
        (user_id, curve, key_id),
    ).fetchone()
    return None if row is None else row[0]


def was_entered(cursor: sqlite3.Cursor, key_id: str) -> bool:
    """Return whether nothing about an epoch was forgotten: its session began after the store was
    restored, or had ended when the backup was taken."""
    row = cursor.execute("SELECT 1 FROM entered WHERE key_id = ?", (key_id,)).fetchone()
    return row is not None
