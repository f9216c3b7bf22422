"""Diagnosis of one user's key from three statements: the registry's and both MPC nodes'. No I/O.

``diagnose`` compares the statements and returns a ``Finding`` with a list of problems. Which shares
are in force it asks ``activation.decision``, which store is older ``store_consistency``. A node's
statement counts only with a signature under the identity of its hello.

    ==================== ===================================== ====================================
    ``ProblemKind``      Evidence                              Remedy
    ==================== ===================================== ====================================
    ``UNHEARD``          a part does not answer, or is another get it to answer
    ``FORGED``           a node has not signed what it says    find out who answers
    ``STRANGER``         a record names another identity       put its own store back
    ``UNMERGED``         restored, and not told by the other   have both answer the gateway
    ``RECORD_DAMAGED``   its signatures do not verify          repair
    ``REGISTRY_OLDER``   a newer record, held by both nodes    repair
    ``KEY_UNKNOWN``      the same, and the registry has none   repair
    ``USER_UNKNOWN``     the same, and no user either          repair, with the user's name
    ``STORE_OLDER``      a node's share is older, or missing   put a newer backup of that store back
    ``AT_ODDS``          shares of different keys or records   put back stores that belong together
    ``SEAL_KEY_LOST``    a share is from before that was lost  recover the key
    ``SUSPENDED``        a node or the registry says so        recover the key
    ``VOTE_ALONE``       one node has voted, and not the other the next making of it ends the vote
    ``NOT_YET_IN_FORCE`` both have voted, and were not told    start the gateway, or use the key
    ==================== ===================================== ====================================
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from mpcsim.errors import InvalidEncoding
from mpcsim.ids import MPC_NODES, ROLES, PartyId
from mpcsim.service.gateway import store_consistency
from mpcsim.service.gateway.activation.decision import Decision
from mpcsim.service.gateway.registry import RegisteredKey
from mpcsim.service.rpc.activation_messages import ACTIVE, VOTED, ActivationState, ShareInfo
from mpcsim.service.rpc.statements import ReconciliationStatement, SignedRecord
from mpcsim.service.storage.database import file_of
from mpcsim.service.storage.roles import REGISTRY

_REPAIR: Final = "mpcsim doctor --repair has it follow them"


class ProblemKind(Enum):
    """Kinds of problems, with the names that ``mpcsim doctor --json`` prints."""

    UNHEARD = "unheard"
    FORGED = "forged"
    STRANGER = "stranger"
    UNMERGED = "unmerged"
    RECORD_DAMAGED = "record-damaged"
    REGISTRY_OLDER = "registry-older"
    KEY_UNKNOWN = "key-unknown"
    USER_UNKNOWN = "user-unknown"
    STORE_OLDER = "store-older"
    AT_ODDS = "at-odds"
    SEAL_KEY_LOST = "seal-key-lost"
    SUSPENDED = "suspended"
    VOTE_ALONE = "vote-alone"
    NOT_YET_IN_FORCE = "not-yet-in-force"


BOTH_RESTORED: Final = 2
"""``ReconciliationStatement.restored`` of a store restored with ``--other-restored-too``."""


@dataclass(frozen=True)
class Problem:
    """Problem with a key, and its remedy."""

    kind: ProblemKind
    text: str
    advice: str


@dataclass(frozen=True)
class NodeStatement:
    """Signed statement of an MPC node about a key, its signature already verified."""

    identity: bytes
    statement: ReconciliationStatement
    seal_number: int | None = None
    """Number of the node's seal key, from its hello; None: not known."""

    def share_inventory(self) -> Iterator[ShareInfo]:
        """Return the node's shares that are in force, or have been voted for."""
        node = self.statement
        for state, held in ((ACTIVE, node.active), (VOTED, node.voted)):
            if held is not None:
                at = node.user_id, node.curve_name
                yield ShareInfo(held.epoch.hex(), *at, held.public_key, state, held.number)


