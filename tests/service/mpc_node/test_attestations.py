"""Statements about suspended keys: what an MPC node signs, what it takes of the other, and when it
then uses a key alone."""

from contextlib import closing
from dataclasses import replace

import pytest

from mpcsim.ids import MPC_NODES, ROLES
from mpcsim.service.errors import NodeFailed, Refused
from mpcsim.service.mpc_node.agreement import attestations
from mpcsim.service.mpc_node.agreement.attestations import Attestations
from mpcsim.service.mpc_node.peer import Peer
from mpcsim.service.mpc_node.store import ShareStore
from mpcsim.service.rpc.activation_messages import PREPARED
from mpcsim.service.rpc.statements import ATTESTED_S, SKEW_S, SignedAttestation
from tests.helpers.gateway import Clock
from tests.helpers.voting import IDENTITIES
from tests.service.mpc_node.test_identity import hello_of
from tests.service.mpc_node.test_store import put_in_force, stored, vote

KEY_ID, NEWER = b"k" * 32, b"n" * 32


@pytest.fixture
def clock():
    return Clock(1_800_000_000.0)


@pytest.fixture
def nodes(party, clock):
    """(the MPC node that listens, the one that speaks), each with a key in force."""
    other = next(j for j in MPC_NODES if j != party)
    with closing(ShareStore(now=clock)) as one, closing(ShareStore(now=clock)) as two:
        made = []
        for me, store, peer in ((party, one, other), (other, two, party)):
            put_in_force(store, KEY_ID.hex())
            met = Peer(me, store)
            met.meet(hello_of(IDENTITIES[peer], peer))
            made.append(Attestations(me, store, IDENTITIES[me], met, clock))
        yield made


def signed(by, **changes):
    """A statement of ``by`` with something changed, signed by it."""
    said = replace(by.make_statement().statement, **changes)
    return SignedAttestation(said, by._identity.sign(said))


def says(node):
    """What becomes of a use of the key."""
    try:
        node.check(KEY_ID)
    except (Refused, NodeFailed) as error:
        return str(error)
    return "used"


def test_a_statement_counts_for_an_hour_by_either_clock(nodes, clock):
    node, other = nodes
    unheard = f"the {ROLES[node._me]} has not heard from the {ROLES[other._me]} within an hour"
    assert unheard in says(node)
    node.accept_statement(other.make_statement())
    for later, expected in ((0, "used"), (ATTESTED_S, "used"), (0.001, unheard)):
        clock.now += later
        assert expected in says(node)
    # one second too early, it is the other's clock that is ahead; then it was this one's
    latest_ms = int((clock.now + SKEW_S) * 1000)
    with pytest.raises(Refused, match=f"the {ROLES[other._me]}'s statement is from the future"):
        node.accept_statement(signed(other, at_ms=latest_ms + 1))
    node.accept_statement(signed(other, at_ms=latest_ms))
    assert says(node) == "used"
    clock.now -= 1
    assert unheard in says(node)
    node.accept_statement(other.make_statement())  # gives way, though it is the older one
    assert says(node) == "used"
    node.forget()
    assert unheard in says(node)


def test_a_statement_that_is_not_the_others_is_refused(nodes):
    node, other = nodes
    true, mine = other.make_statement(), node.make_statement()
    for bad in (
        mine,
        replace(true, signature=mine.signature),
        replace(true, statement=replace(true.statement, at_ms=true.statement.at_ms + 1)),
        signed(node, party=other._me),
        signed(other, party=node._me),
    ):
        with pytest.raises(Refused, match=f"this is no statement of the {ROLES[other._me]}"):
            node.accept_statement(bad)
    assert "has not heard" in says(node)


def test_what_the_other_has_suspended_stays_so_whatever_comes_after(nodes, clock):
    node, other = nodes
    before = other.make_statement()
    clock.now += 10
    other._store.suspend(KEY_ID.hex(), "seen cheating")
    node.accept_statement(other.make_statement())
    for said in (signed(other, suspended=()), before):
        node.accept_statement(said)
        assert f"this key is suspended at the {ROLES[other._me]}" in says(node)
    assert node._peer_statement.at_ms == int(clock.now * 1000)


def test_an_hour_after_its_vote_a_node_uses_no_key_that_may_be_replaced(nodes, clock):
    node, other = nodes
    node._store.prepare(stored(NEWER.hex(), KEY_ID.hex(), state=PREPARED))
    vote(node._store, NEWER.hex())
    for later, expected in ((ATTESTED_S - 1, "used"), (1, "has voted for newer shares")):
        clock.now += later
        node.accept_statement(other.make_statement())
        assert expected in says(node)


def test_no_more_suspended_keys_are_named_than_a_statement_holds(nodes, monkeypatch):
    node, _ = nodes
    put_in_force(node._store, NEWER.hex(), user="v")
    for key_id in (KEY_ID, NEWER):
        node._store.suspend(key_id.hex(), "seen cheating")
    monkeypatch.setattr(attestations, "MAX_ATTESTED", 2)
    assert node.make_statement().statement.suspended == (KEY_ID, NEWER)
    monkeypatch.setattr(attestations, "MAX_ATTESTED", 1)
    with pytest.raises(NodeFailed, match="more suspended keys than it can list") as caught:
        node.make_statement()
    assert caught.value.party == node._me
