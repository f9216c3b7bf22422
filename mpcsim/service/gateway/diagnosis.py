"""What is the matter with a user's key, from what three say of it; without any input or output.

The registry and both MPC nodes are heard (``NodeStatement``), and what does not fit is told as data
(``Finding``): which shares are in force is for ``decision``, which store is older for
``store_consistency``. An MPC node counts as heard only if it has signed what it says, under the
identity of its hello.

    ==================== ===================================== ====================================
    ``ProblemKind``             How it is seen                        What to do
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
from mpcsim.service.rpc.standing import ACTIVE, VOTED, Holding, Standing
from mpcsim.service.rpc.statements import SignedRecord, Testimony
from mpcsim.service.storage.database import REGISTRY, file_of

_REPAIR: Final = "mpcsim doctor --repair has it follow them"


class ProblemKind(Enum):
    """What can be the matter."""

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


GOES_ON: Final = 2
"""What a testimony says of a store that was put back with ``--other-restored-too``."""


@dataclass(frozen=True)
class Problem:
    """One thing that is the matter, and what to do."""

    kind: ProblemKind
    text: str
    advice: str


@dataclass(frozen=True)
class NodeStatement:
    """What an MPC node says of a key, and has signed."""

    identity: bytes
    reconciliation_statement: Testimony
    seal_number: int | None = None
    """Of its seal key, as its hello says; None: not known."""

    def share_inventory(self) -> Iterator[Holding]:
        """Its shares that are in force, or have been voted for."""
        said = self.reconciliation_statement
        for state, held in ((ACTIVE, said.active), (VOTED, said.voted)):
            if held is not None:
                at = said.user_id, said.curve_name
                yield Holding(held.epoch.hex(), *at, held.public_key, state, held.number)


@dataclass(frozen=True)
class Case:
    """What is known of a user's key on a curve."""

    user_id: str
    curve: str
    username: str | None
    """None: the registry does not know the user."""
    registered: RegisteredKey | None
    suspended: AbstractSet[str] = frozenset()
    """Key ids of the user's that the registry remembers as suspended."""
    nodes: Mapping[PartyId, NodeStatement | Problem] = field(default_factory=dict)
    """Of each MPC node: what it says, or why it was not heard."""
    empty: AbstractSet[PartyId] = frozenset()
    """MPC nodes without any shares."""
    identities: Mapping[PartyId, bytes] = field(default_factory=dict)
    """Of the MPC nodes, as other keys' records name them."""


@dataclass(frozen=True)
class Finding:
    """What was found of a key."""

    user_id: str
    username: str | None
    curve: str
    key_id: str | None
    """Of what is in force, as far as can be told; None: nothing."""
    problems: tuple[Problem, ...]
    """None: all three fit."""
    notes: tuple[Problem, ...] = ()
    """What ends by itself when the key is used."""
    newer: SignedRecord | None = field(default=None, repr=False)
    """What the registry lacks: both MPC nodes, and no strangers, have signed it and hold it in
    force. What both have only voted for is the gateway's to settle, with both."""


def diagnose(case: Case) -> Finding:
    """What is the matter with a key, if anything is."""
    heard = {party: said for party, said in case.nodes.items() if isinstance(said, NodeStatement)}
    problems = [said for said in case.nodes.values() if isinstance(said, Problem)]
    strangers = [_stranger(party, party in case.empty) for party in _strangers(case, heard)]
    decision = _looked(case, heard)
    newer = decision.record_to_store if len(heard) == len(MPC_NODES) else None
    key = store_consistency.KnownKey(
        _following(case, newer),
        {party: list(said.share_inventory()) for party, said in heard.items()},
    )
    in_force = key.registered.key_id if key.registered else None
    if strangers or not _active_at_all(newer, heard):
        newer = None
    problems += strangers
    unmerged = [*_unmerged(heard)]
    problems += [problem for problem, in_the_way in unmerged if in_the_way]
    if not strangers:
        problems += _registry(case, newer)
        problems += _shares(case, decision, key, heard)
    problems += _seal_keys(heard, in_force)
    problems += _suspended(case, heard, in_force)
    notes = tuple(problem for problem, in_the_way in unmerged if not in_the_way)
    return Finding(case.user_id, case.username, case.curve, in_force, tuple(problems), notes, newer)


