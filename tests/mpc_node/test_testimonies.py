"""What an MPC node says of a key, and has signed."""

import os

from mpcsim.ids import INSTITUTION, MPC_NODES, OPERATOR
from mpcsim.rpc.standing import End
from mpcsim.rpc.statements import MAX_EPOCHS, Abort, SignedTestimony, Testify, signed_by
from tests.helpers.gateway import ask_node, delivered, with_gateway


def said_by(gateway, party, user_id, curve="ed25519", nonce=bytes(16)):
    """Its genuine statement."""
    link = gateway.links[party]
    reply = ask_node(link, "testify", user_id, Testify(user_id, curve, nonce))
    said = SignedTestimony.from_bytes(reply)
    assert signed_by(link.node.hello().identity, said.statement, said.signature)
    assert (said.statement.party, said.statement.nonce) == (party, nonce)
    assert (said.statement.user_id, said.statement.curve_name) == (user_id, curve)
    return said.statement


@with_gateway()
async def test_a_key_s_life_in_testimonies(gateway, client):
    user_id, nonce = await client.user_id(), os.urandom(16)
    nothing = said_by(gateway, OPERATOR, user_id, nonce=nonce)
    assert (nothing.active, nothing.voted, nothing.suspended) == (None, None, ())
    share = await client.generate("ed25519")
    epoch = share.record.epoch
    for party in MPC_NODES:
        said = said_by(gateway, party, user_id)
        assert (said.active.epoch, said.active.number) == (epoch, 0)
        assert set(said.active.record.signatures) == set(MPC_NODES)
        assert (said.voted, said.suspended, said.aborted, said.restored) == (None, (), (), 0)
        assert said_by(gateway, party, user_id, "secp256k1").active is None
    await client.ask("suspend", await client.suspension(share))
    await delivered(gateway)
    assert said_by(gateway, OPERATOR, user_id).suspended == (epoch,)
    new = await client.recover("ed25519")
    said = said_by(gateway, INSTITUTION, user_id)
    assert (said.active.epoch, said.active.number) == (new.record.epoch, 1)
    assert said.suspended == ()


@with_gateway()
async def test_a_vote_that_stayed_alone_and_what_became_of_it(gateway, client):
    user_id = await client.user_id()
    await client.generate("ed25519")
    _, share = await client.begin_recover("ed25519")
    node, epoch = gateway.links[OPERATOR].node, share.record.epoch
    vote = node._voting.vote(epoch.hex())
    said = said_by(gateway, OPERATOR, user_id)
    assert (said.voted.epoch, said.voted.record) == (epoch, vote)
    end = End(Abort(user_id, "ed25519", epoch), vote)
    ask_node(gateway.links[INSTITUTION], "abort", user_id, end)
    assert said_by(gateway, INSTITUTION, user_id).aborted == (epoch,)


@with_gateway()
async def test_as_many_aborts_are_named_as_a_statement_holds(gateway, client):
    """The newest ones."""
    user_id, store = await client.user_id(), gateway.links[OPERATOR].node.store
    epochs = [number.to_bytes(32, "big") for number in range(MAX_EPOCHS + 1)]
    for number, epoch in enumerate(epochs, start=1):
        store.abort(user_id, "ed25519", epoch.hex(), voted_for=True)
        if number >= MAX_EPOCHS - 1:
            said = said_by(gateway, OPERATOR, user_id)
            assert said.aborted == (*reversed(epochs[:number][-MAX_EPOCHS:]),)
