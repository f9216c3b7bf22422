"""An MPC node's own key pairs, in its store, and the other MPC node's identity."""

from __future__ import annotations

from pathlib import Path
from typing import Final, TypeVar

from mpcsim.crypto.rng import Rng
from mpcsim.errors import UsageError
from mpcsim.service.mpc_node.events import EventLog, Kind
from mpcsim.service.mpc_node.identity import Identity
from mpcsim.service.rpc.statements import IDENTITY_BYTES
from mpcsim.service.storage.database import Database, StoreFailed, StoreProblem
from mpcsim.service.vault import SealKey

_K = TypeVar("_K", SealKey, Identity)
_KEY_PAIR_BYTES: Final = 64
"""Length of a secret half and its public half."""

_SEAL_KEY_LOST: Final = (
    "without its own one no secret_store made so far opens; put back a backup of this store. If "
    "there is none: the shares are whole, so that each key can be recovered by its user once this "
    "node has a new seal key, which mpcsim rotate seal-key makes"
)
_IDENTITY_LOST: Final = (
    "by it the other MPC node and every key's record know this one, and no other can take its "
    "place; put back a backup of this store. Without one, no key of this deployment can be used or "
    "recovered any more"
)


class KeyLost(StoreFailed):
    """Key pair of the node that cannot be read, or is not there. Nothing has changed."""

    def __init__(self, path: Path | str, how: str, what_to_do: str) -> None:
        super().__init__(path, StoreProblem.DAMAGED)
        self.args = (f"{path}: {how}: {what_to_do}",)
        self.told = f"{Path(path).name}: {how}"


class OwnKeys:
    """Seal key and identity of one MPC node. Every change is durable when the method returns."""

    def __init__(self, database: Database, log: EventLog, path: Path | str) -> None:
        """
        Args:
            path: of the store, for what is said of it.
        """
        self._database = database
        self._log = log
        self._path = path

    def seal_key(self, rng: Rng) -> SealKey:
        """Return the node's seal key, which is created before its first share.

        Raises:
            KeyLost: it is damaged, or there are shares without it. With another one no vault of
                these keys would open.
        """
        return self._key_pair(SealKey, "seal_key", rng, "SELECT 1 FROM shares", _SEAL_KEY_LOST)

    def replace_seal_key(self, rng: Rng) -> int:
        """Replace a lost seal key. The shares stay; but no ``secret_store`` that was made for them
        opens any more, so that each key has to be recovered.

        Returns:
            Number of shares.

        Raises:
            UsageError: it is not lost; nothing has changed.
            KeyLost: the identity is lost, too, without which a seal key is of no use.
        """
        self.identity(rng)
        try:
            self.seal_key(rng)
        except KeyLost:
            pass
        else:
            raise UsageError("the seal key is there, and whole: nothing is lost")
        key = SealKey.generate(rng)
        with self._database.transaction() as cursor:
            cursor.execute(
                "INSERT OR REPLACE INTO secrets VALUES ('seal_key', ?)", (key.secret + key.public,)
            )
            cursor.execute(
                "INSERT INTO secrets VALUES ('seal_number', 1)"
                " ON CONFLICT (name) DO UPDATE SET value = value + 1"
            )
            cursor.execute("INSERT OR IGNORE INTO sealed_to_lost_key SELECT key_id FROM shares")
            (shares,) = cursor.execute("SELECT count(*) FROM shares").fetchone()
            outcome = f"a new one in place of the lost one, to which {shares} shares were sealed"
            self._log.write(cursor, Kind.SEAL_KEY, "", "", outcome=outcome)
        return int(shares)

    def seal_number(self) -> int:
        """Return how many seal keys have been replaced.

        Raises:
            StoreFailed: it is damaged.
        """
        row = self._database.row("SELECT value FROM secrets WHERE name = 'seal_number'")
        if row is None:
            return 0
        if not isinstance(row[0], int) or not 0 < row[0] < 1 << 32:
            raise self._database.damaged("the number of its seal key is none")
        return row[0]

    def sealed_to_lost_key(self, key_id: str) -> bool:
        """Return whether a share is from before the seal key was lost."""
        found = "SELECT 1 FROM sealed_to_lost_key WHERE key_id = ?"
        return self._database.row(found, key_id) is not None

    def identity(self, rng: Rng) -> Identity:
        """Return the node's identity, which is created before it meets the other MPC node.

        Raises:
            KeyLost: it is damaged, or gone though the other MPC node has been met. With another one
                nobody would know this node any more.
        """
        met = "SELECT 1 FROM secrets WHERE name = 'peer_identity'"
        return self._key_pair(Identity, "identity", rng, met, _IDENTITY_LOST)

    def _key_pair(self, kind: type[_K], name: str, rng: Rng, since: str, lost: str) -> _K:
        """Return one of the node's own key pairs, which is made once.

        Args:
            since: query that finds a row if the key pair must exist.
            lost: advice for the error text.
        """
        what, path = name.replace("_", " "), self._path
        with self._database.transaction() as cursor:
            row = cursor.execute("SELECT value FROM secrets WHERE name = ?", (name,)).fetchone()
            if row is None:
                if cursor.execute(since).fetchone():
                    raise KeyLost(path, f"it has no {what}", lost)
                key = kind.generate(rng)
                cursor.execute("INSERT INTO secrets VALUES (?, ?)", (name, key.secret + key.public))
                return key
        kept = row[0] if isinstance(row[0], bytes) else b""
        if len(kept) != _KEY_PAIR_BYTES or (key := kind(kept[:32])).public != kept[32:]:
            raise KeyLost(path, f"its {what} is another", lost)
        return key

    def peer_identity(self) -> bytes | None:
        """Return the other MPC node's pinned identity; None: they have not met.

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
        """Store the other MPC node's identity, for good."""
        with self._database.transaction() as cursor:
            cursor.execute("INSERT INTO secrets VALUES ('peer_identity', ?)", (identity,))