@dataclass(frozen=True)
class Case:
    """Input of a diagnosis: everything known about a user's key on a curve."""

    user_id: str
    curve: str
    username: str | None
    """Name of the user; None: the registry does not know the user."""
    registered: RegisteredKey | None
    suspended: AbstractSet[str] = frozenset()
    """Key ids of the user's that the registry remembers as suspended."""
    nodes: Mapping[PartyId, NodeStatement | Problem] = field(default_factory=dict)
    """Statement of each MPC node, or the reason why there is none."""
    empty: AbstractSet[PartyId] = frozenset()
    """MPC nodes without any shares."""
    identities: Mapping[PartyId, bytes] = field(default_factory=dict)
    """Identities of the MPC nodes, as the records of other keys name them."""


@dataclass(frozen=True)
class Finding:
    """Result of a diagnosis."""

    user_id: str
    username: str | None
    curve: str
    key_id: str | None
    """Epoch of the shares in force, as far as can be told; None: none are."""
    problems: tuple[Problem, ...]
    """Empty: all three stores are consistent."""
    notes: tuple[Problem, ...] = ()
    """Problems that end by themselves when the key is next used."""
    newer: SignedRecord | None = field(default=None, repr=False)
    """Record that a repair writes to the registry: signed by both known MPC nodes, and in force at
    both. A record that both have only voted for is left to the gateway."""


def diagnose(case: Case) -> Finding:
    """Compare the statements about a key."""
    statements = {
        party: node for party, node in case.nodes.items() if isinstance(node, NodeStatement)
    }
    problems = [node for node in case.nodes.values() if isinstance(node, Problem)]
    mismatches = [
        _identity_mismatch(party, party in case.empty)
        for party in _identity_mismatches(case, statements)
    ]
    decision = _decision_of(case, statements)
    newer = decision.record_to_store if len(statements) == len(MPC_NODES) else None
    key = store_consistency.KnownKey(
        _key_after_repair(case, newer),
        {party: list(node.share_inventory()) for party, node in statements.items()},
    )
    in_force = key.registered.key_id if key.registered else None
    if mismatches or not _is_active_at_both(newer, statements):
        newer = None
    problems += mismatches
    unmerged = [*_unmerged_problems(statements)]
    problems += [problem for problem, blocks_key in unmerged if blocks_key]
    if not mismatches:
        problems += _registry_problems(case, newer)
        problems += _share_problems(case, decision, key, statements)
    problems += _seal_key_problems(statements, in_force)
    problems += _suspension_problems(case, statements, in_force)
    notes = tuple(problem for problem, blocks_key in unmerged if not blocks_key)
    return Finding(case.user_id, case.username, case.curve, in_force, tuple(problems), notes, newer)


# ---------------------------------------------------------------------- what is in force


def _decision_of(case: Case, statements: Mapping[PartyId, NodeStatement]) -> Decision:
    """Return which shares are in force, from the statements alone: nothing is asked."""
    identities = identities_in(case.registered) | {
        party: node.identity for party, node in statements.items()
    }
    decision = Decision(case.user_id, case.curve, identities, case.registered, aborting=False)
    for party, node in statements.items():
        decision.take_state(
            party,
            ActivationState(node.statement.active, node.statement.voted),
        )
    return decision


def _is_active_at_both(
    newer: SignedRecord | None, statements: Mapping[PartyId, NodeStatement]
) -> bool:
    """Return whether every node says that these shares are in force."""
    active = [node.statement.active for node in statements.values()]
    return newer is not None and all(
        held is not None and held.epoch == newer.record.epoch for held in active
    )


def _key_after_repair(case: Case, newer: SignedRecord | None) -> RegisteredKey | None:
    """Return the key as the registry will have it once it has followed the MPC nodes."""
    if newer is None:
        return case.registered
    record = newer.record
    return RegisteredKey(
        case.user_id, case.curve, record.key_id, record.public_key, "", record.number
    )


def identities_in(registered: RegisteredKey | None) -> dict[PartyId, bytes]:
    """Return the MPC nodes' identities in a registered record; none if it cannot be read."""
    if registered is None or registered.record is None:
        return {}
    try:
        found = SignedRecord.from_bytes(registered.record).record.identities
    except InvalidEncoding:
        return {}
    return {party: found[party] for party in MPC_NODES if party in found}


