"""Tokens for one key, at every verb: they open its vault and sign with it."""

import os
from dataclasses import replace
from unittest.mock import create_autospec

import pytest

from mpcsim.service.gateway.api.token_keys import TokenKeys
from mpcsim.service.gateway.registry import Registry, SigningKeys
from mpcsim.service.rpc import wire
from mpcsim.service.rpc.tokens import TokenIssuer, TokenVerifier, make_signing_key
from tests.helpers.gateway import CURVES


async def holder_of(client, share):
    """A caller with a token for one key."""
    path = f"/wallet/v1/token?id={share.record.epoch.hex()}"
    reply = await client.request("GET", path)
    assert reply.headers["cache-control"] == "no-store"
    return replace(client, token=reply.json()["token"])


@pytest.mark.parametrize(("ends", "deleted"), [((), 0), ((11, 50), 0), ((10, 50), 1)])
async def test_an_earlier_key_is_deleted_once_it_has_ended(ends, deleted):
    pem = make_signing_key()
    (jwk,) = TokenIssuer(pem).jwks()["keys"]
    registry = create_autospec(Registry, instance=True)
    registry.signing_keys.return_value = SigningKeys(pem, tuple(jwk | {"exp": end} for end in ends))
    await TokenKeys(registry, "gateway", lambda: 10.0).delete_expired_keys()
    assert registry.forget_signing_keys.call_count == deleted


async def test_a_key_token_opens_the_vault_of_its_key_and_signs_with_it(gateway, client):
    keys = [client.give_key(curve) for curve in CURVES]
    for share, other in (keys, reversed(keys)):
        holder = await holder_of(client, share)
        halves = client.store(share).halves
        opening = client.opening(share, halves)
        await holder.ask("open", opening)
        await holder.check_works(share)
        party, request = client.begin_sign(other)
        await client.ask("sign", request)
        for verb, body, status in [
            ("open", replace(opening, key_id=other.record.epoch), 404),
            ("sign", client.begin_sign(other)[1], 404),
            ("exchange", wire.Exchange(party.session_id, ()), 410),
        ]:
            assert (await holder.post(verb, body)).status_code == status, verb


async def test_a_key_token_ends_with_the_token_that_it_was_got_with(wall_clock, gateway, client):
    """Else a stolen access token would be good for another hour a second before its end."""
    share, user_id = client.give_key("ed25519"), await client.user_id()
    client.token = gateway.issuer.issue_access(user_id, "alice", 60)
    verifier = TokenVerifier(gateway.issuer.jwks(), "gateway", wall_clock)
    ends = verifier.verify(client.token).expires_at
    for waited_s in (0.25, 59):
        wall_clock.now = ends - 60 + waited_s
        path = f"/wallet/v1/token?id={share.record.epoch.hex()}"
        reply = (await client.request("GET", path)).json()
        assert verifier.verify(reply["token"]).expires_at == ends
        assert 0 < reply["expires_in"] < ends - wall_clock.now + 1


@pytest.mark.parametrize("kind", ["generate", "recover"])
async def test_a_key_token_makes_no_key_and_retires_none(kind, gateway, client, share):
    holder = await holder_of(client, share)
    curve = {"generate": "secp256k1", "recover": "ed25519"}[kind]
    begin = getattr(client, f"begin_{kind}")
    for verb, body in [
        ("generate", wire.Generate(os.urandom(32), "secp256k1", ())),
        ("recover", wire.Recover(os.urandom(32), "ed25519")),
    ]:
        assert (await holder.post(verb, body)).status_code == 404, verb
    assert not gateway.gateway.sessions._sessions
    session_id, made = await begin(curve)
    activation = wire.Activate(session_id, made.record.epoch)
    assert (await holder.post("activate", activation)).status_code == 404
    exchange = wire.Exchange(session_id, ())
    assert (await holder.post("exchange", exchange)).status_code == 410
    await client.activate(session_id, made)
    await client.check_works(made)
