"""Backups: a copy of one service's store, taken while it runs, and putting it back.

A copy is consistent: SQLite makes it, as of one moment. It says what it is (whose store, of which
deployment, when, in which layout) and a digest of all that is in it, so that nothing else is ever
put back in its place. It is as secret as the store. Links are not in it (``data_folder``), nor are
shares that nobody has voted for: their sessions are over before it could be put back. A share that
is replaced later stays in it: old backups are to be deleted.

Nobody reads both share stores: one part at a time is copied, or put back.

An MPC node's store that is put back has forgotten what came after: what that means, and how it
hears of it, is said in ``mpcsim.service.mpc_node.agreement.restore_reconciliation``. The gateway's
follows what both MPC nodes have signed (``mpcsim.service.gateway.store_consistency``), and signs
tokens with a new
key: an old one may have been changed because it had leaked.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import astuple, dataclass
from datetime import UTC, datetime
from itertools import chain, count
from pathlib import Path
from typing import Final

from mpcsim.errors import UsageError
from mpcsim.service.gateway.registry import Registry
from mpcsim.service.mpc_node.store import ShareStore
from mpcsim.service.operations.data_folder import (
    claim_folder,
    linked_deployments,
    open_beside,
    store_file,
    sync,
)
from mpcsim.service.storage.database import (
    LAYOUT,
    RESERVE_SUFFIX,
    StoreFailed,
    keep_temporary_data_in_memory,
)
from mpcsim.service.storage.roles import PARTS, REGISTRY

_SCHEMA: Final = """
CREATE TABLE backup (
    role       TEXT NOT NULL,
    deployment TEXT NOT NULL,
    taken      TEXT NOT NULL,
    layout     INTEGER NOT NULL,
    digest     TEXT NOT NULL
);
"""
READING_S: Final = 1.0
"""Seconds given to readers of a store that is to be replaced."""
_MAGIC: Final = b"SQLite format 3\0"
_SQLITE_SUFFIXES: Final = ("-wal", "-shm", "-journal")
"""Suffixes of the files that SQLite keeps beside a database."""
_RESERVED_SUFFIXES: Final = (*_SQLITE_SUFFIXES, RESERVE_SUFFIX)
"""Suffixes of all files kept beside a store: a file of such a name is written to, or deleted."""
_DAMAGED: Final = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
"""Primary codes of a database that cannot be read, whatever is done."""


@dataclass(frozen=True)
class Backup:
    """Description that a backup carries of itself."""

    role: str
    deployment: str
    taken: str
    """ISO 8601, UTC."""
    layout: int
    digest: str
    """Digest of everything in it, 64 hex digits: SQLite's own check sees less."""


@dataclass(frozen=True)
class RestoreResult:
    """Result of a restore."""

    backup: Backup
    aside: Path | None
    """Path of the store that was there before; it may hold shares."""


def back_up(data: Path, role: str, target: Path, now: Callable[[], float]) -> Backup:
    """Copy a service's store, whether or not it runs.

    Args:
        now: seconds since 1970 UTC.

    Raises:
        UsageError: there is no such store, or it cannot be read, or the copy not be written;
            ``target`` is there already, or where services and databases keep their own. Nothing
            has changed.
    """
    if not target.name:
        raise UsageError(f"{target} is a folder: name the file that is to be written")
    store = store_file(data, role)
    if not (store.is_file() and store.stat().st_size):
        raise UsageError(f"{store}: there is no such store")
    if os.path.lexists(target):
        raise UsageError(f"{target} is there already: backups are not overwritten")
    _check_name(target)
    if target.absolute().parent.resolve() in [(data / part).resolve() for part in PARTS]:
        raise UsageError(f"{target}: a service's folder is its own; keep backups elsewhere")
    taken = datetime.fromtimestamp(now(), UTC).isoformat(timespec="seconds")
    with _errors_about(target):
        opened, new = open_beside(target)
        os.close(opened)
        try:
            found = _copy_store(store, role, new, taken)
            _sync_file(new)
            _link_new(new, target)
            sync(target.parent)
        except BaseException:
            _remove_unfinished(new)
            raise
    return found


def _copy_store(store: Path, role: str, new: Path, taken: str) -> Backup:
    with closing(_open_new(new)) as copy:
        with _sqlite_errors_about(store), closing(_read_only(store)) as source:
            source.backup(copy)
        with _sqlite_errors_about(new):
            copy.execute("PRAGMA journal_mode = MEMORY")  # whoever is killed leaves one file
            _check(store, copy)
            _drop_prepared(copy, role)
            row = copy.execute("SELECT id, role FROM deployment").fetchone()
            if row is None or row[1] != role:
                raise UsageError(f"{store}: no {role} has kept its data in it")
            layout = _layout(copy)
            if layout != LAYOUT:
                raise UsageError(f"{store}: it was written by another version of mpcsim")
            found = Backup(role, row[0], taken, layout, _digest(copy))
            copy.executescript(f"BEGIN; {_SCHEMA}")
            copy.execute("INSERT INTO backup VALUES (?, ?, ?, ?, ?)", astuple(found))
            copy.execute("COMMIT")
    return found


