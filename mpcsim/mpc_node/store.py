"""An MPC node's own store: its key shares, its identity and its sealing key. No other service
reads it.

A share is *prepared* when a session has made it, *voted* once this node has promised that all
three holders are done, *active* when the gateway has registered the key. Only the change to active
drops the share it replaces. What a crash leaves behind is one of these states, and ``settle`` in
``mpc_node`` leads each of them to an end.

Shares lie here as they are: at rest they are as safe as the disk.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeVar

from mpcsim.errors import UsageError
from mpcsim.mpc_node.identity import Identity
from mpcsim.rng import Rng
from mpcsim.rpc.database import IN_MEMORY, Database, Deployment, StoreFailed
from mpcsim.rpc.holdings import Holding
from mpcsim.rpc.statements import IDENTITY_BYTES
from mpcsim.vault import SealKey

_SCHEMA = """
CREATE TABLE IF NOT EXISTS shares (
    key_id     TEXT PRIMARY KEY,
    user_id    TEXT NOT NULL,
    curve      TEXT NOT NULL,
    public_key BLOB NOT NULL,
    share      BLOB NOT NULL,
    state      TEXT NOT NULL CHECK (state IN ('prepared', 'voted', 'active')),
    suspended  TEXT,
    recoveries INTEGER NOT NULL DEFAULT 0,
    legacy     INTEGER NOT NULL DEFAULT 1
);
CREATE UNIQUE INDEX IF NOT EXISTS one_active ON shares (user_id, curve) WHERE state = 'active';
CREATE TABLE IF NOT EXISTS secrets (name TEXT PRIMARY KEY, value BLOB NOT NULL);
"""
_ADDED: Final = [
    ("shares", "recoveries", "INTEGER NOT NULL DEFAULT 0"),
    ("shares", "legacy", "INTEGER NOT NULL DEFAULT 1"),
]
_K = TypeVar("_K", SealKey, Identity)
_COLUMNS = "key_id, user_id, curve, public_key, share, state, suspended, recoveries, legacy"


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
    """Why nothing is done with this share any more but recovering the key."""
    recoveries: int = 0
    """Of the key, until it had this share: of two sets of shares of a key, which is newer."""
    legacy: int = 0
    """1: made by a version without records, and without what a vault needs to be asked with."""

    def replaces(self, other: StoredShare) -> bool:
        """Whether it is of the same key, and no older."""
        return self.public_key == other.public_key and self.recoveries >= other.recoveries


class ShareStore:
    """Key shares of one MPC node. Every change is durable when the method returns."""

    def __init__(self, path: Path | str = IN_MEMORY) -> None:
        """Open the database, and make it first if there is none.

        Raises:
            UsageError: the file cannot be opened, or is something else.
        """
        try:
            self._database = Database(path, _SCHEMA, _ADDED)
        except StoreFailed as error:
            raise UsageError(f"share store {error}") from error

    def deployment(self) -> Deployment | None:
        """What the store is part of, if that has been written."""
        return self._database.deployment()

    def join(self, deployment: Deployment) -> None:
        """Make the store part of a deployment."""
        self._database.join(deployment)

    def user_ids(self) -> frozenset[str]:
        """The users of whom shares are here."""
        return frozenset(i for (i,) in self._database.rows("SELECT DISTINCT user_id FROM shares"))

    def holdings(self) -> list[Holding]:
        """Every share that is here, whatever its state."""
        return [
            Holding(*row)
            for row in self._database.rows(
                "SELECT key_id, user_id, curve, public_key, state, recoveries FROM shares"
            )
        ]

    def seal_key(self, rng: Rng) -> SealKey:
        """The node's, made before its first share: secret and public half.

        Raises:
            StoreFailed: it is damaged, or there are shares without it. With another one no vault of
                these keys would open.
        """
        return self._key_pair(SealKey, "seal_key", rng, "SELECT 1 FROM shares")

    def identity(self, rng: Rng) -> Identity:
        """The node's, made before it meets the other MPC node.

        Raises:
            StoreFailed: it is damaged, or gone though the other MPC node has been met. With another
                one nobody would know this node any more.
        """
        met = "SELECT 1 FROM secrets WHERE name = 'peer_identity'"
        return self._key_pair(Identity, "identity", rng, met)

    def _key_pair(self, kind: type[_K], name: str, rng: Rng, since: str) -> _K:
        """One of the node's own key pairs, which is made once.

        Args:
            since: finds something if there must be one.
        """
        what = name.replace("_", " ")
        with self._database.transaction() as cursor:
            row = cursor.execute("SELECT value FROM secrets WHERE name = ?", (name,)).fetchone()
            if row is not None and not isinstance(row[0], bytes):
                raise self._database.damaged(f"its {what} is another")
            if row is None and cursor.execute(since).fetchone():
                raise self._database.damaged(f"it has no {what}")
            key = kind.fresh(rng) if row is None else kind(bytes(row[0][:32]))
            if row is None or len(row[0]) == 32:  # earlier versions kept the secret half alone
                cursor.execute(
                    "INSERT OR REPLACE INTO secrets VALUES (?, ?)", (name, key.secret + key.public)
                )
            elif key.public != row[0][32:]:
                raise self._database.damaged(f"its {what} is another")
        return key

    def peer_identity(self) -> bytes | None:
        """The other MPC node's, as it was when first met; None before.

        Raises:
            StoreFailed: it is damaged.
        """
        row = self._database.row("SELECT value FROM secrets WHERE name = 'peer_identity'")
        if row is None:
            return None
        if not isinstance(row[0], bytes) or len(row[0]) != IDENTITY_BYTES:
            raise self._database.damaged("the other MPC node's identity is none")
        return row[0]

    def pin(self, identity: bytes) -> None:
        """Keep the other MPC node's identity, for good."""
        with self._database.transaction() as cursor:
            cursor.execute("INSERT INTO secrets VALUES ('peer_identity', ?)", (identity,))

    def find(self, key_id: str) -> StoredShare | None:
        row = self._database.row(f"SELECT {_COLUMNS} FROM shares WHERE key_id = ?", key_id)
        return None if row is None else StoredShare(*row)

    def active(self, user_id: str, curve: str) -> StoredShare | None:
        """The share of the user's present key on a curve."""
        row = self._database.row(
            f"SELECT {_COLUMNS} FROM shares WHERE user_id = ? AND curve = ? AND state = 'active'",
            user_id,
            curve,
        )
        return None if row is None else StoredShare(*row)

    def prepare(self, share: StoredShare) -> None:
        """Keep a new share beside the old one.

        Raises:
            sqlite3.IntegrityError: a share of this key_id is there already.
        """
        with self._database.transaction() as cursor:
            cursor.execute(
                f"INSERT INTO shares ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                _values(share),
            )

    def vote(self, key_id: str) -> None:
        """From now on only the gateway's decision ends the prepared state."""
        with self._database.transaction() as cursor:
            cursor.execute(
                "UPDATE shares SET state = 'voted' WHERE key_id = ? AND state = 'prepared'",
                (key_id,),
            )

    def activate(self, key_id: str) -> list[str]:
        """Make a voted share the active one; the one it replaces and all others go, without a
        trace in the files.

        Returns:
            The key_ids of those that went.
        """
        with self._database.transaction() as cursor:
            gone = cursor.execute(
                "DELETE FROM shares WHERE key_id != ? AND (user_id, curve) ="
                " (SELECT user_id, curve FROM shares WHERE key_id = ? AND state = 'voted')"
                " RETURNING key_id",
                (key_id, key_id),
            ).fetchall()
            cursor.execute(
                "UPDATE shares SET state = 'active' WHERE key_id = ? AND state = 'voted'",
                (key_id,),
            )
        self._database.forget()
        return [old for (old,) in gone]

    def drop_prepared(self, key_id: str) -> None:
        """Forget a share, unless it has been voted for."""
        with self._database.transaction() as cursor:
            cursor.execute("DELETE FROM shares WHERE key_id = ? AND state = 'prepared'", (key_id,))

    def drop_undecided(self, user_id: str, curve: str, keep: frozenset[str]) -> None:
        """Forget the shares of sessions that came to nothing, except those named."""
        with self._database.transaction() as cursor:
            found = cursor.execute(
                "SELECT key_id FROM shares WHERE user_id = ? AND curve = ? AND state != 'active'",
                (user_id, curve),
            ).fetchall()
            for (key_id,) in found:
                if key_id not in keep:
                    cursor.execute("DELETE FROM shares WHERE key_id = ?", (key_id,))

    def suspend(self, key_id: str, why: str, share: bytes | None = None) -> None:
        """Do nothing with a share any more but recovering its key.

        Args:
            share: the share to keep in its place, after state in it was discarded.
        """
        with self._database.transaction() as cursor:
            cursor.execute("UPDATE shares SET suspended = ? WHERE key_id = ?", (why, key_id))
            if share is not None:
                cursor.execute("UPDATE shares SET share = ? WHERE key_id = ?", (share, key_id))
        if share is not None:
            self._database.forget()

    def close(self) -> None:
        self._database.close()


def _values(share: StoredShare) -> tuple[Any, ...]:
    return (
        share.key_id,
        share.user_id,
        share.curve,
        share.public_key,
        share.share,
        share.state,
        share.suspended,
        share.recoveries,
        share.legacy,
    )
