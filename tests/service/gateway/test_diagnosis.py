"""What is the matter with a key: any stores of one key's history, beside a few lines that count."""

from dataclasses import dataclass, replace
from functools import cache

from hypothesis import given
from hypothesis import strategies as st

from mpcsim.ids import MPC_NODES, ROLES
from mpcsim.service.gateway.diagnosis import Case, NodeStatement, Problem, ProblemKind, diagnose
from mpcsim.service.gateway.registry import RegisteredKey
from mpcsim.service.mpc_node.identity import Identity
from mpcsim.service.rpc import statements

USER, CURVE, PUBLIC_KEY = "user", "ed25519", b"public key"
IDENTITIES = {party: Identity(bytes([party]) * 32) for party in MPC_NODES}
HEAD = statements.LogHead(0, bytes(32))
EPOCHS = 4


def epoch(number):
    return bytes([number]) * 32


@cache
def record(number, *parties):
    """Of the shares of a number, with the votes of these."""
    made = statements.KeyRecord(
        USER,
        CURVE,
        PUBLIC_KEY,
        epoch(number),
        epoch(number - 1) if number else None,
        number,
        bytes(32),
        {party: identity.public for party, identity in IDENTITIES.items()},
    )
    signatures = {
        party: IDENTITIES[party].sign(statements.Vote(made, HEAD, 0)) for party in parties
    }
    return statements.SignedRecord(
        made, dict.fromkeys(parties, HEAD), signatures, dict.fromkeys(parties, 0)
    )


@dataclass(frozen=True)
class Node:
    """What an MPC node holds: numbers of shares."""

    active: int | None
    voted: int | None
    suspended: bool
    restored: bool

    def holds(self, number):
        return number in (self.active, self.voted)

    def heard(self, party):
        def held(number, *voters):
            if number is None:
                return None
            return statements.HeldShare(epoch(number), PUBLIC_KEY, number, record(number, *voters))

        suspended = [epoch(self.active)] if self.suspended and self.active is not None else []
        active, voted = held(self.active, *MPC_NODES), held(self.voted, party)
        said = (active, voted, tuple(suspended), int(self.restored))
        statement = statements.ReconciliationStatement(party, bytes(16), USER, CURVE, *said)
        return NodeStatement(IDENTITIES[party].public, statement)


@st.composite
def nodes(draw):
    numbers = st.integers(0, EPOCHS - 1)
    active = draw(st.none() | numbers)
    voted = draw(st.sampled_from([None, 0 if active is None else active + 1]))
    return Node(active, voted, draw(st.booleans()), draw(st.booleans()))


def in_the_way(node, other):
    """Whether an MPC node whose store was put back cannot simply be told by the other one."""
    new = other.voted is not None and not node.holds(other.voted)
    return node.restored and (other.restored or new)


UNHEARD = Problem(ProblemKind.UNHEARD, "it cannot be reached", "start it")


def registered(number):
    if number is None:
        return None
    signed = record(number, *MPC_NODES).to_bytes()
    return RegisteredKey(USER, CURVE, epoch(number).hex(), PUBLIC_KEY, "", number, signed)


def expected(user, number, heard):
    """What must be told, but for what cannot be heard."""
    both = len(heard) == len(MPC_NODES)
    agreed = [n for n in range(EPOCHS + 1) if both and all(node.holds(n) for node in heard)]
    newest = max(agreed, default=None)
    newer = newest is not None and (number is None or newest > number)
    wanted = newest if newer else number
    said = set()
    if any(map(in_the_way, heard, reversed(heard))) if both else any(n.restored for n in heard):
        said.add(ProblemKind.UNMERGED)
    if not user:
        said.add(ProblemKind.USER_UNKNOWN)
    elif newer and all(node.active == newest for node in heard):
        said.add(ProblemKind.KEY_UNKNOWN if number is None else ProblemKind.REGISTRY_OLDER)
    ahead = wanted is not None and any((node.active or 0) > wanted for node in heard)
    if both or (wanted is not None and not ahead):
        if all(node.active == wanted for node in heard):
            if both and any(node.voted is not None for node in heard):
                said.add(ProblemKind.VOTE_ALONE)
        elif wanted is not None and all(node.holds(wanted) for node in heard):
            said.add(ProblemKind.NOT_YET_IN_FORCE)
        else:
            said.add(ProblemKind.STORE_OLDER)
    if any(node.suspended and node.active == wanted is not None for node in heard):
        said.add(ProblemKind.SUSPENDED)
    return said, wanted, newer and all(node.active == newest for node in heard)


@given(
    st.booleans(),
    st.none() | st.integers(0, EPOCHS - 1),
    st.tuples(nodes() | st.none(), nodes() | st.none()),
)
def test_stores_of_any_moments(user, number, said):
    """Also such as no history makes: whoever lies, or damages files, can."""
    number = number if user else None  # whom it does not know, it has no keys of
    case = Case(
        USER,
        CURVE,
        "alice" if user else None,
        registered(number),
        nodes={
            party: node.heard(party) if node else UNHEARD
            for party, node in zip(MPC_NODES, said, strict=True)
        },
    )
    finding = diagnose(case)
    heard = [node for node in said if node is not None]
    problems, wanted, newer = expected(user, number, heard)
    told = [problem.kind for problem in finding.problems if problem is not UNHEARD]
    assert set(told) == problems
    both_heard = len(heard) == len(MPC_NODES)
    restored = sum(node.restored for node in heard)
    assert len(finding.notes) == (both_heard and restored == 1 and ProblemKind.UNMERGED not in told)
    assert len(finding.problems) - len(told) == len(MPC_NODES) - len(heard)
    assert finding.key_id == (None if wanted is None else epoch(wanted).hex())
    assert (finding.newer is not None) == newer
    if newer:
        assert finding.newer.check({p: i.public for p, i in IDENTITIES.items()}).number == wanted


def test_shares_in_force_that_not_both_have_signed_for_are_at_odds():
    held = statements.HeldShare(epoch(0), PUBLIC_KEY, 0, record(0, MPC_NODES[0]))
    said = {party: (party, bytes(16), USER, CURVE, held, None, (), 0) for party in MPC_NODES}
    nodes = {
        p: NodeStatement(IDENTITIES[p].public, statements.ReconciliationStatement(*about))
        for p, about in said.items()
    }
    damaged = replace(registered(0), record=None, damaged=True)
    finding = diagnose(Case(USER, CURVE, "alice", damaged, nodes=nodes))
    assert [t.kind for t in finding.problems] == [ProblemKind.RECORD_DAMAGED, ProblemKind.AT_ODDS]


def test_a_seal_key_that_was_lost(party):
    """Recovering the key helps, and nothing else."""
    node = Node(active=1, voted=None, suspended=False, restored=False)
    heard = {each: replace(node.heard(each), seal_number=0) for each in MPC_NODES}
    case = Case(USER, CURVE, "alice", registered(1), nodes=heard)
    assert diagnose(case).problems == ()
    lost = heard | {party: replace(heard[party], seal_number=1)}
    (problem,) = diagnose(replace(case, nodes=lost)).problems
    assert problem.kind is ProblemKind.SEAL_KEY_LOST
    assert f"the {ROLES[party]} has lost the seal key" in problem.text
    assert problem.advice.startswith("recover the key")