# ---------------------------------------------------------------------- what is in force


def _looked(case: Case, heard: Mapping[PartyId, NodeStatement]) -> Decision:
    """What follows from what they say, if nothing is asked of them beyond that."""
    identities = named(case.registered) | {party: said.identity for party, said in heard.items()}
    decision = Decision(case.user_id, case.curve, identities, case.registered, aborting=False)
    for party, said in heard.items():
        decision.take_state(
            party,
            Standing(said.reconciliation_statement.active, said.reconciliation_statement.voted),
        )
    return decision


def _active_at_all(newer: SignedRecord | None, heard: Mapping[PartyId, NodeStatement]) -> bool:
    """Whether all say that these shares are in force."""
    active = [said.reconciliation_statement.active for said in heard.values()]
    return newer is not None and all(
        held is not None and held.epoch == newer.record.epoch for held in active
    )


def _following(case: Case, newer: SignedRecord | None) -> RegisteredKey | None:
    """What the registry would have, once it has followed the MPC nodes."""
    if newer is None:
        return case.registered
    record = newer.record
    return RegisteredKey(
        case.user_id, case.curve, record.key_id, record.public_key, "", record.number
    )


def named(registered: RegisteredKey | None) -> dict[PartyId, bytes]:
    """The MPC nodes' identities in a registered record, if there is one that can be read."""
    if registered is None or registered.record is None:
        return {}
    try:
        found = SignedRecord.from_bytes(registered.record).record.identities
    except InvalidEncoding:
        return {}
    return {party: found[party] for party in MPC_NODES if party in found}


def _strangers(case: Case, heard: Mapping[PartyId, NodeStatement]) -> list[PartyId]:
    """Those that are not whom a record names: the registry's, or the other node's."""
    records = [dict(case.identities), named(case.registered)]
    records += [
        dict(held.record.record.identities)
        for said in heard.values()
        for held in (said.reconciliation_statement.active, said.reconciliation_statement.voted)
        if held is not None
    ]
    return [
        party
        for party, said in heard.items()
        if any(record.get(party, said.identity) != said.identity for record in records)
    ]


# ---------------------------------------------------------------------- what is the matter


def _stranger(party: PartyId, empty: bool) -> Problem:
    role = ROLES[party]
    return Problem(
        ProblemKind.STRANGER,
        f"the {role} that answers has another identity than the one that made the keys"
        + (store_consistency.MISSING if empty else ""),
        f"put a backup of its own {file_of(role)} back, or correct {role.upper()}_URL: nobody else "
        "can use its shares",
    )


def _unmerged(heard: Mapping[PartyId, NodeStatement]) -> Iterator[tuple[Problem, bool]]:
    """Which stores have been put back and not heard of the key since; and whether that is in the
    way: usually the other node is heard when the key is next used."""
    for party, said in heard.items():
        (other,) = set(MPC_NODES) - {party}
        if not said.reconciliation_statement.restored:
            continue
        text = (
            f"the {ROLES[party]}'s store was put back, and has not heard from the {ROLES[other]} "
            "what has become of this key since"
        )
        advice, in_the_way = _to_merge(said, other, heard.get(other))
        yield Problem(ProblemKind.UNMERGED, text, advice), in_the_way


def _to_merge(
    said: NodeStatement, other: PartyId, witness: NodeStatement | None
) -> tuple[str, bool]:
    """How a store comes to hear of a key, and whether something is in the way."""
    if witness is None:
        return f"start the {ROLES[other]}: without it, the key cannot be used", True
    both = {said.reconciliation_statement.restored, witness.reconciliation_statement.restored}
    if witness.reconciliation_statement.restored and GOES_ON not in both:
        return (
            "so was the other's, and neither can tell: put back the newer backup of one of the two "
            "once more, with --other-restored-too",
            True,
        )
    voted = witness.reconciliation_statement.voted
    if voted is not None and voted.epoch.hex() not in {h.key_id for h in said.share_inventory()}:
        return (
            f"the {ROLES[other]} has voted for newer shares, as this one may have, too: recover "
            "the key",
            True,
        )
    return "that happens when the key is next used", False


def _registry(case: Case, newer: SignedRecord | None) -> Iterator[Problem]:
    """What the registry lacks, or has wrong."""
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


