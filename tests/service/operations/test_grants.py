"""What the gateway asks MPC nodes for is good there, then and for that; nothing else is."""

import os
from dataclasses import replace

import pytest

from mpcsim.ids import INSTITUTION, MPC_NODES, OPERATOR
from mpcsim.service.errors import Refused
from mpcsim.service.rpc import activation_messages, statements, wire
from mpcsim.service.rpc.grants import Scope
from tests.helpers import gateway as kit

NOT_THE_GATEWAYS = "the grant is not the gateway's"


def seen(gateway):
    """What the MPC nodes are asked from now on: party, verb, grant, body."""
    requests = []
    for party, link in gateway.links.items():

        def handle(verb, grant, body, party=party, original=link.node.handle):
            requests.append((party, verb, grant, body))
            return original(verb, grant, body)

        link.node.handle = handle
    return requests


def refusal(node, verb, grant, body):
    with pytest.raises(Refused) as refused:
        node.handle(verb, grant, body)
    return refused.value.status, str(refused.value)


async def everything(gateway, client):
    """Use every verb; a key that is in force, and its recovery under way."""
    await client.generate("ed25519")
    share = client.give_key("secp256k1")
    halves = client.store(share).halves
    await client.ask("open", client.opening(share, halves))
    await client.check_works(share)
    store = client.store(share)
    for signer in MPC_NODES:
        await client.ask("presigned", await presigned(client, share, store, signer))
    with pytest.raises(kit.Failed):  # and a session that is called off
        await client.exchange((await client.begin_recover("ed25519"))[0], [b"?"])
    await client.ask("suspend", await client.suspension(share))
    await kit.delivered(gateway)
    share = await client.recover("ed25519")
    for party in MPC_NODES:
        for verb, body in about_shares(gateway, party, await client.user_id(), "ed25519").items():
            kit.ask_node(gateway.links[party], verb, "" if verb in OF_NO_USER else user(body), body)
    return share


def user(body):
    """Whom a request about shares is about."""
    for name in ("abort", "record", "statement"):
        body = getattr(body, name, body)
    return getattr(body, "user_id", "")


def about_shares(gateway, party, user_id, curve):
    """What is asked about shares in force, and may be, at one MPC node."""
    other = gateway.links[OPERATOR + INSTITUTION - party].node
    present = gateway.gateway.registry.key(user_id, curve)
    boot = gateway.links[party].node.hello().boot
    abort = statements.Abort(user_id, curve, os.urandom(32))
    signed = statements.SignedRecord.from_bytes(present.record)
    record, head = replace(signed.record, epoch=abort.epoch), signed.heads[other.me]
    signature = other._context.identity.sign(statements.Vote(record, head, 0))
    vote = statements.SignedRecord(record, {other.me: head}, {other.me: signature}, {other.me: 0})
    return {
        "holdings": activation_messages.ListShares(""),
        "standing": activation_messages.GetActivationState(user_id, curve),
        "activate": signed,
        "abort": activation_messages.AbortEpoch(abort, vote),
        "drop": activation_messages.DropShare(abort, other._context.identity.sign(abort)),
        "attest": statements.GetAttestation(),
        "hear": other._attestations.make_statement(),
        "testify": statements.GetReconciliationStatement(user_id, curve, bytes(16)),
        "merge": other._reconciliation.make_statement(
            statements.GetReconciliationStatement(user_id, curve, boot)
        ),
    }


async def presigned(client, share, store, signer=OPERATOR):
    """A request to sign with a presignature."""
    (part,), allowance = await client.presign(share, store, signer=signer)
    return client.begin_presigned(share, store, part, allowance, signer=signer)


OF_NO_USER = ("holdings", "attest", "hear")


