"""Requests to use a key that do not come from whoever holds the client's share of it."""

import os
from dataclasses import replace

import pytest

from mpcsim.ids import INSTITUTION, OPERATOR, ROLES
from mpcsim.service import vault
from mpcsim.service.mpc_node import boot
from mpcsim.service.mpc_node.verbs import signing as signing_verbs
from mpcsim.service.rpc import wire
from tests.helpers import gateway as service


class Untouchable:
    """A seal key that is there to be named, and not to be used."""

    def __init__(self, public):
        self.public = public

    @property
    def secret(self):
        pytest.fail("the seal key was used")


@pytest.fixture
def refused(monkeypatch):
    """Sees that a request is refused, that nothing of a key was touched for it, and that nothing
    has changed."""

    async def refused(gateway, client, verb, body, status=400, *, party=OPERATOR):
        before = service.shares_of(gateway)
        with monkeypatch.context() as patched:
            patched.setattr(signing_verbs, "signer", lambda *_, **__: pytest.fail("begun"))
            for link in gateway.links.values():
                node = link.node
                if node.me != party:  # it would open its half
                    patched.setattr(node, "handle", lambda *_: wire.Half(b"").to_bytes())
                patched.setattr(node._boot, "seal_key", Untouchable(node._boot.seal_key.public))
                patched.setattr(node._sessions, "begin", lambda *_, **__: pytest.fail("begun"))
            response = await client.post(verb, body)
        assert response.status_code == status, response.text
        error = response.json()["error"]
        if status == 412:
            assert error == f"the {ROLES[party]}'s MPC node has another boot than this is for"
        else:
            assert error == (
                f"the {ROLES[party]} takes this for no request of whoever holds the client's share"
            )
        assert service.shares_of(gateway) == before
        assert all(why is None for rows in before.values() for *_, why in rows)
        assert not any(link.node._sessions for link in gateway.links.values())
        assert not gateway.gateway.sessions._sessions

    return refused


def signing(client, request, **changes):
    """What a request to sign is about, or something else."""
    use = vault.VaultUse.for_signing(
        request.key_id,
        client.token_user,
        request.proof.boot,
        vault.SigningRequest(request.signer, request.session_id, request.message, request.path),
        request.first,
    )
    return use._replace(**changes)


async def test_a_gateway_that_has_something_else_opened(gateway, client, ec_share, refused):
    """Everything that a request to open a vault has in it, with the client's own proofs."""
    other, honest = (
        client.give_key("ed25519"),
        client.opening(ec_share, client.store(ec_share).halves),
    )
    for change in ({"reply_key": bytes(32)}, {"key_id": other.record.epoch}):
        await refused(gateway, client, "open", replace(honest, **change))
    await client.ask("open", honest)


async def test_a_gateway_that_has_something_else_signed(gateway, client, share, refused, curve):
    """Everything that a request to sign has in it, with the client's own proof."""
    other = service.Client.of(gateway, "bob").give_key(curve)
    mine = client.give_key(next(c for c in service.CURVES if c != curve))
    _, twin = client.begin_sign(share)
    for change in [
        {"message": bytes(32)},
        {"session_id": os.urandom(32), "messages": ()},
        {"session_id": twin.session_id, "messages": twin.messages},
        {"key_id": mine.record.epoch},
        {"first": (*vault.sha256_each(twin.messages),)},
        {"first": ()},
        {"path": (7,)},
    ]:
        _, request = client.begin_sign(share)
        await refused(gateway, client, "sign", replace(request, **change))
    _, request = client.begin_sign(share)
    moved = replace(request, signer=INSTITUTION, messages=())
    await refused(gateway, client, "sign", moved, 412, party=INSTITUTION)
    boot = client.hellos()[INSTITUTION].boot
    moved = replace(moved, proof=replace(moved.proof, boot=boot))
    await refused(gateway, client, "sign", moved, party=INSTITUTION)
    # the key of another pair, or of another user's share
    for key in (share.auth_key(INSTITUTION), other.auth_key(OPERATOR), bytes(32)):
        proof = replace(request.proof, mac=signing(client, request).mac(key))
        await refused(gateway, client, "sign", replace(request, proof=proof))
    await client.check_works(share)


async def test_a_gateway_that_puts_in_another_first_message(gateway, client, share, refused, curve):
    party, request = client.begin_sign(share)
    (good,) = service.envelopes(request.messages)
    forged = replace(good, body=bytes([good.body[0] ^ 1]) + good.body[1:]).encode()
    plain = replace(good, sealed=False).encode()
    for messages in [(forged,), (plain,), (*request.messages, forged), (forged, *request.messages)]:
        await refused(gateway, client, "sign", replace(request, messages=messages))
    # what is lost on the way, or arrives twice, is no forgery
    reply = await client.ask("sign", replace(request, messages=request.messages * 2))
    outputs = service.feed(party, wire.SignReply.from_bytes(reply).messages)
    if curve == "secp256k1":
        service.feed(party, await client.exchange(request.session_id, service.sends(outputs)))
    assert party.outcome.result
    _, request = client.begin_sign(share)
    await client.ask("sign", replace(request, messages=()))
    await client.exchange(request.session_id, request.messages)


async def test_without_a_proof_a_vault_does_not_open(gateway, client, share, refused, party):
    store = client.store(share)
    honest = client.opening(share, store.halves)
    for proofs in ({}, {j: proof for j, proof in honest.proofs.items() if j != party}):
        asked = OPERATOR if not proofs else party
        await refused(gateway, client, "open", replace(honest, proofs=proofs), party=asked)


async def test_what_a_client_has_said_is_not_said_again(monkeypatch, gateway, client, ec_share):
    """Whoever carries it could have it said twice. It does not fit what the MPC node answers the
    second time, as if the client had cheated."""
    monkeypatch.setattr(boot, "MAX_BEGUN_SESSIONS", 4)
    party, request = client.begin_sign(ec_share)
    reply = wire.SignReply.from_bytes(await client.ask("sign", request))
    said = service.sends(service.feed(party, reply.messages))
    service.feed(party, await client.exchange(request.session_id, said))
    assert party.outcome.result
    for _ in range(3):  # with the fourth session its boot is none of the last two
        response = await client.post("sign", request)
        assert response.json()["error"] == "a session of this id has been begun before"
        assert response.status_code == 409
        await client.sign(ec_share)
    response = await client.post("sign", request)
    assert response.status_code == 412
    await client.check_works(ec_share)
    assert not any(why for rows in service.shares_of(gateway).values() for *_, why in rows)
