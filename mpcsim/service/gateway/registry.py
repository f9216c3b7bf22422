"""What the gateway itself remembers: its users, their registered keys, and its own secrets.

Of keys it remembers what both MPC nodes have signed, and would say again: a damaged record counts
for nothing, and beside a record the other columns do not. One SQLite database, in memory or in a
file. No share of any key is in it: those are in the MPC nodes' own stores. A method that returns
has its change on the disk, whole; one that raises has changed nothing.
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
from mpcsim.service.precis import enforce_username
from mpcsim.service.rpc.statements import KeyRecord, RecordError, SignedRecord
from mpcsim.service.rpc.tokens import TokenIssuer, make_signing_key
from mpcsim.service.rpc.wire import Occasion
from mpcsim.service.storage.database import (
    IN_MEMORY,
    REGISTRY,
    Database,
    Deployment,
    StoreFailed,
    file_of,
)

LOG = logging.getLogger(__name__)

T = TypeVar("T")

NAMED_CALLS_S: Final = 86_400.0
"""How long a call's name is remembered after a key was last voted for under it."""
MAX_NAMED_CALLS: Final = 64
"""Names of one user that are remembered at a time. A user has two keys: who names more calls a day
is refused further names until the oldest has had its day, so that no promise is broken."""
EXPIRY_MARGIN_S: Final = 5
"""Seconds for which a signing key verifies longer than it should have to: a token may be in the
making while the key is rotated."""
MAX_VERIFIED_RECORDS: Final = 1024
"""Records whose signatures are not verified again."""

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
    """A user's key on a curve; all of it is public."""

    user_id: str
    curve: str
    key_id: str
    """64 hex digits; a recovery changes it."""
    public_key: bytes
    """Compressed, in the curve's standard encoding."""
    created_at: str
    """ISO 8601, UTC: when the key was generated. A recovery leaves it alone."""
    recoveries: int = field(default=0, compare=False)
    """So far; the MPC nodes count them, too, which tells a newer store from an older one."""
    record: bytes | None = field(default=None, compare=False, repr=False)
    """``SignedRecord.to_bytes``; None: the record has been damaged."""
    damaged: bool = field(default=False, compare=False)
    """Whether it has."""


class NameReused(MpcError):
    """The user has given another call this name."""


class TooManyNamedCalls(MpcError):
    """The user has used so many names that one more is not remembered."""

    def __init__(self, wait_s: int) -> None:
        super().__init__("too many names")
        self.wait_s = wait_s
        """Until one of them is forgotten."""


@dataclass(frozen=True)
class NamedCall:
    """A call that makes a key, by the name that its caller gave it."""

    name: str = field(repr=False)
    user_id: str
    verb: str
    curve: str


@dataclass(frozen=True)
class SuspensionNotice:
    """What an MPC node is to be told about a key that is suspended."""

    at: Occasion
    party: PartyId
    """The MPC node."""
    notice: bytes = field(repr=False)
    opened: int | None = None
    """What it says: 1, that it opened, 0, that it did not; None before it has said so."""


@dataclass(frozen=True)
class Credentials:
    """What a caller's backend shows to get access tokens."""

    api_key: str
    api_secret: str = field(repr=False)

    def match(self, api_key: str, api_secret: str) -> bool:
        """Whether these are the ones, in constant time."""
        same_key = hmac.compare_digest(self.api_key.encode(), api_key.encode())
        same_secret = hmac.compare_digest(self.api_secret.encode(), api_secret.encode())
        return same_key and same_secret


@dataclass(frozen=True)
class SigningKeys:
    """What the gateway's tokens are signed with, and were."""

    pem: str = field(repr=False)
    """Private key of new tokens. Secret."""
    earlier: tuple[Mapping[str, Any], ...] = ()
    """Public keys of tokens that may still hold (RFC 7517), each with its end, ``exp``."""


