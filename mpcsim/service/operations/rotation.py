"""Keys that are changed while the service runs, or since they are lost.

*Token signing key*: one write to the registry (``Registry.rotate_signing_key``); a gateway that
runs sees it at its next token (``mpcsim.service.gateway.api.token_keys``), REST nodes when a token
names a key that they do not know.

*Key of a link*: three writes to two files, in this order. After each of them, and so wherever this
ends, both ends can talk; called again, it goes on where it ended. Whoever runs sees another file
within a second, and an MPC node as soon as a grant is not good with what it knows
(``mpcsim.service.rpc.grants.Keyring``).

1. The MPC node accepts the new key, beside the old one.
2. The gateway uses the new key.
3. The MPC node knows the new key as its own, and accepts the old one for a while.

*Seal key of an MPC node*: only if it is lost, while the node is stopped.
"""

from __future__ import annotations

import fcntl
import math
import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

from mpcsim.crypto.rng import Rng
from mpcsim.errors import UsageError
from mpcsim.ids import ROLES, PartyId
from mpcsim.service.gateway.registry import Registry
from mpcsim.service.mpc_node.store import ShareStore
from mpcsim.service.operations.data_folder import (
    LinkSecret,
    claim_folder,
    link_file,
    read_link,
    store_file,
    write_link,
)
from mpcsim.service.operations.defaults import GRACE_S
from mpcsim.service.rpc.grants import LINK_KEY_BYTES, LinkKeys
from mpcsim.service.storage.database import StoreFailed
from mpcsim.service.storage.roles import REGISTRY

MOST_GRACE_S: Final = 7 * 86_400.0


def rotate_token_key(
    data: Path, rng: Rng, *, at_once: bool = False, now: Callable[[], float] = time.time
) -> int | None:
    """Replace the key that tokens are signed with; the gateway may run.

    Args:
        at_once: tokens that have been made hold no more.

    Returns:
        Until when the old key verifies, in seconds since 1970 UTC; None: not any more.

    Raises:
        UsageError: there is no registry, or it cannot be used, or it is not known how long tokens
            live.
    """
    path = _existing_store(data, REGISTRY)
    try:
        with closing(Registry(path, rng=rng, now=now)) as registry:
            end = registry.rotate_signing_key(at_once=at_once)
            try:
                registry.forget()
            except StoreFailed as error:
                raise UsageError(
                    f"{error}: the key has been changed, but the old one may be found in this "
                    "file's log of writes until the gateway sweeps it, or is started, the next time"
                ) from error
    except StoreFailed as error:
        raise UsageError(str(error)) from error
    return end


def rotate_link(
    data: Path,
    party: PartyId,
    rng: Rng,
    *,
    grace_s: float = GRACE_S,
    now: Callable[[], float] = time.time,
) -> float:
    """Change the key of the link between the gateway and an MPC node; both may run.

    Args:
        grace_s: how long the MPC node accepts the old key.

    Returns:
        Until when that is, in seconds since 1970 UTC.

    Raises:
        UsageError: a file is missing or damaged, the two do not fit, or the last change is not
            over; nothing has changed. Or a file cannot be written: then this can be called again.
    """
    if not 0 <= grace_s <= MOST_GRACE_S:
        raise UsageError(f"the grace is {grace_s:g} seconds: 0 to {MOST_GRACE_S:.0f} (a week)")
    ends = REGISTRY, ROLES[party]
    for path in (link_file(data, role, party) for role in ends):
        if not path.is_file():
            raise UsageError(
                f"{path} is missing: both ends of a link are changed together; copy it here first"
            )
    try:
        with ExitStack() as alone:
            for role in ends:
                alone.enter_context(_lock_links(data / role))
            gateway, node = (read_link(data, role, party) for role in ends)
            until = round(now() + grace_s, 3)
            for role, secret in link_steps(
                gateway, node, rng.bytes(LINK_KEY_BYTES), party, now=now(), until=until
            ):
                write_link(data, role, party, secret)
    except OSError as error:
        raise UsageError(f"{link_file(data, REGISTRY, party)}: {error.strerror}") from error
    return until


def link_steps(
    gateway: LinkSecret, node: LinkSecret, fresh: bytes, party: PartyId, *, now: float, until: float
) -> list[tuple[str, LinkSecret]]:
    """Return the files to write, in order, from where the last change ended: (role, secret).

    Args:
        gateway, node: what the two ends have.
        fresh: the new key, if none has been given to the MPC node yet.
        until: when the old key is not accepted any more.

    Raises:
        UsageError: the ends do not fit, or the last change is not over, and this one has a grace.
    """
    role, old, other = ROLES[party], gateway.keys.key, node.keys.other
    if gateway.deployment != node.deployment or old not in (node.keys.key, other):
        raise UsageError(
            f"the .link files of the gateway and the {role} do not fit: put back folders that "
            "belong together"
        )
    if other is not None and now < node.keys.until < math.inf and until > now:
        left = math.ceil(node.keys.until - now)
        raise UsageError(
            f"the last change of this link is over in {left} seconds: wait for that, or change the "
            "key once more with --grace 0, which ends it"
        )
    accepting = other is not None and node.keys.until == math.inf
    if accepting and old == other:  # the gateway uses it already
        steps, new, old = [], old, node.keys.key
    else:
        new = other if accepting and other is not None else fresh
        steps = [
            (role, replace(node, keys=LinkKeys(old, new))),
            (REGISTRY, replace(gateway, keys=LinkKeys(new))),
        ]
    return [*steps, (role, replace(node, keys=LinkKeys(new, old, until)))]


def replace_lost_seal_key(data: Path, party: PartyId, rng: Rng) -> int:
    """Give an MPC node that has lost its seal key another one; it must not run.

    Whoever can do this has the node's store, and gains nothing by it: what was sealed to the lost
    key opens no more, for anybody.

    Returns:
        Of how many shares the key has to be recovered.

    Raises:
        UsageError: the node runs, there is no store, it cannot be used, or its seal key is there.
    """
    path = _existing_store(data, ROLES[party])
    try:
        with claim_folder(path.parent), closing(ShareStore(path, time.time)) as store:
            return store.keys.replace_seal_key(rng)
    except StoreFailed as error:
        raise UsageError(str(error)) from error


def _existing_store(data: Path, role: str) -> Path:
    """A service's store, if there is one."""
    path = store_file(data, role)
    if not (path.is_file() and path.stat().st_size):
        raise UsageError(f"{path}: there is no such store (--data names another folder)")
    return path


@contextmanager
def _lock_links(folder: Path) -> Iterator[None]:
    """Lock the link files of a folder against other changes; their users are not disturbed."""
    held = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield
    finally:
        os.close(held)
