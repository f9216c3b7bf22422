"""The data folder: in it a folder for each service, which nobody else reads or writes.

::

    DATA/gateway/      gateway.sqlite      operator.link  institution.link  chain
    DATA/operator/     operator.sqlite     gateway.link
    DATA/institution/  institution.sqlite  gateway.link
    DATA/logs/         of all processes that mpcsim serve starts (rpc.log_files)

``chain`` is the address of the gateway's own chain while it runs. A link file holds the key that
authenticates what the gateway and one MPC node say to each other, and which deployment they are
part of; both have the same one, except while it is changed (``rotation``): then the MPC node's has
another key in a second line, and how long that is accepted, too. Each folder has a lock, too, and
may be on another machine than the others, once the links are made.
"""

from __future__ import annotations

import fcntl
import logging
import math
import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Self

from mpcsim.crypto.rng import Rng
from mpcsim.errors import UsageError
from mpcsim.ids import MPC_NODES, ROLES, PartyId
from mpcsim.service.gateway.registry import Registry
from mpcsim.service.mpc_node.store import ShareStore
from mpcsim.service.operations.deployment import Store, join_deployment
from mpcsim.service.rpc.grants import LINK_KEY_BYTES, Keyring, LinkKeys
from mpcsim.service.storage.database import StoreFailed, file_of
from mpcsim.service.storage.roles import REGISTRY

LOG = logging.getLogger(__name__)

LOCK_FILE: Final = "lock"
PART: Final = ".part"
"""Ending of a file that is being written, and has its own name only when it is whole."""
ID_BYTES: Final = 16


@dataclass(frozen=True)
class LinkSecret:
    """Secret of the link between gateway and one MPC node, as one of them has it."""

    deployment: str
    """32 hex digits; the same in all links of a gateway."""
    keys: LinkKeys

    @classmethod
    def generate(cls, rng: Rng, deployment: str | None = None) -> Self:
        """A new one.

        Args:
            deployment: a new one by default.
        """
        return cls(deployment or rng.bytes(ID_BYTES).hex(), LinkKeys(rng.bytes(LINK_KEY_BYTES)))

    def to_text(self) -> str:
        """Return the text of a link file."""
        keys = self.keys
        text = f"{self.deployment} {keys.key.hex()}\n"
        if keys.other is not None:
            text += f"{keys.other.hex()} {'also' if keys.until == math.inf else keys.until}\n"
        return text

    @classmethod
    def from_text(cls, text: str) -> Self:
        """
        Raises:
            ValueError: it is none.
        """
        deployment, key, *more = text.split()
        keys = LinkKeys(bytes.fromhex(key))
        if more:
            other, until = more
            keys = LinkKeys(keys.key, bytes.fromhex(other), _parse_until(until))
        sizes = {len(key) for key in (keys.key, keys.other) if key is not None}
        if len(bytes.fromhex(deployment)) != ID_BYTES or sizes != {LINK_KEY_BYTES}:
            raise ValueError("not of these sizes")
        return cls(deployment, keys)


def store_file(data: Path, role: str) -> Path:
    """Return the path of a service's store."""
    return data / role / file_of(role)


def chain_file(data: Path) -> Path:
    """Return the path of the file with the address of the gateway's own chain."""
    return data / REGISTRY / "chain"


def log_folder_of(data: Path) -> Path:
    """Return the folder for the log files of whoever serves a data folder."""
    return data.resolve() / "logs"


def link_file(data: Path, role: str, party: PartyId) -> Path:
    """Return the path of the link secret at one end: the gateway's, or the MPC node's own."""
    return data / role / f"{ROLES[party] if role == REGISTRY else REGISTRY}.link"


def read_link(data: Path, role: str, party: PartyId) -> LinkSecret:
    """The secret of a link, at one of its ends.

    Raises:
        UsageError: there is none, or it cannot be read.
    """
    path = link_file(data, role, party)
    if (found := _read_link_file(path)) is None:
        raise UsageError(
            f"{path} is missing: mpcsim link {ROLES[party]} --data {data} makes it, here and at "
            "the other end"
        )
    return found