def _drop_prepared(copy: sqlite3.Connection, role: str) -> None:
    """Overwrite the shares that nobody has voted for: what their sessions still give up would stay
    in the backup."""
    if role != REGISTRY:
        copy.execute("PRAGMA secure_delete = ON")
        copy.execute("DELETE FROM shares WHERE state = 'prepared'")


def inspect_backup(file: Path) -> Backup:
    """Check that a file is an undamaged backup, and return its description.

    Raises:
        UsageError: it is none, or damaged.
    """
    with _errors_about(file):
        with open(file, "rb") as opened:
            if opened.read(len(_MAGIC)) != _MAGIC:
                raise UsageError(f"{file} is no backup")
        with closing(_read_only(file, immutable=True)) as copy:
            try:
                _check(file, copy)
                if not copy.execute("SELECT 1 FROM sqlite_master WHERE name = 'backup'").fetchone():
                    raise UsageError(f"{file} is no backup: mpcsim backup makes one")
                found = Backup(*copy.execute("SELECT * FROM backup").fetchone())
                if found.layout != LAYOUT:
                    raise UsageError(
                        f"{file} was made by another version of mpcsim, which alone can read it"
                    )
                whole = (found.layout, found.digest) == (_layout(copy), _digest(copy))
            except (sqlite3.Error, TypeError):
                whole = False
        if not whole:
            raise _damaged_file(file)
    return found


def restore(
    data: Path,
    role: str,
    file: Path,
    now: Callable[[], float],
    *,
    other_restored_too: bool = False,
) -> RestoreResult:
    """Replace the store of a service that does not run with a backup.

    The store that is there is kept beside it. A crash at any point leaves one of the two in its
    place, whole.

    Args:
        now: seconds since 1970 UTC.
        other_restored_too: of an MPC node: as for ``ShareStore.mark_restored``.

    Raises:
        UsageError: the file is no backup, damaged, of another service, deployment or version, or
            called like what is kept beside a store; the service runs; or the disk fails. The store
            is as it was.
    """
    _check_name(file)
    found = inspect_backup(file)
    if found.role != role:
        raise UsageError(f"{file} is a backup of the {found.role}'s store, not the {role}'s")
    with claim_folder(data / role), _errors_about(data / role):
        store = store_file(data, role)
        known = linked_deployments(data, role) | _deployment_of(store)
        if known - {found.deployment}:
            raise UsageError(
                f"{file} is of another deployment than what is in {data / role}: put back files "
                "that belong together"
            )
        opened, new = open_beside(store)
        try:
            _prepare_store(file, opened, new, found, now, other_restored_too)
            aside = _set_aside(store, now)
            try:
                os.rename(new, store)
            except BaseException:
                if aside is not None:
                    _undo_set_aside(store, aside)
                raise
        except BaseException:
            _remove_unfinished(new)
            raise
        sync(store.parent)
    return RestoreResult(found, aside)


def _prepare_store(
    file: Path,
    opened: int,
    new: Path,
    found: Backup,
    now: Callable[[], float],
    other_restored_too: bool,
) -> None:
    """Make the store that is to be put in its place."""
    with open(opened, "wb") as target, open(file, "rb") as source:
        shutil.copyfileobj(source, target)
    with closing(_open_new(new)) as database:
        database.execute("PRAGMA journal_mode = MEMORY")
        _check(file, database)
        if _digest(database) != found.digest:
            raise _damaged_file(file)
        database.execute("DROP TABLE backup")
    if found.role == REGISTRY:
        # Since the backup its key for tokens may have been changed because it had leaked.
        with closing(Registry(new, now=now)) as registry:
            registry.rotate_signing_key(at_once=True)
            registry.forget()
    else:
        with closing(ShareStore(new, now)) as store:
            store.mark_restored(found.taken, both=other_restored_too)
    _sync_file(new)


def _set_aside(store: Path, now: Callable[[], float]) -> Path | None:
    """Give the present store a second name, under which it stays.

    Its log of writes first goes into it: whatever lay beside another file would be taken for that
    one's. What cannot be opened any more keeps it, under such a name, too.
    """
    if not store.exists():
        for (
            suffix
        ) in _SQLITE_SUFFIXES:  # of a store that is gone: it would be taken for the new one's
            Path(f"{store}{suffix}").unlink(missing_ok=True)
        return None
    at = datetime.fromtimestamp(now(), UTC).strftime("%Y%m%dT%H%M%SZ")
    name = f"{store.name}.before-restore-{at}"
    names = chain([name], (f"{name}-{n}" for n in count(2)))
    aside = next(path for path in map(store.with_name, names) if not os.path.lexists(path))
    log, kept = Path(f"{store}-wal"), _kept_log(aside)
    if log.exists() and log.stat().st_size:
        shutil.copy(log, kept)
        _sync_file(kept)
    try:
        if _empty_log(store):
            kept.unlink(missing_ok=True)
        os.link(store, aside)
    except BaseException:
        kept.unlink(missing_ok=True)
        raise
    for suffix in _SQLITE_SUFFIXES:
        Path(f"{store}{suffix}").unlink(missing_ok=True)
    sync(store.parent)
    return aside