async def test_no_token_reaches_the_mpc_nodes_nor_is_one_a_grant(gateway, client):
    requests = seen(gateway)
    share = await everything(gateway, client)
    verbs = gateway.links[OPERATOR].node.verbs - {"reset", "meet"}  # which were at the start
    assert {verb for _, verb, _, _ in requests} == verbs
    key_id = share.record.epoch.hex()
    key_token = gateway.issuer.issue_key(await client.user_id(), "alice", key_id, 60)
    await replace(client, token=key_token).check_works(share)
    shown = b"".join(grant + body for _, _, grant, body in requests)
    bodies = {(party, verb): body for party, verb, _, body in requests}
    for token in (client.token, key_token, ""):
        assert not [part for part in token.split(".") if part and part.encode() in shown]
        for (party, verb), body in bodies.items():
            node = gateway.links[party].node
            assert refusal(node, verb, token.encode(), body) == (401, NOT_THE_GATEWAYS)


OTHERS = {
    "verb": {"verb": "another"},
    "user": {"user_id": "another"},
    "key": {"key_id": bytes(32)},
    "session": {"session_id": bytes(32)},
    "message": {"message": b"another"},
}
VERBS = ["open", "sign", "presigned", "suspend", "generate", "recover", "exchange", "vote", "close"]
ABOUT_SHARES = ["holdings", "standing", "activate", "abort", "drop"]
ABOUT_SHARES += ["attest", "hear", "testify", "merge"]


@pytest.mark.parametrize("party", MPC_NODES)
@pytest.mark.parametrize("verb", [*VERBS, *ABOUT_SHARES])
async def test_an_mpc_node_does_what_a_grant_is_for_and_nothing_else(gateway, client, verb, party):
    link, user_id = gateway.links[party], await client.user_id()
    share = client.give_key("secp256k1" if verb == "presigned" else "ed25519")
    epoch, session_id, made = share.record.epoch, os.urandom(32), share
    if verb in ("exchange", "vote", "close"):
        session_id, made = await client.begin_recover("ed25519")
    store = client.store(share)
    proof, halves = client.opening(share, store.halves).proofs[party], store.halves
    body = {
        "open": wire.OpenHalf(epoch, kit.REPLY_KEY, halves[party], proof),
        "sign": client.begin_sign(share, signer=party)[1],
        "presigned": await presigned(client, share, store, party) if verb == "presigned" else None,
        "suspend": wire.SuspendKey(wire.AbortedSession(user_id, epoch, session_id), bytes(61)),
        "generate": wire.Generate(session_id, "secp256k1", ()),
        "recover": wire.Recover(session_id, "ed25519"),
        "exchange": wire.Exchange(session_id, ()),
        "vote": wire.Activate(session_id, made.record.epoch),
        "close": wire.Close(session_id),
        **about_shares(gateway, party, user_id, share.record.curve_name),
    }[verb]
    user_id = "" if verb in OF_NO_USER else user_id
    no_key = ("generate", "standing", "testify", "merge", *OF_NO_USER)
    right = kit.granted(verb, user_id, body, None if verb in no_key else epoch)
    before = kit.shares_of(gateway)
    for what, other in OTHERS.items():
        if (verb, what) == ("generate", "user"):  # they may have one, too
            continue
        said = refusal(link.node, verb, link.grant(right._replace(**other)), body.to_bytes())
        # What is the user's alone, others have not.
        assert said == (401, f"the grant is for another {what}") or (
            what == "user" and said == (404, "no such key")
        )
        assert kit.shares_of(gateway) == before
    link.node.handle(verb, link.grant(right), body.to_bytes())


@pytest.mark.parametrize(("party", "other"), [MPC_NODES, MPC_NODES[::-1]])
@pytest.mark.parametrize("verb", ["reset", "meet"])
async def test_a_node_hears_of_the_other_with_a_grant_for_that_alone(
    gateway, client, share, verb, party, other
):
    link, hello = gateway.links[party], gateway.links[other].node.hello()
    await client.post("recover", wire.Recover(os.urandom(32), "ed25519"))
    body = {"reset": wire.Reset(), "meet": hello}[verb].to_bytes()
    for what, wrong in OTHERS.items():
        said = refusal(link.node, verb, link.grant(Scope(verb)._replace(**wrong)), body)
        assert said == (401, f"the grant is for another {what}")
        assert link.node.sessions == 1
    link.node.handle(verb, link.grant(Scope(verb)), body)
    assert link.node.sessions == (verb == "meet")
    await client.check_works(share)