def read_keyring(data: Path, role: str, party: PartyId) -> tuple[str, Keyring]:
    """The deployment and the keys of a link, at one of its ends: in use, they follow their file.

    Raises:
        UsageError: as of ``read_link``.
    """
    path = link_file(data, role, party)
    seen = _file_version(path)
    deployment = (secret := read_link(data, role, party)).deployment

    def reread() -> LinkKeys | None:
        nonlocal seen
        if (now := _file_version(path)) == seen:
            return None
        seen = now
        try:
            found = read_link(data, role, party)
            if found.deployment != deployment:
                raise UsageError(f"{path}: it is of another deployment")
        except UsageError as error:
            LOG.error("%s; the keys in use stay", error)
            return None
        LOG.info("%s: its keys have changed and are used from now on", path)
        return found.keys

    return deployment, Keyring(secret.keys, reread)


def _file_version(path: Path) -> object:
    """Return a value that differs whenever somebody has put another file there."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def prepare(data: Path, rng: Rng, parties: Iterable[PartyId] = MPC_NODES) -> None:
    """Make what a gateway and MPC nodes that are about to start need to have in common: folders,
    and links. If anything is to be made, nobody may run on these folders meanwhile.

    Raises:
        UsageError: a folder cannot be used or is in use, or what is there does not belong together;
            nothing has changed.
    """
    parties = tuple(parties)
    roles = [REGISTRY, *(ROLES[party] for party in parties)]
    with ExitStack() as claims, _errors_as_usage_errors(data):
        if all(len(_read_both_ends(data, party)) == 2 for party in parties):
            return
        for role in roles:
            claims.enter_context(claim_folder(data / role))
        ids = {found.deployment for party in MPC_NODES for found in _read_both_ends(data, party)}
        if len(ids) > 1:
            raise UsageError(
                f"the .link files in {data} are of different deployments: put back folders that "
                "belong together"
            )
        deployment = ids.pop() if ids else _deployment(data, roles, rng)
        for party in parties:
            secret, *more = _read_both_ends(data, party) or [LinkSecret.generate(rng, deployment)]
            if not more:
                one = replace(secret, keys=LinkKeys(secret.keys.key))
                for role in (REGISTRY, ROLES[party]):
                    write_link(data, role, party, one)


@contextmanager
def claim_folder(folder: Path) -> Iterator[None]:
    """Make a service's folder, and keep others out of it: an MPC node must know of every open
    session of a key. The operating system lifts the claim with the process, however that ends.

    Raises:
        UsageError: the folder cannot be used, or another process uses it.
    """
    try:
        folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
        claim = os.open(folder / LOCK_FILE, os.O_CREAT | os.O_RDWR, 0o600)
    except OSError as error:
        places = folder, folder / LOCK_FILE, folder.parent
        raise UsageError(f"data folder {_explain(error, *places)}") from error
    try:
        _lock(claim, folder)
        _remove_unfinished_stores(folder)
        yield
    finally:
        os.close(claim)


def _lock(claim: int, folder: Path) -> None:
    try:
        fcntl.flock(claim, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        holder = os.read(claim, 20).decode(errors="replace").strip()
        raise UsageError(
            f"another service keeps its data in {folder}: process {holder or 'unknown'}; stop it,"
            " or choose another folder (--data, MPCSIM_DATA)"
        ) from None
    with suppress(OSError):  # on a full disk the stores say what is wrong
        os.truncate(claim, 0)
        os.write(claim, f"{os.getpid()}\n".encode())


def _remove_unfinished_stores(folder: Path) -> None:
    """Delete what a restore that was killed has left: it may have every share in it.

    Raises:
        UsageError: it cannot be deleted.
    """
    store = folder / file_of(folder.name)
    try:
        for left in remove_unfinished(store):
            LOG.warning("%s: a restore was killed and had left this; it is deleted now", left)
    except OSError as error:
        raise UsageError(
            f"{error.filename}: left by a restore that was killed, with all that was in the "
            f"backup; it cannot be deleted ({error.strerror}): delete it"
        ) from error


def _deployment(data: Path, roles: Iterable[str], rng: Rng) -> str:
    """The deployment that stores which are there are part of; a new one if none are.

    Raises:
        UsageError: they are of different ones.
    """
    with ExitStack() as opened:
        stores: dict[str, Store] = {}
        for role in roles:
            path = store_file(data, role)
            if path.exists() and path.stat().st_size:
                stores[role] = store = (Registry if role == REGISTRY else ShareStore)(path)
                opened.callback(store.close)
        return join_deployment(stores, lambda: rng.bytes(ID_BYTES).hex())


# ---------------------------------------------------------------------- links


def linked_deployments(data: Path, role: str) -> set[str]:
    """The deployments that a service is part of, as the links in its own folder say: none or one.

    Raises:
        UsageError: a link cannot be read.
    """
    ends = MPC_NODES if role == REGISTRY else [p for p in MPC_NODES if ROLES[p] == role]
    found = [_read_link_file(link_file(data, role, party)) for party in ends]
    return {secret.deployment for secret in found if secret is not None}


def _read_both_ends(data: Path, party: PartyId) -> list[LinkSecret]:
    """The secrets at both ends of a link, the gateway's first: none, one or two that fit.

    Raises:
        UsageError: they do not, or cannot be read.
    """
    ends = [link_file(data, role, party) for role in (REGISTRY, ROLES[party])]
    found = [secret for path in ends if (secret := _read_link_file(path)) is not None]
    if len(found) == 2:
        gateway, mpc_node = found
        known = mpc_node.keys.key, mpc_node.keys.other
        if gateway.deployment != mpc_node.deployment or gateway.keys.key not in known:
            raise UsageError(
                f"{ends[0]} and {ends[1]} differ: put back folders that belong together"
            )
    return found


def _read_link_file(path: Path) -> LinkSecret | None:
    try:
        return LinkSecret.from_text(path.read_text(encoding="ascii"))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise UsageError(_explain(error, path.parent, path)) from None
    except ValueError:
        raise UsageError(f"{path}: it is damaged; put a whole one back") from None


def _explain(error: OSError, *paths: Path) -> str:
    """Return why a path cannot be used, and whose the first is that is another user's."""
    user = os.geteuid()
    for path in paths if isinstance(error, PermissionError) else ():
        with suppress(OSError):
            if (owner := path.stat().st_uid) != user:
                return (
                    f"{path} belongs to user {owner}, and this process is user {user}'s; run it as "
                    f"user {owner}, or chown -R {user} {path}"
                )
    return f"{paths[0]}: {error.strerror or error}"