def _identity_mismatches(case: Case, statements: Mapping[PartyId, NodeStatement]) -> list[PartyId]:
    """Return the nodes with another identity than a record of the registry or the other node
    names."""
    records = [dict(case.identities), identities_in(case.registered)]
    records += [
        dict(held.record.record.identities)
        for node in statements.values()
        for held in (node.statement.active, node.statement.voted)
        if held is not None
    ]
    return [
        party
        for party, node in statements.items()
        if any(record.get(party, node.identity) != node.identity for record in records)
    ]


# ---------------------------------------------------------------------- problems


def _identity_mismatch(party: PartyId, empty: bool) -> Problem:
    role = ROLES[party]
    return Problem(
        ProblemKind.STRANGER,
        f"the {role} that answers has another identity than the one that made the keys"
        + (store_consistency.MISSING if empty else ""),
        f"put a backup of its own {file_of(role)} back, or correct {role.upper()}_URL: nobody else "
        "can use its shares",
    )


def _unmerged_problems(
    statements: Mapping[PartyId, NodeStatement],
) -> Iterator[tuple[Problem, bool]]:
    """Yield each store that was restored and has not merged this key since, and whether that
    blocks the key: usually the next use merges it."""
    for party, node in statements.items():
        (other,) = set(MPC_NODES) - {party}
        if not node.statement.restored:
            continue
        text = (
            f"the {ROLES[party]}'s store was put back, and has not heard from the {ROLES[other]} "
            "what has become of this key since"
        )
        advice, blocks_key = _merge_advice(node, other, statements.get(other))
        yield Problem(ProblemKind.UNMERGED, text, advice), blocks_key


def _merge_advice(
    node: NodeStatement, other: PartyId, witness: NodeStatement | None
) -> tuple[str, bool]:
    """Return how a restored store can merge a key, and whether something blocks that."""
    if witness is None:
        return f"start the {ROLES[other]}: without it, the key cannot be used", True
    both = {node.statement.restored, witness.statement.restored}
    if witness.statement.restored and BOTH_RESTORED not in both:
        return (
            "so was the other's, and neither can tell: put back the newer backup of one of the two "
            "once more, with --other-restored-too",
            True,
        )
    voted = witness.statement.voted
    if voted is not None and voted.epoch.hex() not in {h.key_id for h in node.share_inventory()}:
        return (
            f"the {ROLES[other]} has voted for newer shares, as this one may have, too: recover "
            "the key",
            True,
        )
    return "that happens when the key is next used", False


def _registry_problems(case: Case, newer: SignedRecord | None) -> Iterator[Problem]:
    """Yield what the registry lacks or has wrong."""
    file = file_of(REGISTRY)
    if case.username is None:
        yield Problem(
            ProblemKind.USER_UNKNOWN,
            f"{file} does not know the user",
            f"mpcsim doctor --repair --name {case.user_id}=NAME signs the user up again; only your "
            "backend knows the name",
        )
    elif case.registered is not None and case.registered.damaged:
        again = _REPAIR if newer else f"put a backup of {file} back"
        yield Problem(
            ProblemKind.RECORD_DAMAGED, f"the record of this key in {file} is damaged", again
        )
    elif newer is not None and case.registered is None:
        yield Problem(
            ProblemKind.KEY_UNKNOWN,
            f"{file} does not know this key, which both MPC nodes hold",
            _REPAIR,
        )
    elif newer is not None:
        text = f"{file} is older: both MPC nodes have a newer record of this key"
        yield Problem(ProblemKind.REGISTRY_OLDER, text, _REPAIR)