class Registry:
    """The database. Any thread may use it; calls wait for each other.

    A call that writes waits for the disk, some milliseconds: an event loop makes it in a thread.
    """

    def __init__(
        self,
        path: Path | str = IN_MEMORY,
        *,
        rng: Rng | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        """Open the database, and make it first if there is none.

        Args:
            path: a file, or ``:memory:``.
            now: seconds since 1970 UTC.

        Raises:
            UsageError: the file cannot be opened, or is something else.
        """
        self._rng = rng or SystemRng()
        self._now = now
        try:
            self._database = Database(path, _SCHEMA)
            self._make_secrets()
        except StoreFailed as error:
            raise UsageError(f"registry {error}") from error

    def close(self) -> None:
        """End the use of the database."""
        self._database.close()

    @property
    def database(self) -> Database:
        """For whoever looks at the files, not at what is in them."""
        return self._database

    def deployment(self) -> Deployment | None:
        """What the registry is part of, if that has been written."""
        return self._database.deployment()

    def join(self, deployment: Deployment) -> None:
        """Make the registry part of a deployment."""
        self._database.join(deployment)

    # ------------------------------------------------------------------ users

    def user_ids(self) -> frozenset[str]:
        """All users."""
        return frozenset(i for (i,) in self._database.rows("SELECT user_id FROM users"))

    def sign_up(self, username: str, user_id: str | None = None) -> User:
        """Make a user. Names that differ in more than their spelling are different, as in case.

        Args:
            user_id: of a user whom an earlier registry knew; a new one by default.

        Raises:
            UsageError: as from ``enforce_username``.
            UsernameTaken: there is such a user.
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
        """The user of that name, or None.

        Raises:
            UsageError: as from ``enforce_username``.
        """
        return self._user("username", enforce_username(username))

    def user(self, user_id: str) -> User | None:
        """The user with that identifier, or None."""
        return self._user("user_id", user_id)

    # ------------------------------------------------------------------ keys

    def keys(self, user_id: str) -> tuple[RegisteredKey, ...]:
        """The user's keys, oldest first; none for an unknown user."""
        query = f"SELECT {_KEY_COLUMNS} FROM keys WHERE user_id = ? ORDER BY created_at, curve"

        def read() -> tuple[RegisteredKey, ...]:
            rows = self._database.rows(query, user_id)
            return tuple(_from_signed_record(RegisteredKey(*row)) for row in rows)

        return self._database.at_hand(user_id, read)

    def all_keys(self) -> list[RegisteredKey]:
        """Those of all users, as they have been written: no signature is verified."""
        return [RegisteredKey(*r) for r in self._database.rows(f"SELECT {_KEY_COLUMNS} FROM keys")]

    def key(self, user_id: str, curve_name: str) -> RegisteredKey | None:
        """The user's key on that curve, or None."""
        return next((key for key in self.keys(user_id) if key.curve == curve_name), None)

    def is_present_key(self, user_id: str, key_id: str) -> bool:
        """Whether that is a present key of the user: not another user's, not a retired one."""
        return any(key.key_id == key_id for key in self.keys(user_id))

    def put(self, signed: SignedRecord) -> RegisteredKey:
        """Remember what is in force; whoever calls has seen that both MPC nodes have signed it.

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
                astuple(key)[:-1],  # damage is seen when it is read
            )
            cursor.execute("UPDATE named_calls SET in_force = 1 WHERE key_id = ?", (key.key_id,))
        return key

    # ------------------------------------------------------------------ calls with a name

    def is_named_call_in_force(self, named_call: NamedCall) -> bool | None:
        """Whether a key has come into force under this name; None: none has been voted for."""
        row = self._find_named_call(named_call.user_id, named_call.name)
        return None if row is None or row[0] != named_call else row[1]

    def check_named_call(self, named_call: NamedCall) -> None:
        """See that ``put_named_call`` would take it.

        Raises:
            NameReused: the user has given another call this name.
            TooManyNamedCalls: it would be one name too many.
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
        """Remember which key is about to be voted for under a name. Names whose time is over are
        forgotten.

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
        """Return the call that a user has given a name to, and whether its key is in force."""
        row = self._database.row(
            "SELECT name, user_id, verb, curve, in_force FROM named_calls"
            " WHERE user_id = ? AND name = ? AND at_s > ?",
            *(user_id, name, self._now() - NAMED_CALLS_S),
        )
        return None if row is None else (NamedCall(*row[:4]), bool(row[4]))

    # ------------------------------------------------------------------ suspensions

    def suspend(self, at: Occasion, notices: Mapping[PartyId, bytes]) -> None:
        """Remember that a key is suspended, and what its MPC nodes are to be told. What is
        remembered of that occasion already stays as it is."""
        self._database.urgently(lambda: self._write_suspended(at, notices))
        self._database.hold_reserve()

    def _write_suspended(self, at: Occasion, notices: Mapping[PartyId, bytes]) -> None:
        with self._database.transaction() as cursor:
            cursor.executemany(
                "INSERT OR IGNORE INTO suspensions VALUES (?, ?, ?, ?, ?, NULL, NULL)",
                [(*_occasion_columns(at), party, notice) for party, notice in notices.items()],
            )

    def suspension_notices(self) -> list[SuspensionNotice]:
        """Everything the MPC nodes were to be told, and what they said to it."""
        return [
            SuspensionNotice(
                Occasion(user_id, bytes.fromhex(key_id), bytes.fromhex(session_id)), *notice
            )
            for user_id, key_id, session_id, *notice in self._database.rows(
                "SELECT user_id, key_id, session_id, party, notice, opened FROM suspensions"
            )
        ]

    def acknowledge(self, notice: SuspensionNotice, signature: bytes) -> None:
        """Remember what an MPC node says to a notice, and has signed."""
        with self._database.transaction() as cursor:
            cursor.execute(
                "UPDATE suspensions SET opened = ?, signature = ?"
                " WHERE user_id = ? AND key_id = ? AND session_id = ? AND party = ?",
                (notice.opened, signature, *_occasion_columns(notice.at), notice.party),
            )

    def lift(self, at: Occasion) -> None:
        """Forget a suspension."""
        with self._database.transaction() as cursor:
            cursor.execute(
                "DELETE FROM suspensions WHERE user_id = ? AND key_id = ? AND session_id = ?",
                _occasion_columns(at),
            )

    # ------------------------------------------------------------------ the gateway's own secrets

    def suspension_key(self) -> bytes:
        """What the gateway knows its suspension tags by; the same for the database's life.

        Returns:
            32 bytes.

        Raises:
            StoreFailed: it is damaged; so do the others.
        """
        return self._secret("suspension_key", _parse_key)

    def signing_key(self) -> str:
        """Private key of the gateway's tokens, PEM. Secret; the same until it is rotated."""
        return self._secret("signing_key", _parse_pem)

    def signing_keys(self) -> SigningKeys:
        """That, and the public halves of those that it was before."""

        def read() -> SigningKeys:
            rows = self._database.rows("SELECT jwk, ends_at FROM earlier_signing_keys")
            try:
                earlier = tuple(strict_json.parse(jwk.encode()) | {"exp": end} for jwk, end in rows)
            except (InvalidEncoding, TypeError, AttributeError):
                raise self._database.damaged("one of its earlier signing keys is none") from None
            return SigningKeys(self.signing_key(), earlier)

        return self._database.at_hand("signing keys", read)

    def set_token_lifetime(self, lifetime_s: float) -> None:
        """Remember that tokens are made from now on which live that long: so long a rotation leaves
        their key in the key set."""
        now, known = self._now(), self._token_lifetimes()
        if known == (lifetime_s, known[1]):
            return
        ends_at = max(known[1], now + known[0])  # of those that were made until now
        with self._database.transaction() as cursor:
            cursor.execute(
                "INSERT OR REPLACE INTO secrets VALUES ('token_lives', ?)",
                (f"{lifetime_s} {ends_at}",),
            )

    def _token_lifetimes(self) -> tuple[float, float]:
        """How long tokens live, and when those of earlier settings have ended."""
        if not self._database.row("SELECT 1 FROM secrets WHERE name = 'token_lives'"):
            return 0.0, 0.0
        return self._secret("token_lives", _parse_two_times)

    def rotate_signing_key(self, *, at_once: bool = False) -> int | None:
        """Sign tokens with a new key from now on. Of the old one the public half stays, until no
        token that it has signed holds any more; the private half is gone.

        Call ``forget`` afterwards.

        Args:
            at_once: it does not stay, nor do those before it: what they have signed holds no more.

        Returns:
            When it ends, in seconds since 1970 UTC; None: it has.

        Raises:
            UsageError: no gateway has said how long its tokens live; nothing has changed.
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
            (old,) = TokenIssuer(self.signing_key()).jwks()["keys"]  # which nobody else changes now
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
        """Delete earlier ones that have ended."""
        now = self._now()
        if self._database.row("SELECT 1 FROM earlier_signing_keys WHERE ends_at <= ?", now):
            with self._database.transaction() as cursor:
                cursor.execute("DELETE FROM earlier_signing_keys WHERE ends_at <= ?", (now,))

    def forget(self) -> None:
        """Leave nothing of what was deleted in any file.

        Raises:
            StoreFailed: another process keeps it locked; the next sweep sees to it.
        """
        self._database.forget()

    def sweep(self) -> None:
        """Delete signing keys and names whose time is over, and leave nothing of that, nor of what
        any process has deleted, in any file.

        Raises:
            StoreFailed: another process keeps it locked; the next sweep sees to it.
        """
        self.forget_signing_keys()
        since = self._now() - NAMED_CALLS_S
        if self._database.row("SELECT 1 FROM named_calls WHERE at_s <= ? LIMIT 1", since):
            with self._database.transaction() as cursor:
                cursor.execute("DELETE FROM named_calls WHERE at_s <= ?", (since,))
        self._database.sweep(others=True)

    def credentials(self) -> Credentials:
        """What callers log in with; the same for the database's life."""
        return Credentials(self._secret("api_key", str), self._secret("api_secret", str))

    # ------------------------------------------------------------------ inside

    def _make_secrets(self) -> None:
        """At the first start, all of them or none."""
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

    def _secret(self, name: str, read: Callable[[str], T]) -> T:
        """One of them, as ``read`` understands it: what it does not understand is damaged."""
        row = self._database.row("SELECT value FROM secrets WHERE name = ?", name)
        if row is None:  # all were made when the database was
            raise self._database.damaged(f"it has no {name}")
        try:
            return read(str(row[0]))
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
    """What both MPC nodes have signed of a key."""
    if key.record is None:
        return key
    record = _verified_record(key.user_id, key.curve, key.record)
    if record is None:
        return replace(key, record=None, damaged=True)
    return replace(
        key, key_id=record.key_id, public_key=bytes(record.public_key), recoveries=record.number
    )


@lru_cache(MAX_VERIFIED_RECORDS)
def _verified_record(user_id: str, curve_name: str, record: bytes) -> KeyRecord | None:
    """The record of a user's key, if it is as it was signed. Whose signatures are to be believed,
    others know."""
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


def _occasion_columns(at: Occasion) -> tuple[str, str, str]:
    return at.user_id, at.key_id.hex(), at.session_id.hex()
