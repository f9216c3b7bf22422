"""Log of key events of an MPC node: a hash chain of who had a key made, recovered or suspended.

Each event carries a hash of itself and of the event before, so that the last hash commits to the
whole log. This *head* goes into every vote, and the other MPC node logs it when it acts on the
vote: if one log is shortened or rewritten with new hashes, the other shows it (``verify_logs``).
The log has no secrets in it, and nothing about signatures.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import astuple, dataclass, replace
from datetime import UTC, datetime
from enum import Enum
from pathlib import Path
from typing import Final

from mpcsim.crypto.hashing import Tag, tagged_hash
from mpcsim.errors import UsageError
from mpcsim.service.errors import NodeFailed, Refused
from mpcsim.service.rpc.statements import LogHead
from mpcsim.service.storage.database import StoreFailed, keep_temporary_data_in_memory

SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS events (
    number  INTEGER PRIMARY KEY,
    time    TEXT NOT NULL,
    event   TEXT NOT NULL,
    user_id TEXT NOT NULL,
    curve   TEXT NOT NULL,
    key_id  TEXT NOT NULL,
    session TEXT NOT NULL,
    outcome TEXT NOT NULL,
    hash    BLOB NOT NULL
);
CREATE TABLE IF NOT EXISTS noted (
    user_id  TEXT NOT NULL,
    curve    TEXT NOT NULL,
    event    TEXT NOT NULL,
    since    REAL NOT NULL,
    written  INTEGER NOT NULL,
    left_out INTEGER NOT NULL,
    PRIMARY KEY (user_id, curve, event)
);
"""
EMPTY: Final = LogHead(0, bytes(32))
"""Head of a log without events."""
LINES_AT_ONCE: Final = 32
"""Events of a kind about one user's key on a curve that get a line each within ``LINES_S``, so that
no user fills the disk. Further ones are counted (table ``noted``), and their number gets a line
before the next event of that key. Counted by kind and curve, so that events of one key do not hide
those of another."""
LINES_S: Final = 3600.0


class Kind(Enum):
    """Kinds of events."""

    BEGUN = "begun"
    """Begin of a generation or recovery; ``key_id`` is the key to be recovered."""
    MADE = "made"
    RECOVERED = "recovered"
    RETIRED = "retired"
    """Deletion of shares that were replaced, or voted for and never in force."""
    SUSPENDED = "suspended"
    SEAL_KEY = "seal key"
    """Replacement of a lost seal key; an event of no user or key."""
    REFUSED = "refused"
    LEFT_OUT = "left out"
    """Number of earlier events of a user's key without a line (``LINES_AT_ONCE``)."""
    RESTORED = "restored"
    """Restore of the store from a backup: events since that backup are missing."""


SEES_PEER: Final = frozenset({Kind.MADE, Kind.RECOVERED})
"""Events whose outcome is the head of the other node's log."""


@dataclass(frozen=True)
class Event:
    """Row of the log; numbers start at 1."""

    number: int
    time: str
    """ISO 8601, UTC."""
    event: str
    user_id: str
    curve: str
    key_id: str
    session: str
    """64 hex digits; empty where there is none, or it is no longer known."""
    outcome: str
    hash: bytes

    def digest(self, before: bytes) -> bytes:
        """Compute what ``hash`` must be.

        Args:
            before: hash of the event before.
        """
        fields = (str(field).encode() for field in astuple(self)[:-1])
        return tagged_hash(Tag.EVENT, before, *fields)


class EventLog:
    """Writes events, in the transaction of what they report."""

    def __init__(self, now: Callable[[], float]) -> None:
        """
        Args:
            now: seconds since 1970 UTC.
        """
        self._now = now

    def write(
        self,
        cursor: sqlite3.Cursor,
        kind: Kind,
        user_id: str,
        curve: str,
        *,
        key_id: str = "",
        session: str = "",
        outcome: str = "",
    ) -> None:
        """Add an event, or count it."""
        now = self._now()
        if user_id:
            if not _has_line(cursor, kind, now, user_id, curve):
                return
            if left_out := _left_out(cursor, user_id, curve):
                name = Kind.LEFT_OUT.value
                self._add(cursor, now, Event(0, "", name, user_id, curve, "", "", left_out, b""))
        event = Event(0, "", kind.value, user_id, curve, key_id, session, outcome, b"")
        self._add(cursor, now, event)

    @staticmethod
    def _add(cursor: sqlite3.Cursor, now: float, event: Event) -> None:
        """Add an event with the next number, the time and its hash."""
        last = log_head(cursor)
        time = datetime.fromtimestamp(now, UTC).isoformat(timespec="milliseconds")
        event = replace(event, number=last.count + 1, time=time)
        cursor.execute(
            "INSERT INTO events VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (*astuple(event)[:-1], event.digest(last.hash)),
        )


