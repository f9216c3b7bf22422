"""Whether the three stores fit together: looked at before the first request.

``gateway.sqlite`` (the registry), ``operator.sqlite`` and ``institution.sqlite`` belong together,
but files are lost, and restored from backups of different days. What is found at the start:

========================  =======================================  ================================
What is wrong             How it is seen                           What happens
========================  =======================================  ================================
damaged, truncated        SQLite's own check                       no start
of another deployment     another deployment's name in it; in one  no start
                          without a name: no user of the others
another store's file      another role in it                       no start
missing or empty          no users or shares, while others have    ERROR; the keys without shares
                          some                                     cannot be used; none is made if
                                                                   one MPC node's file alone is it
registry older, users     both MPC nodes hold another set of       WARNING; **the registry follows
known to it               shares of the registered key (by their   the MPC nodes**, and all keys
                          count of recoveries no older), or of a   work
                          key it lacks; at one at least in force
registry older, key just  votes that it never asked for            WARNING; the voted shares stay
made as the MPC nodes                                              until the key is next generated
were cut off                                                       or recovered
registry older, user      shares of a user it does not have        ERROR; these keys cannot be used
unknown to it
one MPC node older        its share of a key is of fewer           ERROR; these keys cannot be used
                          recoveries than registered, or missing
one MPC node newer,       its share is of more recoveries, or of   ERROR; these keys cannot be used
the other two older       a key that the others lack
both MPC nodes older      as for one                               ERROR; these keys cannot be used
========================  =======================================  ================================

What is newer than the others is seen as the others being older. An ERROR says which file, for how
many keys and users, and what to do: stop the gateway, remove ``FILE-wal`` and ``FILE-shm`` if they
are there, put the right file back, start. No share is dropped for a key that does not fit, and none
of it is settled, until then: with the right files back everything works as before. Other keys work.

No start means one sentence and exit; nothing but a missing file has been made by then.

What cannot be seen: that an MPC node's older store brings back a share that had been suspended, or
multiplication state that had been discarded, since. Recover the keys of which this may be true.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Final

from mpcsim.gateway.registry import RegisteredKey, Registry
from mpcsim.ids import MPC_NODES, ROLES, PartyId
from mpcsim.rpc.database import REGISTRY, file_of
from mpcsim.rpc.holdings import ACTIVE, PREPARED, VOTED, Holding
from mpcsim.sim.rich_display import counted

LOG = logging.getLogger(__name__)

EXAMPLES: Final = 3
"""Keys named in a line of the log."""

# What an MPC node may hold in place of the share that is wanted.
NO_SHARE: Final = "no share of this key"
OLDER: Final = "an older share of this key"
NEWER: Final = "a newer share of this key"
ANOTHER: Final = "another share of this key"
ANOTHER_KEY: Final = "a share of another key"
MISSING: Final = " (the file was missing or empty)"

At = tuple[str, str]
"""User and curve."""


# ---------------------------------------------------------------------- what they hold


@dataclass(frozen=True)
class Fit:
    """What is to be done about keys that do not fit."""

    follow: list[RegisteredKey] = field(default_factory=list)
    """Keys to be registered as both MPC nodes hold them."""
    misfits: set[At] = field(default_factory=set)
    """Keys that cannot be used; their shares must not be touched."""
    unsettled: list[At] = field(default_factory=list)
    """Keys with shares of which the MPC nodes are to be told whether they are in force."""


@dataclass
class _Key:
    """What is known of a user's key on a curve."""

    registered: RegisteredKey | None = None
    intended: str | None = None
    """The ``key_id`` that the registry last asked the MPC nodes to vote for."""
    held: dict[PartyId, list[Holding]] = field(
        default_factory=lambda: {party: [] for party in MPC_NODES}
    )


@dataclass(frozen=True)
class _Misfit:
    """Why a key cannot be used, and which files are at fault."""

    text: str
    files: tuple[str, ...]


def compare(registry: Registry, held: Mapping[PartyId, Collection[Holding]]) -> Fit:
    """Compare the registry with what the MPC nodes hold, and log what does not fit.

    It changes nothing, and looks at no share.
    """
    users = registry.user_ids()
    keys: dict[At, _Key] = defaultdict(_Key)
    taken = set()
    for registered in registry.all_keys():
        keys[registered.user_id, registered.curve].registered = registered
        taken.add(registered.key_id)
    for at, key_id in registry.intended().items():
        keys[at].intended = key_id
    empty = {party for party in MPC_NODES if not held[party]}
    for party in MPC_NODES:
        for holding in held[party]:
            keys[holding.user_id, holding.curve].held[party].append(holding)
    fit = Fit()
    misfits: dict[_Misfit, list[At]] = defaultdict(list)
    alone: list[At] = []
    for at, key in keys.items():
        if at[0] not in users:
            if any(map(_counting, key.held.values())):
                misfits[_unknown_user(key, bool(users))].append(at)
        elif _in_line(key):
            if _left_alone(key):
                alone.append(at)
            elif _undecided(key):
                fit.unsettled.append(at)
        elif (agreed := _agreed(key)) and agreed.key_id not in taken:
            fit.follow.append(agreed)
            if _undecided(key):
                fit.unsettled.append(at)
        else:
            misfits[_misfit(key, empty)].append(at)
    for misfit, places in misfits.items():
        fit.misfits.update(places)
        LOG.error(
            "%s: %s cannot be used: %s. Nothing is dropped: stop the gateway and put the right "
            "%s back. %s",
            ", ".join(misfit.files),
            _how_many(places),
            misfit.text,
            "file" if len(misfit.files) == 1 else "files",
            _examples(places),
        )
    if alone:
        LOG.warning(
            "%s: it may be older than the MPC nodes' stores, which have votes for %s that it never "
            "asked for. If so, put the right file back before these are generated or recovered. %s",
            file_of(REGISTRY),
            _how_many(alone),
            _examples(alone),
        )
    if followed := [(key.user_id, key.curve) for key in fit.follow]:
        LOG.warning(
            "%s: older than the MPC nodes' stores, which agree on other shares of %s; it follows "
            "them. %s",
            file_of(REGISTRY),
            _how_many(followed),
            _examples(followed),
        )
    return fit