def _share_problems(
    case: Case,
    decision: Decision,
    key: store_consistency.KnownKey,
    statements: Mapping[PartyId, NodeStatement],
) -> Iterator[Problem]:
    """Yield problems of the nodes that were heard: they do not hold the shares in force."""
    wanted, both = key.registered, len(statements) == len(MPC_NODES)
    if not both and (wanted is None or wanted.damaged or _has_newer_share(statements, wanted)):
        return  # one node alone cannot say which shares are in force
    found = {party: _state_of_registered_share(node, wanted) for party, node in statements.items()}
    states = {*found.values()}
    if wanted is None:
        settled = not any(node.statement.active for node in statements.values())
    else:
        settled = states <= {ACTIVE} and _is_signed_by_both(wanted, decision)
    if settled:
        if both and decision.has_lone_vote:
            yield _lone_vote(statements, wanted)
    elif wanted is not None and states <= {ACTIVE, VOTED} and VOTED in states:
        yield Problem(
            ProblemKind.NOT_YET_IN_FORCE,
            "both MPC nodes have voted for these shares, and have not been told of it",
            "the gateway's next start, or the next use of the key, brings them into force",
        )
    else:
        inconsistency = store_consistency.inconsistency_of(key, case.empty & statements.keys())
        yield Problem(
            ProblemKind.STORE_OLDER if inconsistency.older else ProblemKind.AT_ODDS,
            inconsistency.text,
            _restore_advice(inconsistency),
        )


def _has_newer_share(statements: Mapping[PartyId, NodeStatement], wanted: RegisteredKey) -> bool:
    """Return whether an MPC node holds newer shares in force than the registered ones."""
    active = [node.statement.active for node in statements.values()]
    return any(held is not None and held.number > wanted.recoveries for held in active)


def _state_of_registered_share(node: NodeStatement, wanted: RegisteredKey | None) -> str | None:
    """Return the state in which a node holds the registered share; None: it does not."""
    for holding in node.share_inventory():
        if wanted is not None and holding.key_id == wanted.key_id:
            return holding.state if holding.public_key == wanted.public_key else None
    return None


def _is_signed_by_both(wanted: RegisteredKey, decision: Decision) -> bool:
    """Return whether both nodes' signatures put the registered shares in force."""
    return decision.record is not None and decision.record.record.key_id == wanted.key_id


def _lone_vote(
    statements: Mapping[PartyId, NodeStatement], wanted: RegisteredKey | None
) -> Problem:
    voters = [ROLES[party] for party, node in statements.items() if node.statement.voted]
    who = " and ".join(f"the {role}" for role in voters)
    again = "recovery" if wanted else "generation"
    return Problem(
        ProblemKind.VOTE_ALONE,
        f"{who} alone {'has' if len(voters) == 1 else 'have'} voted for newer shares of this key: a"
        " session that was cut off, or the other stores are older",
        f"if a store is older, put the right one back first; otherwise the next {again} ends it",
    )


def _restore_advice(inconsistency: store_consistency.Inconsistency) -> str:
    files = " and ".join(inconsistency.files)
    which = "a newer backup" if inconsistency.older else "the right backup"
    return (
        f"put {which} of {files} back (mpcsim restore): nothing is dropped, and the key is not lost"
    )


def _seal_key_problems(
    statements: Mapping[PartyId, NodeStatement], in_force: str | None
) -> Iterator[Problem]:
    """Yield MPC nodes that cannot open what was sealed to them when the shares were made."""
    for party, node in statements.items():
        held = node.statement.active
        if node.seal_number is None or held is None or held.epoch.hex() != in_force:
            continue
        if held.record.seal_numbers.get(party) != node.seal_number:
            yield Problem(
                ProblemKind.SEAL_KEY_LOST,
                f"the {ROLES[party]} has lost the seal key that this key's secret_store is sealed"
                " to, and has another one",
                "recover the key (POST /v3/wallet/recover): until then it does not sign",
            )


def _suspension_problems(
    case: Case, statements: Mapping[PartyId, NodeStatement], in_force: str | None
) -> Iterator[Problem]:
    where = [
        ROLES[party]
        for party, node in statements.items()
        if in_force in {epoch.hex() for epoch in node.statement.suspended}
    ]
    if in_force in case.suspended:
        where.insert(0, REGISTRY)
    if where:
        text = f"this key is suspended at the {' and the '.join(where)}"
        yield Problem(ProblemKind.SUSPENDED, text, "recover it")
