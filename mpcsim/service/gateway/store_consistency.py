"""Consistency of the registry with both MPC nodes' stores, checked before the first request.

``gateway.sqlite`` (the registry), ``operator.sqlite`` and ``institution.sqlite`` belong together,
but files get lost, and are restored from backups of different days. The check lists every share
(``compare``), has ``activation`` resolve the keys that are not simply in order, and logs the rest.

**No start**, because the file cannot be the right one:

- SQLite's own check says that it is damaged or truncated;
- it bears another deployment's name, or another store's role.

**Resolved**, with a WARNING, because what both MPC nodes have signed decides; the keys work:

- The registry is older, and knows the user: both MPC nodes hold a newer record that both have
  signed. The registry follows it.
- The registry's record of a key is damaged: its signatures do not verify when the key is first
  used. The registry takes the MPC nodes' record.
- One MPC node alone has voted for a share: both other files are older, the key was just made, or a
  session was cut off. The voted share stays until the key is next generated or recovered.

**Left as it is**, with an ERROR, because nobody follows one file alone; these keys cannot be used:

- The registry is older, and does not know the user of a share.
- One MPC node, or both, is older: its share is of fewer recoveries than registered, or missing.
  After ``mpcsim restore`` of one, the share that a newer one replaced goes.
- One MPC node is newer: what registry and other node hold is older, or missing.
- A file is missing or empty while others have users or shares. If it is one MPC node's alone, no
  new key is made either: the node's identity is gone, and the other node makes none with another.

Votes that a stop has left open are no inconsistency: with both, the key comes into force. An ERROR
names the files, how many keys and users, and the remedy: stop the service, put the right backup
back (``mpcsim restore``; of a mere file, remove ``FILE-wal`` and ``FILE-shm`` first if they are
there), start. With the right files back everything works as before; meanwhile other keys work.

No start means one sentence and exit; nothing but a missing file has been created by then.

The sibling modules: ``mpc_node.agreement.restore_reconciliation`` lets a restored MPC node learn
what it has forgotten (done here at once for the keys to resolve), ``diagnosis`` says of one key at
any time what is wrong (``mpcsim doctor``).

The check cannot see that an MPC node's file was replaced by an older one in any other way than
``mpcsim restore``. Then a share comes back that had been suspended since, or multiplication state
that had been discarded: recover the keys that may be affected. A suspension that the lost store
alone knew is lost with it, unless another part had been told. A log of key events that is older
than the other node has seen it is reported by ``mpcsim events --verify``.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from mpcsim.ids import MPC_NODES, ROLES, PartyId
from mpcsim.service.gateway.registry import RegisteredKey, Registry
from mpcsim.service.rpc.activation_messages import ACTIVE, PREPARED, ShareInfo
from mpcsim.service.storage.database import file_of
from mpcsim.service.storage.roles import REGISTRY
from mpcsim.sim.rich_display import counted

LOG = logging.getLogger(__name__)

EXAMPLES: Final = 3
"""Number of keys that a log line names."""

# Descriptions of what an MPC node holds instead of the registered share.
NO_SHARE: Final = "no share of this key"
OLDER: Final = "an older share of this key"
NEWER: Final = "a newer share of this key"
ANOTHER: Final = "another share of this key"
ANOTHER_KEY: Final = "a share of another key"
MISSING: Final = " (the file was missing or empty)"

UserCurve = tuple[str, str]
"""User id and curve name."""


# ---------------------------------------------------------------------- comparison


@dataclass
class KnownKey:
    """A user's key on a curve, as the registry and both MPC nodes have it."""

    registered: RegisteredKey | None = None
    held: dict[PartyId, list[ShareInfo]] = field(
        default_factory=lambda: {party: [] for party in MPC_NODES}
    )


@dataclass(frozen=True)
class Inconsistency:
    """Reason why a key cannot be used, and the files at fault."""

    text: str
    files: tuple[str, ...]
    older: bool = True
    """Whether newer backups of ``files`` help; else they belong to another history."""


