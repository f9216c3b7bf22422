"""Which key is in force, whatever a gateway asks of the MPC nodes, and whatever it leaves out."""

import os

import pytest

from mpcsim.gateway.activation import Activation
from mpcsim.ids import INSTITUTION, MPC_NODES, OPERATOR
from mpcsim.mpc_node.events import verify
from mpcsim.rpc import wire
from mpcsim.rpc.errors import Refused
from mpcsim.rpc.standing import Drop, End, Ended
from mpcsim.rpc.statements import Abort, SignedRecord
from tests.helpers.gateway import Failed, ask_node, run_with, shares_of, with_gateway


def refusal(link, verb, user_id, body):
    with pytest.raises(Refused) as refused:
        ask_node(link, verb, user_id, body)
    return refused.value.status, str(refused.value)


def vote(gateway, party, user_id, session_id, share):
    body = wire.Activate(session_id, share.record.epoch)
    return SignedRecord.from_bytes(ask_node(gateway.links[party], "vote", user_id, body))


def states(gateway):
    return {
        party: tuple(sorted(row[3] for row in rows)) for party, rows in shares_of(gateway).items()
    }


async def careless(monkeypatch, work):
    """Begin something with a gateway that brings nothing to its end first."""

    async def resolve(*arguments, **options):
        pass

    with monkeypatch.context() as patch:
        patch.setattr(Activation, "resolve", resolve)
        return await work


@with_gateway()
async def test_two_recoveries_from_one_epoch_each_voted_for_at_one_node(
    gateway, client, monkeypatch
):
    """Each settled there would destroy the key: neither is, and the key works."""
    old, user_id = await client.generate("ed25519"), await client.user_id()
    one_id, one = await client.begin_recover("ed25519")
    votes = {OPERATOR: vote(gateway, OPERATOR, user_id, one_id, one)}
    await client.post("exchange", wire.Exchange(one_id, (b"?",)))  # it is called off
    other_id, other = await careless(monkeypatch, client.begin_recover("ed25519"))
    votes[INSTITUTION] = vote(gateway, INSTITUTION, user_id, other_id, other)
    body = wire.Activate(other_id, other.record.epoch)
    status, text = refusal(gateway.links[OPERATOR], "vote", user_id, body)
    outstanding = f"another vote is outstanding: for {one.record.epoch.hex()}"
    assert (status, text) == (409, f"the operator refuses: {outstanding}")
    for party, link in gateway.links.items():
        assert refusal(link, "activate", user_id, votes[party])[0] == 400
        (theirs,) = set(MPC_NODES) - {party}
        mixed = votes[party].with_vote(votes[theirs])
        assert refusal(link, "activate", user_id, mixed)[0] == 400
    assert states(gateway) == {
        OPERATOR: ("active", "prepared", "voted"),
        INSTITUTION: ("active", "voted"),
    }
    await client.check_works(old)
    with pytest.raises(Failed):
        await client.activate(other_id, other)
    new = await client.recover("ed25519")
    await client.check_works(new)
    assert new.public_key == old.public_key
    assert states(gateway) == dict.fromkeys(MPC_NODES, ("active",))
    logs = [link.node._store.events() for link in gateway.links.values()]
    assert verify(*logs) == []
    assert [event.event for event in logs[0]].count("recovered") == 1


@with_gateway()
async def test_a_vote_and_an_abort_for_one_epoch_are_not_to_be_had(gateway, client):
    user_id = await client.user_id()
    session_id, share = await client.begin_generate("ed25519")
    abort = Abort(user_id, "ed25519", share.record.epoch)
    vote(gateway, OPERATOR, user_id, session_id, share)
    end = End(abort, None)
    ended = Ended.from_bytes(ask_node(gateway.links[OPERATOR], "abort", user_id, end))
    assert ended.signature is None
    assert ended.held is not None
    assert ended.held.epoch == share.record.epoch
    ended = Ended.from_bytes(ask_node(gateway.links[INSTITUTION], "abort", user_id, end))
    body = wire.Activate(session_id, share.record.epoch)
    assert refusal(gateway.links[INSTITUTION], "vote", user_id, body)[0] == 410
    assert states(gateway) == {OPERATOR: ("voted",), INSTITUTION: ()}
    ask_node(gateway.links[OPERATOR], "drop", user_id, Drop(abort, ended.signature))
    assert states(gateway) == {OPERATOR: (), INSTITUTION: ()}
    assert refusal(gateway.links[OPERATOR], "abort", user_id, end)[0] == 409


@with_gateway()
async def test_nothing_is_signed_for_an_epoch_that_a_caller_has_made_up(gateway, client):
    """What is signed is kept for good: whoever has a token could fill the MPC nodes' stores."""
    for _ in range(3):
        session_id, _ = await client.begin_generate("ed25519")
        body = wire.Activate(session_id, os.urandom(32))
        response = await client.post("activate", body)
        assert response.status_code == 409
        assert response.json() == {"error": "this session has not made that key"}
    for link in gateway.links.values():
        assert link.node._store._database.rows("SELECT * FROM signed") == []
    await client.check_works(await client.generate("ed25519"))


@with_gateway()
async def test_a_generation_finished_on_the_side_is_no_key_beside_the_one_in_force(
    gateway, client, monkeypatch
):
    """Neither node votes for it: it replaces nothing, and something is in force."""
    user_id, sessions = await client.user_id(), gateway.gateway.sessions
    aside_id, aside = await client.begin_generate("ed25519")
    held = sessions._sessions.pop(aside_id)
    held.leave()
    old = await client.generate("ed25519")
    sessions._sessions[aside_id] = held
    for link in gateway.links.values():
        body = wire.Activate(aside_id, aside.record.epoch)
        assert refusal(link, "vote", user_id, body)[0] == 410
    with pytest.raises(Failed) as failed:
        await client.activate(aside_id, aside)
    assert failed.value.status == 409
    await client.check_works(old)
    assert states(gateway) == dict.fromkeys(MPC_NODES, ("active",))


@pytest.mark.parametrize("party", MPC_NODES)
def test_a_vote_whose_answer_is_lost_is_unknown_and_decided_when_the_node_is_back(party):
    """The other has voted: neither can be taken back before that."""

    async def work(gateway, client):
        old = await client.generate("ed25519")
        session_id, new = await client.begin_recover("ed25519")
        link = gateway.links[party]
        original = link.call

        async def lost(scope, *arguments, **options):
            try:
                await original(scope, *arguments, **options)
            finally:
                link.down, link.call = True, original
            return await original(scope, *arguments, **options)

        link.call = lost
        with pytest.raises(Failed) as failed:
            await client.activate(session_id, new)
        assert failed.value.response.json()["undecided"]
        link.down = False
        await client.check_works(old)
        assert states(gateway) == dict.fromkeys(MPC_NODES, ("active", "voted"))
        newest = await client.recover("ed25519")
        await client.check_works(newest)
        await client.check_retired(new)
        logs = [each.node._store.events() for each in gateway.links.values()]
        assert [event.event for event in logs[0]].count("recovered") == 2, "first that one"

    run_with(work)
