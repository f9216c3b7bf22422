"""Registry: the gateway's store of users, registered keys, suspensions and its own secrets.

A registered key is a record that both MPC nodes have signed; the other columns of the row only
serve queries, and a damaged record counts for nothing. The store holds no share of any key: those
are in the MPC nodes' own stores. It is one SQLite database, in memory or in a file. A method that
returns has its change durably on the disk, whole; one that raises has changed nothing.
"""

from __future__ import annotations

import hmac
import json
import logging
import math
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import astuple, dataclass, field, replace
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, TypeVar

from mpcsim import strict_json
from mpcsim.crypto.groups.curves import curve
from mpcsim.crypto.rng import Rng, SystemRng
from mpcsim.errors import InvalidEncoding, MpcError, UsageError
from mpcsim.ids import PartyId
from mpcsim.service.errors import Refused, key_replaced, no_such_key
from mpcsim.service.precis import enforce_username
from mpcsim.service.rpc.statements import KeyRecord, RecordError, SignedRecord
from mpcsim.service.rpc.tokens import TokenIssuer, make_signing_key
from mpcsim.service.rpc.wire import AbortedSession
from mpcsim.service.storage.database import IN_MEMORY, Database, Deployment, StoreFailed, file_of
from mpcsim.service.storage.roles import REGISTRY

LOG = logging.getLogger(__name__)

T = TypeVar("T")

NAMED_CALLS_S: Final = 86_400.0
"""Time for which an idempotency key is kept after a key was last voted for under it."""
MAX_NAMED_CALLS: Final = 64
"""Idempotency keys of one user that are kept at a time. Further ones are refused until the oldest
has had its day: forgetting one early would break its promise."""
EXPIRY_MARGIN_S: Final = 5
"""Seconds for which a rotated signing key verifies beyond its last token's life: a token may be
issued while the key is rotated."""
MAX_VERIFIED_RECORDS: Final = 1024
"""Size of the cache of records whose signatures have been verified."""

