"""Store of one MPC node: its key shares, its identity and its seal key. No other service reads it.

States of a share (protocol: ``gateway.activation.decision``):

    ========= ================================= ==============================================
    prepared  a session has made it             deleted when the session ends without a vote
    voted     this node has signed for it       deleted on the other node's signed abort alone
    active    both nodes have signed for it     deleted by the activation of the one that
                                                replaces it, and by nothing else
    ========= ================================= ==============================================

A share becomes active only over the one that it was made to replace. For an epoch this node signs a
vote or an abort, never both; at most one vote of a user and curve is outstanding.

Every share of a restored store (``mark_restored``) is *unmerged*, and used for nothing, until the
other node's statement about its key has been merged (``merge``;
``mpcsim.service.mpc_node.agreement.restore_reconciliation``).

Deleted data has been erased from all files when a method returns. Present shares are not encrypted:
at rest they are as safe as the disk.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Collection
from dataclasses import astuple, replace
from pathlib import Path
from typing import overload

from mpcsim.errors import UsageError
from mpcsim.service.mpc_node import events
from mpcsim.service.mpc_node.events import Event, EventLog, Kind
from mpcsim.service.mpc_node.store.merging import (
    NodeStatement,
    UnmergedReason,
    check_not_forgotten,
    is_suspended_on_both_sides,
    reason_unmerged,
)
from mpcsim.service.mpc_node.store.own_keys import OwnKeys
from mpcsim.service.mpc_node.store.rows import COLUMNS, StaleUpdate, StoredShare, row_of, rows_of
from mpcsim.service.mpc_node.store.schema import SCHEMA
from mpcsim.service.mpc_node.store.signatures import (
    ENTERED,
    check_follows,
    sign_once,
    signed_for,
)
from mpcsim.service.rpc.activation_messages import ACTIVE, PREPARED, VOTED, ShareInfo
from mpcsim.service.rpc.statements import LogHead
from mpcsim.service.storage.database import IN_MEMORY, Database, Deployment, StoreFailed


class ShareStore:
    """Key shares of one MPC node. Every change is durable when the method returns."""

    def __init__(self, path: Path | str = IN_MEMORY, now: Callable[[], float] = time.time) -> None:
        """Open the database; create it if there is none.

        Args:
            now: seconds since 1970 UTC, for the log of events and the times of votes.

        Raises:
            UsageError: the file cannot be opened, or is no share store.
        """
        self._log = EventLog(now)
        self._now = now
        self._pending: dict[str, tuple[str, bytes | None]] = {}
        """Suspensions that could not be written yet: reason, and the share to keep. They count."""
        self._pending_at_peer: set[str] = set()
        """Epochs suspended at the other node, as far as that could not be written yet."""
        try:
            self._database = Database(path, SCHEMA)
        except StoreFailed as error:
            raise UsageError(f"share store {error}") from error
        self.keys = OwnKeys(self._database, self._log, path)

    @property
    def database(self) -> Database:
        """Underlying database, for backups, metrics and probes."""
        return self._database

    def deployment(self) -> Deployment | None:
        """Return the deployment that the store is part of, if that has been written."""
        return self._database.deployment()

    def join(self, deployment: Deployment) -> None:
        """Make the store part of a deployment."""
        self._database.join(deployment)

    def share_inventory(self, after: str, limit: int) -> list[ShareInfo]:
        """List the shares in the store, in any state, in the order of their key_ids.

        Args:
            after: the last key_id seen; empty to begin with.
        """
        return [
            ShareInfo(*row)
            for row in self._database.rows(
                "SELECT key_id, user_id, curve, public_key, state, recoveries FROM shares"
                " WHERE key_id > ? ORDER BY key_id LIMIT ?",
                after,
                limit,
            )
        ]

    def count_by_state(self) -> list[tuple[str, bool, int]]:
        """Count the shares by state and whether suspended; cheap, since cached until a write."""

        def read() -> list[tuple[str, bool, int]]:
            query = "SELECT state, suspended IS NOT NULL, COUNT(*) FROM shares GROUP BY 1, 2"
            return [(state, bool(held), n) for state, held, n in self._database.rows(query)]

        return self._database.read_cached("counts", read)

    def find(self, key_id: str) -> StoredShare | None:
        def read() -> StoredShare | None:
            row = self._database.row(f"SELECT {COLUMNS} FROM shares WHERE key_id = ?", key_id)
            return None if row is None else StoredShare(*row)

        return self._with_pending(self._database.read_cached(key_id, read))

    def active_share(self, user_id: str, curve: str) -> StoredShare | None:
        """Return the share of the user's present key on a curve."""
        return self._in_state(ACTIVE, user_id, curve)

    def voted_share(self, user_id: str, curve: str) -> StoredShare | None:
        """Return the share of the outstanding vote."""
        return self._in_state(VOTED, user_id, curve)

    def _in_state(self, state: str, user_id: str, curve: str) -> StoredShare | None:
        row = self._database.row(
            f"SELECT {COLUMNS} FROM shares WHERE user_id = ? AND curve = ? AND state = '{state}'",
            user_id,
            curve,
        )
        return self._with_pending(None if row is None else StoredShare(*row))

    @overload
    def _with_pending(self, share: StoredShare) -> StoredShare: ...
    @overload
    def _with_pending(self, share: StoredShare | None) -> StoredShare | None: ...

    def _with_pending(self, share: StoredShare | None) -> StoredShare | None:
        """Return a share with its suspension, if that could not be written yet."""
        if share is None:
            return None
        if share.key_id in self._pending_at_peer:
            share = replace(share, suspended_there=1)
        if (pending := self._pending.get(share.key_id)) is not None:
            why, kept = pending
            share = replace(share, suspended=why, share=share.share if kept is None else kept)
        return share

    def voted_since(self, user_id: str, curve: str) -> float | None:
        """Return when this node voted for new shares of a user's key, in seconds since 1970 UTC;
        None: no vote is outstanding."""

        def read() -> float | None:
            row = self._database.row(
                "SELECT since FROM shares LEFT JOIN outstanding USING (key_id)"
                " WHERE user_id = ? AND curve = ? AND state = 'voted'",
                user_id,
                curve,
            )
            # A vote whose time is not there counts as an old one.
            return None if row is None else row[0] or 0.0

        return self._database.read_cached(f"vote {user_id} {curve}", read)

    def of_key(self, user_id: str, curve: str) -> list[StoredShare]:
        """Return all shares of a user's key on a curve, from one snapshot."""
        query = f"SELECT {COLUMNS} FROM shares WHERE user_id = ? AND curve = ?"
        rows = self._database.rows(query, user_id, curve)
        return [self._with_pending(StoredShare(*row)) for row in rows]

    # ------------------------------------------------------------------ shares are made

    def prepare(self, share: StoredShare) -> None:
        """Store a new share beside the present one.

        Raises:
            sqlite3.IntegrityError: a share of this key_id is there already.
        """
        with self._database.transaction() as cursor:
            marks = ", ".join("?" * len(astuple(share)))
            cursor.execute(f"INSERT INTO shares ({COLUMNS}) VALUES ({marks})", astuple(share))

    def enter_epoch(self, key_id: str, user_id: str, curve: str) -> None:
        """Store that a session makes shares of this epoch, before anybody can vote for it.

        When the session ends without a vote, none will follow: that is stored, too, and so known to
        later backups, until ``ENTERED`` later sessions have ended (``restore_reconciliation``, R4).
        """
        with self._database.transaction() as cursor:
            cursor.execute(
                "INSERT OR IGNORE INTO entered (key_id, user_id, curve) VALUES (?, ?, ?)",
                (key_id, user_id, curve),
            )
            cursor.execute(
                "DELETE FROM entered WHERE rowid IN (SELECT rowid FROM entered WHERE user_id = ?"
                " AND curve = ? AND over = 1 ORDER BY rowid DESC LIMIT -1 OFFSET ?)",
                (user_id, curve, ENTERED),
            )

    def drop_prepared(self, key_id: str) -> None:
        """Delete a share, unless it has been voted for."""
        self._drop("key_id = ?", key_id)

    def drop_orphans(self, live: Collection[str] = ()) -> None:
        """Delete the prepared shares of all but live sessions, and erase what was deleted before.

        Args:
            live: epochs that live sessions make.
        """
        marks = ", ".join("?" * len(live))
        self._drop(f"key_id NOT IN ({marks})", *live)

    def _drop(self, which: str, *values: str) -> None:
        with self._database.transaction() as cursor:
            cursor.execute(f"UPDATE entered SET over = 1 WHERE over = 0 AND {which}", values)
            cursor.execute(f"DELETE FROM shares WHERE state = 'prepared' AND {which}", values)
            gone = cursor.rowcount
        if gone:
            self._database.forget()
        self._database.sweep()

    # ------------------------------------------------------------------ activation

    def vote(self, key_id: str, sign: Callable[[StoredShare, LogHead], bytes]) -> bytes:
        """Vote for a prepared share (step 2); for a voted one, return the same vote again.

        Args:
            sign: signs the vote.

        Returns:
            The ``SignedRecord`` with this vote alone.

        Raises:
            StaleUpdate: there is no such share, it has been aborted, another vote is outstanding,
                or the active share is not the one it replaces.
        """
        with self._database.transaction() as cursor:
            share = row_of(cursor, key_id)
            if share is not None and share.state == VOTED and share.record is not None:
                return share.record
            if share is None or share.state == ACTIVE:
                raise StaleUpdate("there is no such share to vote for")
            at = share.user_id, share.curve
            other = cursor.execute(
                "SELECT key_id FROM shares WHERE user_id = ? AND curve = ? AND state = 'voted'", at
            ).fetchone()
            if other:
                raise StaleUpdate(f"another vote is outstanding: for {other[0]}")
            check_follows(cursor, share)
            sign_once(cursor, key_id, *at, "vote")
            cursor.execute("DELETE FROM entered WHERE key_id = ?", (key_id,))
            vote = sign(share, events.log_head(cursor))
            cursor.execute(
                "UPDATE shares SET state = 'voted', record = ? WHERE key_id = ?", (vote, key_id)
            )
            cursor.execute(
                "DELETE FROM outstanding WHERE key_id NOT IN"
                " (SELECT key_id FROM shares WHERE state = 'voted')"
            )
            cursor.execute(
                "INSERT OR REPLACE INTO outstanding VALUES (?, ?)", (key_id, self._now())
            )
        return vote

    def activate(self, key_id: str, record: bytes, other: LogHead, session: str = "") -> list[str]:
        """Make a voted share the active one, and delete all others of the key (step 4). A repeated
        call changes nothing.

        Args:
            record: the ``SignedRecord`` with both votes.
            other: head of the other node's log, from its vote.
            session: session that made the share, if that is known.

        Returns:
            The key_ids of the deleted shares.

        Raises:
            StaleUpdate: it has not been voted for, or the active share is not the one it replaces.
        """
        with self._database.transaction() as cursor:
            share = row_of(cursor, key_id)
            if share is None or share.record is None:
                raise StaleUpdate("this share has not been voted for")
            at = share.user_id, share.curve
            gone: list[tuple[str, str]] = []
            if share.state != ACTIVE:
                kind = Kind.RECOVERED if share.predecessor else Kind.MADE
                check_follows(cursor, share)
                gone = cursor.execute(
                    "DELETE FROM shares WHERE user_id = ? AND curve = ? AND key_id != ?"
                    " RETURNING key_id, state",
                    (*at, key_id),
                ).fetchall()
                cursor.execute(
                    "UPDATE shares SET state = 'active', record = ? WHERE key_id = ?",
                    (record, key_id),
                )
                seen = events.head_outcome(other)
                self._log.write(cursor, kind, *at, key_id=key_id, session=session, outcome=seen)
                for old, state in gone:
                    if state == ACTIVE:
                        self._log.write(
                            cursor, Kind.RETIRED, *at, key_id=old, outcome=f"replaced by {key_id}"
                        )
        self._database.forget()
        return [old for old, _ in gone]

    def abort(
        self,
        user_id: str,
        curve: str,
        key_id: str,
        *,
        voted_for: bool = False,
        replaces: str | None = None,
    ) -> StoredShare | None:
        """Store that this node never votes for an epoch; delete a prepared share of it (step 4').

        Args:
            voted_for: whether the other node has voted for the epoch. If not, this node must hold a
                share of it, or have aborted it before.
            replaces: the key_id that the epoch replaces, as that vote says.

        Returns:
            None; or the share, if this node has voted for it, and nothing is changed.

        Raises:
            StaleUpdate: this node has voted for it, and the share is gone; or neither node has such
                a share. ``HistoryLost``: it may have voted before its store was restored (R4).
        """
        with self._database.transaction() as cursor:
            share = row_of(cursor, key_id)
            if share is not None and (share.user_id, share.curve) != (user_id, curve):
                share = None  # another user's session, as this node knows it
            if share is not None and share.state != PREPARED:
                return share
            signed = signed_for(cursor, key_id, user_id, curve)
            if share is None and signed is None and not voted_for:
                raise StaleUpdate("neither node has such a share, as far as it can tell")
            if share is None and signed is None:
                check_not_forgotten(cursor, user_id, curve, key_id, replaces)
            sign_once(cursor, key_id, user_id, curve, "abort")
            if share is not None:
                cursor.execute("DELETE FROM shares WHERE key_id = ?", (key_id,))
        self._database.forget()
        return None

    def drop(self, user_id: str, curve: str, key_id: str) -> None:
        """Delete a share that the other node never votes for (step 6').

        Raises:
            StaleUpdate: it is in force here.
        """
        at = user_id, curve
        with self._database.transaction() as cursor:
            share = row_of(cursor, key_id)
            if share is not None:
                if (share.user_id, share.curve) != at:
                    raise StaleUpdate("the share is of another user or curve")
                if share.state == ACTIVE:
                    raise StaleUpdate("the share is in force")
                cursor.execute("DELETE FROM shares WHERE key_id = ?", (key_id,))
                if share.state == VOTED:
                    why = "never in force"
                    self._log.write(cursor, Kind.RETIRED, *at, key_id=key_id, outcome=why)
        self._database.forget()

    # ------------------------------------------------------------------ after a restore

    def mark_restored(self, taken: str, *, both: bool) -> None:
        """Mark the store as restored from a backup: delete prepared shares, unmerge the others.

        Args:
            taken: time of the backup, for the log of events.
            both: go on from this backup, though the other node's store was restored, too, and
                neither knows what has been retired or suspended since (--other-restored-too).
        """
        with self._database.transaction() as cursor:
            cursor.execute("DELETE FROM shares WHERE state = 'prepared'")
            cursor.execute("UPDATE shares SET unmerged = 1")
            cursor.execute("DELETE FROM entered WHERE over = 0")
            cursor.execute("DELETE FROM put_back")
            cursor.execute("INSERT INTO put_back VALUES (?)", (int(both),))
            self._log.write(cursor, Kind.RESTORED, "", "", outcome=f"from a backup of {taken}")
        self._database.forget()

    @property
    def both_restored(self) -> bool:
        """Whether the store was restored with ``both``."""
        row = self._database.row("SELECT both FROM put_back")
        return row is not None and bool(row[0])

    def merge(
        self, said: NodeStatement, without_multiplication: Callable[[StoredShare], bytes | None]
    ) -> UnmergedReason | None:
        """Merge the other node's statement about a key. No share is deleted by it (R2).

        What is suspended at the other node is suspended here in any case.

        Args:
            without_multiplication: returns a share without multiplication state, or None if it has
                none.

        Returns:
            Reason why the key stays unmerged; None: it is served.
        """
        at = said.user_id, said.curve
        changed = False
        with self._database.transaction() as cursor:
            rows = rows_of(cursor, *at)
            active = next((share for share in rows if share.state == ACTIVE), None)
            if (
                active
                and active.key_id in said.suspended
                and not is_suspended_on_both_sides(active)
            ):
                changed = self._suspended_there(cursor, active, without_multiplication(active))
            why = None
            if any(share.unmerged for share in rows):
                why = reason_unmerged(cursor, said, rows, active)
                if why is None:
                    cursor.execute(
                        "UPDATE shares SET unmerged = 0 WHERE user_id = ? AND curve = ?", at
                    )
        if changed:
            self._database.forget()
        self._database.sweep()
        return why

    def _suspended_there(
        self, cursor: sqlite3.Cursor, active: StoredShare, kept: bytes | None
    ) -> bool:
        why = active.suspended or "the other MPC node says that it is suspended"
        cursor.execute(
            "UPDATE shares SET suspended = ?, suspended_there = 1, share = ? WHERE key_id = ?",
            (why, active.share if kept is None else kept, active.key_id),
        )
        if active.suspended is None:
            at = active.user_id, active.curve
            self._log.write(cursor, Kind.SUSPENDED, *at, key_id=active.key_id, outcome=why)
        return kept is not None

    def mark_suspended_at_peer(self, key_ids: Collection[str]) -> None:
        """Mark shares as suspended at the other node; what cannot be written now is pending."""
        self._pending_at_peer |= set(key_ids)
        self._database.write_urgently(lambda: self._write_suspended_there(key_ids))
        self._pending_at_peer -= set(key_ids)

    def _write_suspended_there(self, key_ids: Collection[str]) -> None:
        with self._database.transaction() as cursor:
            cursor.executemany(
                "UPDATE shares SET suspended_there = 1 WHERE key_id = ?", [(i,) for i in key_ids]
            )

    @property
    def pending_suspensions(self) -> int:
        """Number of suspensions that could not be written."""
        return len(self._pending) + len(self._pending_at_peer)

    def has_pending_suspension(self, key_id: str) -> bool:
        """Return whether the suspension of a share could not be written yet."""
        return key_id in self._pending

    def write_pending(self) -> None:
        """Write pending suspensions, and reserve disk space for the next ones.

        Raises:
            StoreFailed: not all could be written.
        """
        for key_id, (why, kept) in list(self._pending.items()):
            self.suspend(key_id, why, kept)
        if there := list(self._pending_at_peer):
            self.mark_suspended_at_peer(there)
        self._database.hold_reserve()

    # ------------------------------------------------------------------ suspension and events

    def suspend(self, key_id: str, why: str, share: bytes | None = None) -> None:
        """Suspend a share. If that cannot be written now, it counts in memory, and is pending
        (``write_pending``); a crash by then loses it.

        Args:
            share: share to store in its place, without state that was discarded.
        """
        if share is None and key_id in self._pending:
            share = self._pending[key_id][1]
        self._pending[key_id] = why, share
        self._database.write_urgently(lambda: self._write_suspended(key_id, why, share))
        self._pending.pop(key_id, None)
        if share is not None:
            self._database.forget()

    def _write_suspended(self, key_id: str, why: str, share: bytes | None) -> None:
        with self._database.transaction() as cursor:
            found = cursor.execute(
                "UPDATE shares SET suspended = ? WHERE key_id = ? RETURNING user_id, curve",
                (why, key_id),
            ).fetchone()
            if found is not None:
                self._log.write(cursor, Kind.SUSPENDED, *found, key_id=key_id, outcome=why)
            if share is not None:
                cursor.execute("UPDATE shares SET share = ? WHERE key_id = ?", (share, key_id))

    def suspended_key_ids(self, limit: int) -> list[str]:
        """Return the key_ids of suspended shares in force, up to a number."""
        rows = self._database.rows(
            "SELECT key_id FROM shares WHERE state = ? AND suspended IS NOT NULL"
            " ORDER BY key_id LIMIT ?",
            ACTIVE,
            limit,
        )
        found = {key_id for (key_id,) in rows}
        found |= {i for i in list(self._pending) if (s := self.find(i)) and s.state == ACTIVE}
        return sorted(found)[:limit]

    def log_event(
        self, kind: Kind, user_id: str, curve: str, key_id: str, session: str, outcome: str = ""
    ) -> None:
        """Log an event that changes no share."""
        with self._database.transaction() as cursor:
            self._log.write(
                cursor, kind, user_id, curve, key_id=key_id, session=session, outcome=outcome
            )

    def events(self) -> list[Event]:
        """Return the whole log, oldest first."""
        return [Event(*row) for row in self._database.rows("SELECT * FROM events ORDER BY number")]

    def close(self) -> None:
        self._database.close()