def _shares(
    case: Case,
    decision: Decision,
    key: store_consistency.KnownKey,
    heard: Mapping[PartyId, NodeStatement],
) -> Iterator[Problem]:
    """Whether the MPC nodes hold what is in force, as far as they were heard."""
    wanted, both = key.registered, len(heard) == len(MPC_NODES)
    if not both and (wanted is None or wanted.damaged or _newer(heard, wanted)):
        return  # what is in force, one alone cannot say
    found = {party: _state(said, wanted) for party, said in heard.items()}
    states = {*found.values()}
    if wanted is None:
        settled = not any(said.reconciliation_statement.active for said in heard.values())
    else:
        settled = states <= {ACTIVE} and _signed(wanted, decision)
    if settled:
        if both and decision.has_lone_vote:
            yield _alone(heard, wanted)
    elif wanted is not None and states <= {ACTIVE, VOTED} and VOTED in states:
        yield Problem(
            ProblemKind.NOT_YET_IN_FORCE,
            "both MPC nodes have voted for these shares, and have not been told of it",
            "the gateway's next start, or the next use of the key, brings them into force",
        )
    else:
        inconsistency = store_consistency.inconsistency_of(key, case.empty & heard.keys())
        yield Problem(
            ProblemKind.STORE_OLDER if inconsistency.older else ProblemKind.AT_ODDS,
            inconsistency.text,
            _put_back(inconsistency),
        )


def _newer(heard: Mapping[PartyId, NodeStatement], wanted: RegisteredKey) -> bool:
    """Whether an MPC node holds newer shares in force than these."""
    active = [said.reconciliation_statement.active for said in heard.values()]
    return any(held is not None and held.number > wanted.recoveries for held in active)


def _state(said: NodeStatement, wanted: RegisteredKey | None) -> str | None:
    """How a node holds what is in force."""
    for holding in said.share_inventory():
        if wanted is not None and holding.key_id == wanted.key_id:
            return holding.state if holding.public_key == wanted.public_key else None
    return None


def _signed(wanted: RegisteredKey, decision: Decision) -> bool:
    """Whether shares are in force by both signatures."""
    return decision.record is not None and decision.record.record.key_id == wanted.key_id


def _alone(heard: Mapping[PartyId, NodeStatement], wanted: RegisteredKey | None) -> Problem:
    voters = [ROLES[party] for party, said in heard.items() if said.reconciliation_statement.voted]
    who = " and ".join(f"the {role}" for role in voters)
    again = "recovery" if wanted else "generation"
    return Problem(
        ProblemKind.VOTE_ALONE,
        f"{who} alone {'has' if len(voters) == 1 else 'have'} voted for newer shares of this key: a"
        " session that was cut off, or the other stores are older",
        f"if a store is older, put the right one back first; otherwise the next {again} ends it",
    )


def _put_back(inconsistency: store_consistency.Inconsistency) -> str:
    files = " and ".join(inconsistency.files)
    which = "a newer backup" if inconsistency.older else "the right backup"
    return (
        f"put {which} of {files} back (mpcsim restore): nothing is dropped, and the key is not lost"
    )


def _seal_keys(heard: Mapping[PartyId, NodeStatement], in_force: str | None) -> Iterator[Problem]:
    """Which MPC nodes cannot open what was sealed to them when the shares were made."""
    for party, said in heard.items():
        held = said.reconciliation_statement.active
        if said.seal_number is None or held is None or held.epoch.hex() != in_force:
            continue
        if held.record.seal_numbers.get(party) != said.seal_number:
            yield Problem(
                ProblemKind.SEAL_KEY_LOST,
                f"the {ROLES[party]} has lost the seal key that this key's secret_store is sealed"
                " to, and has another one",
                "recover the key (POST /v3/wallet/recover): until then it does not sign",
            )


def _suspended(
    case: Case, heard: Mapping[PartyId, NodeStatement], in_force: str | None
) -> Iterator[Problem]:
    where = [
        ROLES[party]
        for party, said in heard.items()
        if in_force in {epoch.hex() for epoch in said.reconciliation_statement.suspended}
    ]
    if in_force in case.suspended:
        where.insert(0, REGISTRY)
    if where:
        text = f"this key is suspended at the {' and the '.join(where)}"
        yield Problem(ProblemKind.SUSPENDED, text, "recover it")