def _in_line(key: _Key) -> bool:
    """Whether the MPC nodes' stores can be made to agree with the registry, and nothing is lost."""
    if key.registered is None:
        return not any(map(_active, key.held.values()))
    return all(_instead(shares, key.registered) is None for shares in key.held.values())


def _agreed(key: _Key) -> RegisteredKey | None:
    """What to register, if the registry is older than both MPC nodes' stores.

    At one of them at least the shares are in force: the registry had them before. What both have
    only voted for may have been refused since.
    """
    for present in map(_active, key.held.values()):
        if present is None:
            continue
        known = key.registered or RegisteredKey(
            present.user_id, present.curve, present.key_id, present.public_key, ""
        )
        found = replace(known, key_id=present.key_id, recoveries=present.recoveries)
        if found.recoveries >= known.recoveries and not any(
            _instead(shares, found) for shares in key.held.values()
        ):
            return found
    return None


def _instead(shares: Iterable[Holding], wanted: RegisteredKey) -> str | None:
    """What an MPC node holds that cannot have a share in force; None if it can, or has it."""
    mine = next((h for h in _counting(shares) if h.key_id == wanted.key_id), None)
    present = _active(shares) or mine
    if present is None:
        return NO_SHARE
    if present.public_key != wanted.public_key:
        return ANOTHER_KEY
    if present.recoveries > wanted.recoveries:
        return NEWER
    if mine is not None:
        return None
    return OLDER if present.recoveries < wanted.recoveries else ANOTHER


def _undecided(key: _Key) -> bool:
    return any(h.state != ACTIVE for shares in key.held.values() for h in shares)


def _left_alone(key: _Key) -> bool:
    """Whether an MPC node has voted for newer shares, and not for this registry: they may be in
    force by the one that is lost. They go when the key is next made or recovered."""
    newest = key.registered.recoveries if key.registered else -1
    return any(
        h.state == VOTED and h.recoveries > newest and h.key_id != key.intended
        for shares in key.held.values()
        for h in shares
    )


def _counting(shares: Iterable[Holding]) -> list[Holding]:
    """Those that may be in force: both MPC nodes have voted before that."""
    return [h for h in shares if h.state != PREPARED]


def _active(shares: Iterable[Holding]) -> Holding | None:
    return next((h for h in shares if h.state == ACTIVE), None)


# ---------------------------------------------------------------------- what the log says


def _misfit(key: _Key, empty: AbstractSet[PartyId]) -> _Misfit:
    registered = key.registered
    if registered is None:
        here = [ROLES[party] for party, shares in key.held.items() if _active(shares)]
        if len(here) == len(MPC_NODES):
            text = "the MPC nodes hold shares of different keys, and neither is registered"
            return _Misfit(text, _files(REGISTRY, *here))
        others = [ROLES[party] for party in MPC_NODES if ROLES[party] not in here]
        text = f"the {here[0]} alone holds a share of this key, and it is not registered"
        return _Misfit(text, _files(REGISTRY, *others))
    found = {party: _instead(shares, registered) for party, shares in key.held.items()}
    text = " and ".join(
        f"the {ROLES[party]} holds {what}{MISSING if party in empty else ''}"
        for party, what in found.items()
        if what
    )
    if NEWER in found.values():  # so the others are older
        behind = [ROLES[party] for party, what in found.items() if what != NEWER]
        return _Misfit(text, _files(REGISTRY, *(behind or map(ROLES.__getitem__, MPC_NODES))))
    return _Misfit(text, _files(*(ROLES[party] for party, what in found.items() if what)))


def _unknown_user(key: _Key, any_users: bool) -> _Misfit:
    absent = [ROLES[party] for party, shares in key.held.items() if not _counting(shares)]
    text = f"{file_of(REGISTRY)} does not know the users{'' if any_users else MISSING}"
    return _Misfit(text, _files(REGISTRY, *absent))


def _files(*roles: str) -> tuple[str, ...]:
    return tuple(map(file_of, roles))


def _how_many(places: Collection[At]) -> str:
    users = {user_id for user_id, _ in places}
    return f"{counted(len(places), 'key')} of {counted(len(users), 'user')}"


def _examples(places: Iterable[At]) -> str:
    named = [f"{curve} key of user {user_id}" for user_id, curve in islice(places, EXAMPLES)]
    return "For example: " + ", ".join(named)