class ConsistencyCheck:
    """Result of a comparison: keys to resolve, outcomes of that, and a report."""

    def __init__(self, keys: dict[UserCurve, KnownKey], users: AbstractSet[str]) -> None:
        self._keys = keys
        self._empty = {p for p in MPC_NODES if not any(key.held[p] for key in keys.values())}
        self._inconsistencies: dict[Inconsistency, list[UserCurve]] = defaultdict(list)
        self._registry_older: list[UserCurve] = []
        self._votes_alone: list[UserCurve] = []
        self.to_resolve: list[UserCurve] = []
        """Keys of known users for which the MPC nodes do not hold exactly the registered share, in
        force at both."""
        for at, key in keys.items():
            if at[0] in users:
                if not _is_consistent(key):
                    self.to_resolve.append(at)
            elif any(map(_voted_or_active, key.held.values())):
                self._inconsistencies[_unknown_user(key, bool(users))].append(at)

    def record_outcome(
        self, at: UserCurve, registered: RegisteredKey | None, consistent: bool, lone_vote: bool
    ) -> None:
        """Record what resolving a key has led to.

        Args:
            registered: the key as the registry has it now.
            consistent: whether both MPC nodes hold its shares in force.
            lone_vote: whether one node has voted for newer shares and the other has not.
        """
        key = self._keys[at]
        before, key.registered = key.registered, registered
        # The registry stores a record before either node activates it: one that was active already
        # and is new to the registry shows that the registry is older.
        if registered is not None and (before is None or before.key_id != registered.key_id):
            active = filter(None, map(_active, key.held.values()))
            if any(present.key_id == registered.key_id for present in active):
                self._registry_older.append(at)
        if not consistent:
            self._inconsistencies[inconsistency_of(key, self._empty)].append(at)
        elif lone_vote:
            self._votes_alone.append(at)

    def report(self) -> None:
        """Log all inconsistencies, one line for each kind."""
        for found, places in self._inconsistencies.items():
            LOG.error(
                "%s: %s cannot be used: %s. Nothing is dropped: stop the service and put the right "
                "%s back (mpcsim restore). %s",
                ", ".join(found.files),
                _how_many(places),
                found.text,
                "file" if len(found.files) == 1 else "files",
                _examples(places),
            )
        if self._votes_alone:
            LOG.warning(
                "one MPC node alone has voted for newer shares of %s: a session that was cut off, "
                "or the other stores are older. If so, put the right files back before these are "
                "generated or recovered. %s",
                _how_many(self._votes_alone),
                _examples(self._votes_alone),
            )
        if self._registry_older:
            LOG.warning(
                "%s: older than the MPC nodes' stores, which have newer records of %s; it follows "
                "them. %s",
                file_of(REGISTRY),
                _how_many(self._registry_older),
                _examples(self._registry_older),
            )


def compare(registry: Registry, held: Mapping[PartyId, Collection[ShareInfo]]) -> ConsistencyCheck:
    """Compare the registry with what the MPC nodes say they hold. Nothing is changed."""
    keys: dict[UserCurve, KnownKey] = defaultdict(KnownKey)
    for registered in registry.all_keys():
        keys[registered.user_id, registered.curve].registered = registered
    for party in MPC_NODES:
        for holding in held[party]:
            keys[holding.user_id, holding.curve].held[party].append(holding)
    return ConsistencyCheck(keys, registry.user_ids())


def _is_consistent(key: KnownKey) -> bool:
    wanted = {(key.registered.key_id, ACTIVE)} if key.registered else set()
    return all(
        {(h.key_id, h.state) for h in _voted_or_active(k)} == wanted for k in key.held.values()
    )