def _parse_until(text: str) -> float:
    found = math.inf if text == "also" else float(text)
    if not found > 0:
        raise ValueError("no time")
    return found


def write_link(data: Path, role: str, party: PartyId, secret: LinkSecret) -> None:
    """Write the secret of a link to its file at one end, atomically and readable by its owner
    only."""
    path = link_file(data, role, party)
    opened, new = open_beside(path)
    try:
        with open(opened, "w") as file:
            file.write(secret.to_text())
            file.flush()
            os.fsync(file.fileno())
        os.rename(new, path)
    except BaseException:
        new.unlink(missing_ok=True)
        raise
    sync(path.parent)


def remove_unfinished(path: Path) -> list[Path]:
    """Delete what was being written for a file when its process was killed, if anything was.

    Only for files in a data folder, whose names that begin with a point are all ours.

    Returns:
        What has been deleted.

    Raises:
        OSError: it cannot be deleted.
    """
    found = sorted(path.parent.glob(f".{path.name}.*{PART}*"))
    for left in found:
        left.unlink()
    return found


def open_beside(path: Path) -> tuple[int, Path]:
    """Make a file beside another one, to be given its name when it is whole.

    Its name is fresh and random, so that no file that is there is ever written over or deleted; it
    is for its owner only.

    Returns:
        The open file's number, and the file.

    Raises:
        OSError: the folder is not there, or cannot be written.
    """
    opened, name = tempfile.mkstemp(PART, f".{path.name}.", path.parent)
    return opened, Path(name)


def sync(folder: Path) -> None:
    """Make renamings in a folder durable."""
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


@contextmanager
def _errors_as_usage_errors(data: Path) -> Iterator[None]:
    try:
        yield
    except StoreFailed as error:
        raise UsageError(str(error)) from error
    except OSError as error:
        raise UsageError(f"data folder {data}: {error.strerror}") from error