_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS users (
    user_id    TEXT PRIMARY KEY,
    username   TEXT NOT NULL UNIQUE,
    created_at TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS keys (
    user_id    TEXT NOT NULL REFERENCES users,
    curve      TEXT NOT NULL,
    key_id     TEXT NOT NULL UNIQUE,
    public_key BLOB NOT NULL,
    created_at TEXT NOT NULL,
    recoveries INTEGER NOT NULL DEFAULT 0,
    record     BLOB,
    PRIMARY KEY (user_id, curve)
);
CREATE TABLE IF NOT EXISTS suspensions (
    user_id    TEXT NOT NULL,
    key_id     TEXT NOT NULL,
    session_id TEXT NOT NULL,
    party      INTEGER NOT NULL,
    notice     BLOB NOT NULL,
    opened     INTEGER,
    signature  BLOB,
    PRIMARY KEY (user_id, key_id, session_id, party)
);
CREATE TABLE IF NOT EXISTS named_calls (
    name     TEXT NOT NULL,
    user_id  TEXT NOT NULL REFERENCES users,
    verb     TEXT NOT NULL,
    curve    TEXT NOT NULL,
    key_id   TEXT NOT NULL,
    in_force INTEGER NOT NULL DEFAULT 0,
    at_s     REAL NOT NULL,
    PRIMARY KEY (user_id, name)
);
CREATE INDEX IF NOT EXISTS named_calls_at_key ON named_calls (key_id);
CREATE TABLE IF NOT EXISTS secrets (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS earlier_signing_keys (jwk TEXT NOT NULL, ends_at INTEGER NOT NULL);
"""
_KEY_COLUMNS: Final = "user_id, curve, key_id, public_key, created_at, recoveries, record"


class UsernameTaken(MpcError):
    """Another user has that name."""


class UnknownUser(MpcError):
    """No user has that identifier."""


class KeyExists(MpcError):
    """The key_id is registered already, for another user or curve."""


class KeyChanged(MpcError):
    """The user's key on that curve is another one, or newer."""


@dataclass(frozen=True)
class User:
    """A user of the wallet service."""

    user_id: str
    username: str
    created_at: str
    """ISO 8601, UTC."""


@dataclass(frozen=True)
class RegisteredKey:
    """Registered key of a user on a curve; all of it is public."""

    user_id: str
    curve: str
    key_id: str
    """Epoch of its shares, 64 hex digits; a recovery changes it."""
    public_key: bytes
    """Compressed, in the curve's standard encoding."""
    created_at: str
    """Time of the key's generation, ISO 8601, UTC; a recovery does not change it."""
    recoveries: int = field(default=0, compare=False)
    """Number of recoveries; the MPC nodes count them, too, which shows which store is older."""
    record: bytes | None = field(default=None, compare=False, repr=False)
    """``SignedRecord.to_bytes``; None: the record has been damaged."""
    damaged: bool = field(default=False, compare=False)
    """Whether the record has been damaged."""
    replaces: str | None = field(default=None, compare=False)
    """``key_id`` that the last recovery replaced, as the record says."""


class NameReused(MpcError):
    """Error: the user has given another call this name."""


class TooManyNamedCalls(MpcError):
    """Error: the user has used so many names that one more is not stored."""

    def __init__(self, wait_s: int) -> None:
        super().__init__("too many names")
        self.wait_s = wait_s
        """Seconds until one of them is forgotten."""


@dataclass(frozen=True)
class NamedCall:
    """Call that makes a key, under the name that its caller gave it (``Idempotency-Key``)."""

    name: str = field(repr=False)
    user_id: str
    verb: str
    curve: str


@dataclass(frozen=True)
class SuspensionNotice:
    """Notice for one MPC node that a key is suspended, and the node's answer."""

    at: AbortedSession
    party: PartyId
    """MPC node to which the notice is sealed."""
    notice: bytes = field(repr=False)
    opened: int | None = None
    """Answer of the node: 1, the notice opened, 0, it did not; None: no answer yet."""


@dataclass(frozen=True)
class Credentials:
    """API key and secret with which a caller's backend gets access tokens."""

    api_key: str
    api_secret: str = field(repr=False)

    def match(self, api_key: str, api_secret: str) -> bool:
        """Return whether these are the ones, in constant time."""
        same_key = hmac.compare_digest(self.api_key.encode(), api_key.encode())
        same_secret = hmac.compare_digest(self.api_secret.encode(), api_secret.encode())
        return same_key and same_secret


@dataclass(frozen=True)
class SigningKeys:
    """Signing keys of the gateway's tokens: the present one, and earlier ones."""

    pem: str = field(repr=False)
    """Private key of new tokens. Secret."""
    earlier: tuple[Mapping[str, Any], ...] = ()
    """Public keys of tokens that may still be valid (RFC 7517), each with its end, ``exp``."""


class Registry:
    """Registry database. Any thread may use it; calls wait for each other.

    A call that writes waits for the disk, some milliseconds: an event loop makes it in a thread.
    """

    def __init__(
        self,
        path: Path | str = IN_MEMORY,
        *,
        rng: Rng | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        """Open the database; create it if there is none.

        Args:
            path: a file, or ``:memory:``.
            now: seconds since 1970 UTC.

        Raises:
            UsageError: the file cannot be opened, or is no registry.
        """
        self._rng = rng or SystemRng()
        self._now = now
        try:
            self._database = Database(path, _SCHEMA)
            self._make_secrets()
        except StoreFailed as error:
            raise UsageError(f"registry {error}") from error

    def close(self) -> None:
        """Close the database."""
        self._database.close()

    @property
    def database(self) -> Database:
        """Underlying database, for backups, metrics and probes."""
        return self._database

    def deployment(self) -> Deployment | None:
        """Return the deployment that the registry is part of, if that has been written."""
        return self._database.deployment()

    def join(self, deployment: Deployment) -> None:
        """Make the registry part of a deployment."""
        self._database.join(deployment)

    # ------------------------------------------------------------------ users

    def user_ids(self) -> frozenset[str]:
        """Return the identifiers of all users."""
        return frozenset(i for (i,) in self._database.rows("SELECT user_id FROM users"))

    def sign_up(self, username: str, user_id: str | None = None) -> User:
        """Create a user. Names are compared as ``enforce_username`` normalises them.

        Args:
            user_id: identifier of a user whom an earlier registry knew; a new one by default.

        Raises:
            UsageError: as from ``enforce_username``.
            UsernameTaken: another user has that name.
            sqlite3.IntegrityError: the identifier is another user's.
        """
        username = enforce_username(username)
        user = User(user_id or self._rng.bytes(16).hex(), username, self._timestamp())
        with self._database.transaction() as cursor:
            if self._user("username", username):
                raise UsernameTaken("this username is taken")
            cursor.execute(
                "INSERT INTO users VALUES (?, ?, ?)",
                (user.user_id, user.username, user.created_at),
            )
        return user

    def user_by_name(self, username: str) -> User | None:
        """Return the user of that name, or None.

        Raises:
            UsageError: as from ``enforce_username``.
        """
        return self._user("username", enforce_username(username))

    def user(self, user_id: str) -> User | None:
        """Return the user with that identifier, or None."""
        return self._user("user_id", user_id)

    # ------------------------------------------------------------------ keys

    def keys(self, user_id: str) -> tuple[RegisteredKey, ...]:
        """Return the user's keys, oldest first; none for an unknown user."""
        query = f"SELECT {_KEY_COLUMNS} FROM keys WHERE user_id = ? ORDER BY created_at, curve"

        def read() -> tuple[RegisteredKey, ...]:
            rows = self._database.rows(query, user_id)
            return tuple(_from_signed_record(RegisteredKey(*row)) for row in rows)

        return self._database.read_cached(user_id, read)

    def all_keys(self) -> list[RegisteredKey]:
        """Return the keys of all users as stored: no signature is verified."""
        return [RegisteredKey(*r) for r in self._database.rows(f"SELECT {_KEY_COLUMNS} FROM keys")]

    def key(self, user_id: str, curve_name: str) -> RegisteredKey | None:
        """Return the user's key on that curve, or None."""
        return next((key for key in self.keys(user_id) if key.curve == curve_name), None)

    def is_present_key(self, user_id: str, key_id: str) -> bool:
        """Return whether that is a present key of the user, not retired and not another user's."""
        return any(key.key_id == key_id for key in self.keys(user_id))

    def missing_key(self, user_id: str, key_id: str) -> Refused:
        """Return the error for a ``key_id`` that is none of the user's present keys. Of what is
        not the user's it says nothing."""
        replaced = any(key.replaces == key_id for key in self.keys(user_id))
        return key_replaced() if replaced else no_such_key()

    def put(self, signed: SignedRecord) -> RegisteredKey:
        """Store a record that is in force; the caller has verified both MPC nodes' signatures.

        Raises:
            InvalidEncoding: not a public key of that curve.
            UsageError: unknown curve.
            UnknownUser: there is no such user.
            KeyExists: the ``key_id`` is in use.
            KeyChanged: the user has another key on that curve, or newer shares of it.
        """
        record = signed.record
        user_id, curve_name = record.user_id, record.curve_name
        curve(curve_name).decode_point(record.public_key)
        with self._database.transaction() as cursor:
            if self._user("user_id", user_id) is None:
                raise UnknownUser("there is no such user")
            present = self.key(user_id, curve_name)
            if present is not None and (
                present.public_key != record.public_key or present.recoveries > record.number
            ):
                raise KeyChanged(f"the user's {curve_name} key is another one, or newer")
            if present is None or present.key_id != record.key_id:
                self._check_unused(record.key_id)
            key = RegisteredKey(
                user_id,
                curve_name,
                record.key_id,
                bytes(record.public_key),
                present.created_at if present else self._timestamp(),
                record.number,
                signed.to_bytes(),
            )
            cursor.execute(
                f"INSERT INTO keys ({_KEY_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?)"
                " ON CONFLICT (user_id, curve) DO UPDATE SET key_id = excluded.key_id,"
                " public_key = excluded.public_key, recoveries = excluded.recoveries,"
                " record = excluded.record",
                astuple(key)[:-2],  # the others are no columns
            )
            cursor.execute("UPDATE named_calls SET in_force = 1 WHERE key_id = ?", (key.key_id,))
        return key

    # ------------------------------------------------------------------ idempotency keys

    def is_named_call_in_force(self, named_call: NamedCall) -> bool | None:
        """Return whether a key has come into force under this name; None: none was voted for."""
        row = self._find_named_call(named_call.user_id, named_call.name)
        return None if row is None or row[0] != named_call else row[1]

    def check_named_call(self, named_call: NamedCall) -> None:
        """Check that ``put_named_call`` would accept a call.

        Raises:
            NameReused: the user has given another call this name.
            TooManyNamedCalls: the user has too many names.
        """
        row = self._find_named_call(named_call.user_id, named_call.name)
        if row is not None and row[0] != named_call:
            raise NameReused("this name is another call's of this user")
        if row is None:
            query = "SELECT at_s FROM named_calls WHERE user_id = ? AND at_s > ? ORDER BY at_s"
            since = self._now() - NAMED_CALLS_S
            others = self._database.rows(query, named_call.user_id, since)
            if len(others) >= MAX_NAMED_CALLS:
                raise TooManyNamedCalls(max(1, math.ceil(others[0][0] - since)))

    def put_named_call(self, named_call: NamedCall, key_id: str) -> None:
        """Store which key is about to be voted for under a name, and delete expired names.

        Raises:
            NameReused, TooManyNamedCalls: as from ``check_named_call``.
        """
        with self._database.transaction() as cursor:
            self.check_named_call(named_call)
            now = self._now()
            cursor.execute("DELETE FROM named_calls WHERE at_s <= ?", (now - NAMED_CALLS_S,))
            cursor.execute(
                "INSERT INTO named_calls (name, user_id, verb, curve, key_id, at_s)"
                " VALUES (?, ?, ?, ?, ?, ?)"
                " ON CONFLICT (user_id, name)"
                " DO UPDATE SET key_id = excluded.key_id, at_s = excluded.at_s",
                (*astuple(named_call), key_id, now),
            )

    def _find_named_call(self, user_id: str, name: str) -> tuple[NamedCall, bool] | None:
        """Return the call that has a name, and whether its key has come into force."""
        row = self._database.row(
            "SELECT name, user_id, verb, curve, in_force FROM named_calls"
            " WHERE user_id = ? AND name = ? AND at_s > ?",
            *(user_id, name, self._now() - NAMED_CALLS_S),
        )
        return None if row is None else (NamedCall(*row[:4]), bool(row[4]))

    # ------------------------------------------------------------------ suspensions

    def suspend(self, at: AbortedSession, notices: Mapping[PartyId, bytes]) -> None:
        """Store a suspension with its notices, into reserved space if the disk is full. Notices of
        that session that are stored already stay as they are."""
        self._database.write_urgently(lambda: self._write_suspended(at, notices))
        self._database.hold_reserve()

    def _write_suspended(self, at: AbortedSession, notices: Mapping[PartyId, bytes]) -> None:
        with self._database.transaction() as cursor:
            cursor.executemany(
                "INSERT OR IGNORE INTO suspensions VALUES (?, ?, ?, ?, ?, NULL, NULL)",
                [(*_occasion_columns(at), party, notice) for party, notice in notices.items()],
            )

    def suspension_notices(self) -> list[SuspensionNotice]:
        """Return the notices of all suspensions, with the MPC nodes' answers."""
        return [
            SuspensionNotice(
                AbortedSession(user_id, bytes.fromhex(key_id), bytes.fromhex(session_id)), *notice
            )
            for user_id, key_id, session_id, *notice in self._database.rows(
                "SELECT user_id, key_id, session_id, party, notice, opened FROM suspensions"
            )
        ]

    def acknowledge(self, notice: SuspensionNotice, signature: bytes) -> None:
        """Store an MPC node's signed answer to a notice."""
        with self._database.transaction() as cursor:
            cursor.execute(
                "UPDATE suspensions SET opened = ?, signature = ?"
                " WHERE user_id = ? AND key_id = ? AND session_id = ? AND party = ?",
                (notice.opened, signature, *_occasion_columns(notice.at), notice.party),
            )

    def lift(self, at: AbortedSession) -> None:
        """Delete a suspension."""
        with self._database.transaction() as cursor:
            cursor.execute(
                "DELETE FROM suspensions WHERE user_id = ? AND key_id = ? AND session_id = ?",
                _occasion_columns(at),
            )

    # ------------------------------------------------------------------ the gateway's own secrets

    def suspension_key(self) -> bytes:
        """Return the MAC key of suspension tags, 32 bytes; the same for the database's life.

        Raises:
            StoreFailed: it is damaged; as for the other secrets.
        """
        return self._secret("suspension_key", _parse_key)

    def signing_key(self) -> str:
        """Return the private key of the gateway's tokens, PEM; the same until it is rotated.
        Secret."""
        return self._secret("signing_key", _parse_pem)

    def signing_keys(self) -> SigningKeys:
        """Return the present signing key, and the public halves of earlier ones."""

        def read() -> SigningKeys:
            rows = self._database.rows("SELECT jwk, ends_at FROM earlier_signing_keys")
            try:
                earlier = tuple(strict_json.parse(jwk.encode()) | {"exp": end} for jwk, end in rows)
            except (InvalidEncoding, TypeError, AttributeError):
                raise self._database.damaged("one of its earlier signing keys is none") from None
            return SigningKeys(self.signing_key(), earlier)

        return self._database.read_cached("signing keys", read)

    def set_token_lifetime(self, lifetime_s: float) -> None:
        """Store how long tokens live that are issued from now on: a rotated key stays in the key
        set that long."""
        now, known = self._now(), self._token_lifetimes()
        if known == (lifetime_s, known[1]):
            return
        ends_at = max(known[1], now + known[0])  # end of the tokens that were issued until now
        with self._database.transaction() as cursor:
            cursor.execute(
                "INSERT OR REPLACE INTO secrets VALUES ('token_lives', ?)",
                (f"{lifetime_s} {ends_at}",),
            )

    def _token_lifetimes(self) -> tuple[float, float]:
        """Return how long tokens live, and when those of earlier settings have expired."""
        if not self._database.row("SELECT 1 FROM secrets WHERE name = 'token_lives'"):
            return 0.0, 0.0
        return self._secret("token_lives", _parse_two_times)

    def rotate_signing_key(self, *, at_once: bool = False) -> int | None:
        """Replace the signing key of tokens. The old public key stays until the last token under it
        has expired; the old private key is deleted.

        Call ``forget`` afterwards.

        Args:
            at_once: delete the old public key, and earlier ones, too: tokens under them are void.

        Returns:
            End of the old public key, in seconds since 1970 UTC; None: it is deleted.

        Raises:
            UsageError: no gateway has stored how long its tokens live; nothing has changed.
        """
        lifetime_s, ends_at = self._token_lifetimes()
        if not lifetime_s and not at_once:
            raise UsageError(
                "no gateway has been started with this registry, so it is not known how long tokens"
                " live: start it once, or end them all (--now)"
            )
        now = self._now()
        end = None if at_once else math.ceil(max(now + lifetime_s, ends_at)) + EXPIRY_MARGIN_S
        with self._database.transaction() as cursor:
            (old,) = TokenIssuer(self.signing_key()).jwks()["keys"]  # under the transaction's lock
            cursor.execute(
                "DELETE FROM earlier_signing_keys WHERE ends_at <= ?",
                (math.inf if end is None else now,),
            )
            if end is not None:
                cursor.execute(
                    "INSERT INTO earlier_signing_keys VALUES (?, ?)", (json.dumps(old), end)
                )
            cursor.execute(
                "UPDATE secrets SET value = ? WHERE name = 'signing_key'",
                (make_signing_key(self._rng),),
            )
        return end

    def forget_signing_keys(self) -> None:
        """Delete earlier signing keys that have ended."""
        now = self._now()
        if self._database.row("SELECT 1 FROM earlier_signing_keys WHERE ends_at <= ?", now):
            with self._database.transaction() as cursor:
                cursor.execute("DELETE FROM earlier_signing_keys WHERE ends_at <= ?", (now,))

    def forget(self) -> None:
        """Erase deleted data from all files.

        Raises:
            StoreFailed: another process keeps the store locked; the next sweep repeats this.
        """
        self._database.forget()

    def sweep(self) -> None:
        """Delete expired signing keys and names, and erase all that any process has deleted.

        Raises:
            StoreFailed: another process keeps the store locked; the next sweep repeats this.
        """
        self.forget_signing_keys()
        since = self._now() - NAMED_CALLS_S
        if self._database.row("SELECT 1 FROM named_calls WHERE at_s <= ? LIMIT 1", since):
            with self._database.transaction() as cursor:
                cursor.execute("DELETE FROM named_calls WHERE at_s <= ?", (since,))
        self._database.sweep(others=True)

    def credentials(self) -> Credentials:
        """Return API key and secret of the callers' backend; the same for the database's life."""
        return Credentials(self._secret("api_key", str), self._secret("api_secret", str))

    # ------------------------------------------------------------------ helpers

    def _make_secrets(self) -> None:
        """Create all secrets at the first start, in one transaction."""
        with self._database.transaction() as cursor:
            if cursor.execute("SELECT 1 FROM secrets").fetchone():
                return
            secrets = {
                "signing_key": make_signing_key(self._rng),
                "api_key": self._rng.bytes(16).hex(),
                "api_secret": self._rng.bytes(32).hex(),
                "suspension_key": self._rng.bytes(32).hex(),
            }
            cursor.executemany("INSERT INTO secrets VALUES (?, ?)", secrets.items())

    def _secret(self, name: str, parse: Callable[[str], T]) -> T:
        """Return a secret, parsed by ``parse``; what that refuses is damaged."""
        row = self._database.row("SELECT value FROM secrets WHERE name = ?", name)
        if row is None:  # all were made when the database was
            raise self._database.damaged(f"it has no {name}")
        try:
            return parse(str(row[0]))
        except (ValueError, UsageError):
            raise self._database.damaged(f"its {name} is none") from None

    def _user(self, column: str, value: str) -> User | None:
        query = f"SELECT user_id, username, created_at FROM users WHERE {column} = ?"
        row = self._database.row(query, value)
        return None if row is None else User(*row)

    def _check_unused(self, key_id: str) -> None:
        if self._database.row("SELECT 1 FROM keys WHERE key_id = ?", key_id):
            raise KeyExists("this key_id is registered already")

    def _timestamp(self) -> str:
        return datetime.fromtimestamp(self._now(), UTC).isoformat(timespec="milliseconds")


def _from_signed_record(key: RegisteredKey) -> RegisteredKey:
    """Return a key with its values from the signed record, or marked as damaged."""
    if key.record is None:
        return key
    record = _verified_record(key.user_id, key.curve, key.record)
    if record is None:
        return replace(key, record=None, damaged=True)
    return replace(
        key,
        key_id=record.key_id,
        public_key=bytes(record.public_key),
        recoveries=record.number,
        replaces=record.predecessor.hex() if record.predecessor else None,
    )


@lru_cache(MAX_VERIFIED_RECORDS)
def _verified_record(user_id: str, curve_name: str, record: bytes) -> KeyRecord | None:
    """Return the record of a user's key if it is intact: signed by the identities that it names.
    Whether these are the MPC nodes' is checked elsewhere."""
    try:
        signed = SignedRecord.from_bytes(record)
        found = signed.check(signed.record.identities)
        if (found.user_id, found.curve_name) == (user_id, curve_name):
            return found
    except (InvalidEncoding, RecordError, KeyError):
        pass
    LOG.warning(
        "%s: the record of the %s key of user %s is damaged; the MPC nodes' own counts",
        file_of(REGISTRY),
        curve_name,
        user_id,
    )
    return None


def _parse_key(text: str) -> bytes:
    if re.fullmatch("[0-9a-f]{64}", text) is None:
        raise ValueError("not 64 hex digits")
    return bytes.fromhex(text)


def _parse_two_times(text: str) -> tuple[float, float]:
    one, other = map(float, text.split())
    return one, other


def _parse_pem(text: str) -> str:
    TokenIssuer(text)
    return text


def _occasion_columns(at: AbortedSession) -> tuple[str, str, str]:
    return at.user_id, at.key_id.hex(), at.session_id.hex()