def _held_instead(shares: Iterable[ShareInfo], wanted: RegisteredKey) -> str | None:
    """Describe what an MPC node holds instead of the registered share; None: that share, or one
    that activation can still bring into force."""
    wanted_share = next((h for h in _voted_or_active(shares) if h.key_id == wanted.key_id), None)
    present = _active(shares) or wanted_share
    if present is None:
        return NO_SHARE
    if present.public_key != wanted.public_key:
        return ANOTHER_KEY
    if present.recoveries > wanted.recoveries:
        return NEWER
    if wanted_share is not None:
        return None
    return OLDER if present.recoveries < wanted.recoveries else ANOTHER


def _voted_or_active(shares: Iterable[ShareInfo]) -> list[ShareInfo]:
    """Select shares in force or voted for: prepared ones may still vanish."""
    return [h for h in shares if h.state != PREPARED]


def _active(shares: Iterable[ShareInfo]) -> ShareInfo | None:
    return next((h for h in shares if h.state == ACTIVE), None)


# ---------------------------------------------------------------------- reasons


def inconsistency_of(key: KnownKey, empty: AbstractSet[PartyId]) -> Inconsistency:
    """Explain why a key whose shares are inconsistent cannot be used.

    Args:
        empty: MPC nodes without any shares.
    """
    registered = key.registered
    if registered is None:
        active = {p: present for p, held in key.held.items() if (present := _active(held))}
        holders = [ROLES[party] for party in active]
        if len(holders) == len(MPC_NODES) and len({one.public_key for one in active.values()}) == 1:
            last = ROLES[min(active, key=lambda party: active[party].recoveries)]
            text = f"the {last} holds {OLDER}, and it is not registered"
            return Inconsistency(text, _files(REGISTRY, last))
        if len(holders) == len(MPC_NODES):
            text = "the MPC nodes hold shares of different keys, and neither is registered"
            return Inconsistency(text, _files(REGISTRY, *holders), older=False)
        if not holders:
            text = "the MPC nodes do not say twice the same about what they hold"
            return Inconsistency(text, _files(*map(ROLES.__getitem__, MPC_NODES)), older=False)
        others = [ROLES[party] for party in MPC_NODES if ROLES[party] not in holders]
        text = f"the {holders[0]} alone holds a share of this key, and it is not registered"
        return Inconsistency(text, _files(REGISTRY, *others))
    found = {party: _held_instead(shares, registered) for party, shares in key.held.items()}
    text = " and ".join(
        f"the {ROLES[party]} holds {what}{MISSING if party in empty else ''}"
        for party, what in found.items()
        if what
    )
    if NEWER in found.values():  # so the others are older
        behind = [ROLES[party] for party, what in found.items() if what != NEWER]
        return Inconsistency(text, _files(REGISTRY, *(behind or map(ROLES.__getitem__, MPC_NODES))))
    if not text:
        files = _files(*map(ROLES.__getitem__, MPC_NODES))
        return Inconsistency("the MPC nodes do not agree on its record", files, older=False)
    older = not {ANOTHER, ANOTHER_KEY} & {*found.values()}
    return Inconsistency(
        text, _files(*(ROLES[party] for party, what in found.items() if what)), older
    )


def _unknown_user(key: KnownKey, any_users: bool) -> Inconsistency:
    absent = [ROLES[party] for party, shares in key.held.items() if not _voted_or_active(shares)]
    text = f"{file_of(REGISTRY)} does not know the users{'' if any_users else MISSING}"
    return Inconsistency(text, _files(REGISTRY, *absent))


def _files(*roles: str) -> tuple[str, ...]:
    return tuple(map(file_of, roles))


def _how_many(places: Collection[UserCurve]) -> str:
    users = {user_id for user_id, _ in places}
    return f"{counted(len(places), 'key')} of {counted(len(users), 'user')}"


def _examples(places: Iterable[UserCurve]) -> str:
    named = [f"{curve} key of user {user_id}" for user_id, curve in islice(places, EXAMPLES)]
    return "For example: " + ", ".join(named)