@contextmanager
def recording_refusals(
    note: Callable[[Kind, str, str, str, str, str], None],
    user_id: str,
    curve: str,
    session_id: bytes,
    key_id: str = "",
) -> Iterator[None]:
    """Log a request that is refused, as far as the store can be written.

    Args:
        note: ``ShareStore.log_event``.
    """
    try:
        yield
    except NodeFailed:
        raise
    except Refused as refused:
        with suppress(StoreFailed):
            note(Kind.REFUSED, user_id, curve, key_id, session_id.hex(), str(refused))
        raise


def log_head(cursor: sqlite3.Cursor) -> LogHead:
    """Return the number and hash of the last event."""
    row = cursor.execute("SELECT number, hash FROM events ORDER BY number DESC").fetchone()
    return EMPTY if row is None else LogHead(*row)


def _has_line(cursor: sqlite3.Cursor, kind: Kind, now: float, *at: str) -> bool:
    """Count an event, and return whether it has a line.

    Args:
        at: user and curve.
    """
    query = "SELECT since, written, left_out FROM noted WHERE user_id = ? AND curve = ?"
    found = cursor.execute(f"{query} AND event = ?", (*at, kind.value)).fetchone()
    since, written, left_out = found or (now, 0, 0)
    if not 0 <= now - since < LINES_S:  # the clock may have been put back
        since, written = now, 0
    full = written >= LINES_AT_ONCE
    values = *at, kind.value, since, written + (not full), left_out + full
    cursor.execute("INSERT OR REPLACE INTO noted VALUES (?, ?, ?, ?, ?, ?)", values)
    return not full


def _left_out(cursor: sqlite3.Cursor, *at: str) -> str:
    """Return how many events of a user's key have no line, as text; from now on none. Empty: none.

    Args:
        at: user and curve.
    """
    which = "user_id = ? AND curve = ? AND left_out > 0"
    query = f"SELECT left_out, event FROM noted WHERE {which} ORDER BY event"
    counts = cursor.execute(query, at).fetchall()
    cursor.execute(f"UPDATE noted SET left_out = 0 WHERE {which}", at)
    said = ", ".join(f"{count} {event}" for count, event in counts)
    return said and f"{said}: too many for a line each"


def read_log(path: Path) -> list[Event]:
    """Read the log of a store, which may be in use; nothing is written.

    Raises:
        UsageError: it cannot be read, or is no MPC node's store.
    """
    if not path.is_file():
        raise UsageError(f"{path}: there is no such store")
    try:
        uri = f"{path.resolve().as_uri()}?mode=ro"
        with closing(keep_temporary_data_in_memory(sqlite3.connect(uri, uri=True))) as database:
            rows = database.execute("SELECT * FROM events ORDER BY number").fetchall()
    except sqlite3.Error as error:
        raise UsageError(f"{path}: {error}") from error
    return [Event(*row) for row in rows]


# ---------------------------------------------------------------------- verification


def head_outcome(other: LogHead) -> str:
    """Return the outcome of an event that logs the other log's head."""
    return f"{other.count} {other.hash.hex()}"


def verify_logs(own: Sequence[Event], other: Sequence[Event] | None = None) -> list[str]:
    """Find places where a log was altered, as far as it and the other MPC node's log show it.

    Args:
        own: all events, in order.
        other: events of the other MPC node. An honest log is never shorter than what the other has
            seen of it; one of them may have been copied earlier than the other.

    Returns:
        A sentence for each place: first each log by itself, then against the other. Empty: none.
    """
    logs = {"this log": own} if other is None else {"this log": own, "the other log": other}
    found = [text for name, log in logs.items() if (text := _first_break(name, log))]
    if other is not None:
        found += _first_contradiction("this log", own, "the other log", other)
        found += _first_contradiction("the other log", other, "this log", own)
    return found


def _first_break(name: str, log: Sequence[Event]) -> str | None:
    """Describe the first event that does not follow from the one before."""
    before = EMPTY.hash
    for number, event in enumerate(log, start=1):
        if event.number != number:
            return f"{name}: event {number} is missing"
        if event.hash != event.digest(before):
            return f"{name}: event {number} was altered"
        before = event.hash
    return None


def _first_contradiction(
    name: str, log: Sequence[Event], witness: str, witness_log: Iterable[Event]
) -> list[str]:
    """Describe the first head of a log that another log has recorded differently."""
    hashes = {event.number: event.hash for event in log} | {0: EMPTY.hash}
    for event in witness_log:
        if event.event not in {kind.value for kind in SEES_PEER}:
            continue
        count, _, digest = event.outcome.partition(" ")
        if not count.isdecimal():
            return [f"{witness}: event {event.number} does not say what it has seen"]
        its = f"(its event {event.number}, {event.time}){_restore_note(name, log)}"
        if (present := hashes.get(int(count))) is None:
            return [
                f"{name}: it ends at event {len(log)}, but {witness} has seen event {count} {its}"
            ]
        if present.hex() != digest:
            return [
                f"{name}: event {count}, or one before it, is not what {witness} has seen {its}"
            ]
    return []


def _restore_note(name: str, log: Iterable[Event]) -> str:
    """Return a note if a restore may explain the difference."""
    numbers = [e.number for e in log if e.event == Kind.RESTORED.value]
    return f"; {name} was put back from a backup at event {numbers[-1]}" if numbers else ""