def _empty_log(store: Path) -> bool:
    """Move the log of writes into a store; False if the store is damaged.

    Raises:
        UsageError: somebody reads it, or the disk fails.
    """
    try:
        with closing(sqlite3.connect(store, timeout=READING_S)) as database:
            (busy, *_) = database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    except sqlite3.Error as error:
        if getattr(error, "sqlite_errorcode", 0) & 0xFF in _DAMAGED:
            return False
        raise
    if busy:
        raise UsageError(f"{store}: another process reads it; stop that first")
    return True


def _undo_set_aside(store: Path, aside: Path) -> None:
    """The present store stays what it is: undo ``_set_aside``."""
    if (kept := _kept_log(aside)).exists():
        os.rename(kept, f"{store}-wal")
    aside.unlink()


def _kept_log(aside: Path) -> Path:
    """Return the path at which the log of writes of a damaged store is kept."""
    return Path(f"{aside}-wal")


def _deployment_of(store: Path) -> set[str]:
    """The deployment of the store that is there, if it says one outside its log of writes. Looking
    leaves nothing behind."""
    if not store.exists():
        return set()
    with suppress(sqlite3.Error), closing(_read_only(store, immutable=True)) as database:
        return {i for (i,) in database.execute("SELECT id FROM deployment")}
    return set()


# ---------------------------------------------------------------------- databases


def _read_only(path: Path, *, immutable: bool = False) -> sqlite3.Connection:
    """
    Args:
        immutable: nobody writes to it, nor keeps anything beside it.
    """
    how = "mode=ro&immutable=1" if immutable else "mode=ro"
    uri = f"{path.resolve().as_uri()}?{how}"
    return keep_temporary_data_in_memory(sqlite3.connect(uri, uri=True, isolation_level=None))


def _open_new(new: Path) -> sqlite3.Connection:
    """A file that is being made."""
    return keep_temporary_data_in_memory(sqlite3.connect(new, isolation_level=None))


def _check(path: Path, database: sqlite3.Connection) -> None:
    if database.execute("PRAGMA integrity_check(1)").fetchone() != ("ok",):
        raise _damaged_file(path)


def _layout(database: sqlite3.Connection) -> int:
    (layout,) = database.execute("PRAGMA user_version").fetchone()
    return int(layout)


def _digest(database: sqlite3.Connection) -> str:
    """Return a digest of every row of every table, but for the one that holds it."""
    digest = hashlib.sha256()
    tables = database.execute(
        "SELECT name, sql FROM sqlite_master WHERE type = 'table' AND name != 'backup'"
        " ORDER BY name"
    ).fetchall()
    for name, sql in tables:
        digest.update(repr((name, sql)).encode())
        for row in database.execute(f'SELECT * FROM "{name}" ORDER BY rowid'):
            digest.update(repr(row).encode())
    return digest.hexdigest()


def _damaged_file(file: Path) -> UsageError:
    return UsageError(f"{file} is damaged, or has not been copied whole")


# ---------------------------------------------------------------------- files


def _remove_unfinished(path: Path) -> None:
    """Delete a file that ``open_beside`` has made, with what SQLite keeps beside it."""
    for suffix in ("", *_SQLITE_SUFFIXES):
        Path(f"{path}{suffix}").unlink(missing_ok=True)


def _sync_file(path: Path) -> None:
    opened = os.open(path, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def _check_name(backup: Path) -> None:
    """Check that a backup is not named like a file that is kept beside a store.

    Raises:
        UsageError: it is, and would be written to, or deleted, as that.
    """
    if backup.name.endswith(_RESERVED_SUFFIXES):
        raise UsageError(f"{backup}: databases keep files of their own under such a name")


def _link_new(new: Path, target: Path) -> None:
    """Give a file its name, unless there is another of that name."""
    try:
        os.link(new, target)
    except FileExistsError:
        raise UsageError(f"{target} is there already: backups are not overwritten") from None
    except OSError:  # no file there has two names
        os.rename(new, target)
    else:
        os.unlink(new)


@contextmanager
def _sqlite_errors_about(path: Path) -> Iterator[None]:
    """Raise SQLite's errors about a file as ``UsageError`` in one sentence."""
    try:
        yield
    except sqlite3.Error as error:
        raise UsageError(f"{path}: {error}") from error


@contextmanager
def _errors_about(path: Path) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as error:
        raise UsageError(f"{error.filename or path}: there is no such file or folder") from error
    except OSError as error:
        raise UsageError(f"{error.filename or path}: {error.strerror}") from error
    except (sqlite3.Error, StoreFailed) as error:
        raise UsageError(f"{path}: {error}") from error
    except UnicodeDecodeError:  # what was to be text in it
        raise _damaged_file(path) from None
