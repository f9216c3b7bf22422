"""Promises of an MPC node about its votes, its aborts and the shares that it puts in force,
whatever a gateway asks of it."""

from dataclasses import replace

import pytest

from mpcsim.ids import CLIENT, INSTITUTION, MPC_NODES, OPERATOR, ROLES
from mpcsim.protocols.key_share import KeyShare
from mpcsim.service.errors import NodeFailed, Refused
from mpcsim.service.rpc import wire
from mpcsim.service.rpc.activation_messages import (
    AbortEpoch,
    AbortEpochReply,
    DropShare,
    GetActivationState,
)
from mpcsim.service.rpc.statements import Abort
from tests.helpers import voting
from tests.helpers.adversary import alter_kind
from tests.helpers.gateway import ask_node, cheating, feed, sends

DAMAGED = "the {}'s stored record of this key is damaged"


def test_a_node_signs_an_abort_of_what_it_holds_or_is_shown_the_others_vote_for(world, party):
    other = OPERATOR + INSTITUTION - party
    world.prepare("new", "first", (other,))
    abort = Abort(voting.USER, voting.CURVE, voting.epoch("new"))
    vote = world.nodes[other].vote(voting.epoch("new").hex())
    shown = [
        None,
        voting.vote_of(party, "new"),
        voting.vote_of(other, "another"),
        voting.vote_of(other, "new", user_id="another"),
        voting.vote_of(other, "new", curve_name="secp256k1"),
        replace(vote, signatures={other: bytes(64)}),
    ]
    for others in shown:
        with pytest.raises(Refused, match="neither node has such a share"):
            world.handle(party, "abort", AbortEpoch(abort, others))
    # Of what it may have forgotten, only if the vote replaces what is in force here.
    world.stores[party].mark_restored("yesterday", both=False)
    ended = AbortEpochReply.from_bytes(world.handle(party, "abort", AbortEpoch(abort, vote)))
    assert world.handle(party, "abort", AbortEpoch(abort, None)) == ended.to_bytes()
    world.handle(other, "drop", DropShare(abort, ended.signature))
    assert world.settled() == voting.epoch("first")


def test_a_share_that_is_not_there_is_not_voted_for(empty_world, party):
    with pytest.raises(Refused, match="there is no such share to vote for"):
        empty_world.nodes[party].vote(voting.epoch("new").hex())


def test_a_record_proves_itself_or_puts_nothing_in_force(world, party):
    """Whatever is altered in it is shown beside its check (``tests/service/rpc``)."""
    one, other = voting.forged(world, "new").values()
    whole = one.with_vote(other)
    forged = {signer: bytes(64) for signer in MPC_NODES}
    for record in (one, other, replace(whole, signatures=forged)):
        with pytest.raises(Refused) as refused:
            world.handle(party, "activate", record)
        assert refused.value.status == 400
    world.handle(party, "activate", whole)
    assert world.settled() == voting.epoch("new")


def test_votes_for_a_share_that_this_node_does_not_have_are_nothing_to_it(party):
    with voting.World() as world, voting.World() as elsewhere:
        for place in (world, elsewhere):
            voting.first_key(place)
        one, other = voting.forged(elsewhere, "new").values()
        with pytest.raises(Refused, match=f"the {ROLES[party]} refuses: it has not voted for this"):
            world.handle(party, "activate", one.with_vote(other))


def test_votes_for_another_record_than_this_nodes_own_are_nothing_to_it(world):
    """Genuine ones, as if its store had been put back and it had voted again."""
    voting.forged(world, "new")
    one, other = (voting.vote_of(party, "new", number=7) for party in MPC_NODES)
    for party in MPC_NODES:
        with pytest.raises(Refused, match="it has not voted for this record"):
            world.handle(party, "activate", one.with_vote(other))
    assert world.settled() == voting.epoch("new")


def test_a_damaged_vote_is_no_fault_of_whoever_asks_for_it(empty_world, party):
    empty_world.prepare("new")
    empty_world.nodes[party].vote(voting.epoch("new").hex())
    with empty_world.stores[party]._database.transaction() as cursor:
        cursor.execute("UPDATE shares SET record = x'00'")
    with pytest.raises(NodeFailed, match=DAMAGED.format(ROLES[party])):
        empty_world.handle(party, "vote", wire.Activate(bytes(32), voting.epoch("new")))


@pytest.mark.parametrize("damage", ["record = x'00'", "key_id = 'no epoch'"])
def test_a_damaged_record_is_said_to_be_so(world, damage, party):
    with world.stores[party]._database.transaction() as cursor:
        cursor.execute(f"UPDATE shares SET {damage}")
    with pytest.raises(NodeFailed, match=DAMAGED.format(ROLES[party])):
        world.handle(party, "standing", GetActivationState(voting.USER, voting.CURVE))


def test_a_share_is_dropped_on_the_other_nodes_signature_alone(world):
    voting.forged(world, "new")
    abort = Abort(voting.USER, voting.CURVE, voting.epoch("new"))
    for party in MPC_NODES:
        mine, theirs = voting.IDENTITIES[party], voting.IDENTITIES[OPERATOR + INSTITUTION - party]
        about_another = theirs.sign(replace(abort, epoch=voting.epoch("first")))
        for signature in (bytes(64), mine.sign(abort), about_another):
            with pytest.raises(Refused, match="has not signed this abort"):
                world.handle(party, "drop", DropShare(abort, signature))
    assert world.settled() == voting.epoch("new")


# ---------------------------------------------------------------------- a client that cheats

COMMITTED = alter_kind(
    "Offer", lambda m: replace(m, offer=replace(m.offer, t=bytes(len(m.offer.t))))
)
OF_ANOTHER_SESSION = alter_kind("Commitments", lambda m: replace(m, context=bytes(32)))


CHEATS = [
    ("secp256k1", COMMITTED, True, True),
    ("secp256k1", alter_kind("Commit", lambda m: b"?"), True, False),
    ("ed25519", alter_kind("Commitments", lambda m: b"?"), True, False),
    ("ed25519", OF_ANOTHER_SESSION, False, False),
]


@pytest.mark.parametrize(("curve", "tamper", "convicts", "discards"), CHEATS)
async def test_a_node_uses_no_key_that_its_client_was_caught_cheating_with(
    party, curve, tamper, convicts, discards, gateway, client, share
):
    """Its store says so from then on; what proves no cheat suspends nothing."""
    link, user_id, key_id = gateway.links[party], await client.user_id(), share.record.epoch
    played, request = client.begin_sign(share, signer=party, wrap=cheating(tamper))
    answer = wire.Answer.from_bytes(ask_node(link, "sign", user_id, request))
    messages = sends(feed(played, answer.messages))
    if answer.open:
        ask_node(link, "exchange", user_id, wire.Exchange(request.session_id, messages), key_id)
    assert link.node.sessions == 0
    stored = link.node.store.find(key_id.hex())
    assert (stored.suspended or "").endswith("(by the client)" * convicts)
    assert bool(stored.suspended) == convicts
    if curve == "secp256k1":
        state = KeyShare.from_bytes(stored.share).peers[CLIENT].multiplication
        assert (state is None) == discards
    honest = client.begin_sign(share, signer=party)[1]
    if convicts:
        with pytest.raises(Refused, match=f"this key is suspended at the {ROLES[party]}: "):
            ask_node(link, "sign", user_id, honest)
    else:
        ask_node(link, "sign", user_id, honest)
