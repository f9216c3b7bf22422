"""What a node may ask of the gateway: answers, refusals and their status codes."""

from dataclasses import replace

import pytest

from mpcsim.crypto.rng import SystemRng
from mpcsim.ids import CLIENT, INSTITUTION, OPERATOR
from mpcsim.service.errors import key_replaced
from mpcsim.service.rpc import session_keys, wire
from mpcsim.service.rpc.session_keys import SessionKey
from mpcsim.service.vault import EncryptedShare, ReplyKey, SecretStore, open_share
from tests.helpers import gateway as service

NO_KEY = (404, "no such key")
REPLACED = (404, str(key_replaced()))
NO_SESSION = (410, "no such session, or it has expired")


# ---------------------------------------------------------------------- what works


async def test_a_vault_opens_for_its_user_and_key_only(gateway, client):
    other, share = [client.give_key(curve) for curve in service.CURVES]
    user_id = await client.user_id()
    sealed, text = service.seal(gateway, user_id, share)
    sealed, store = EncryptedShare.from_text(sealed), SecretStore.from_text(text)
    reply_key = ReplyKey(SystemRng())
    epoch = share.record.epoch

    request = client.opening(share, store.halves, reply_key.public)
    reply = await client.ask("open", request)
    assert client.requests.count("open") == 1
    with reply_key.combine(
        wire.VaultOpened.from_bytes(reply).halves, service.seal_keys(gateway)
    ) as key:
        assert bytes(open_share(sealed, store, key, user_id)) == service.SEALED

    bad = 400, "Invalid secret_store"
    half = store.halves[OPERATOR]
    swapped = {OPERATOR: store.halves[INSTITUTION], INSTITUTION: half}
    damaged = {**store.halves, OPERATOR: half[:-1] + bytes([half[-1] ^ 1])}
    foreign = SecretStore.from_text(service.seal(gateway, "0" * 32, share)[1]).halves
    for key_id, halves, answer in [
        (epoch, swapped, bad),
        (epoch, damaged, bad),
        (epoch, foreign, bad),
        (other.record.epoch, store.halves, bad),
        (epoch, {OPERATOR: half}, bad),
        (epoch, {**store.halves, CLIENT: half}, bad),
        (bytes(32), store.halves, NO_KEY),
    ]:
        of = other if key_id == other.record.epoch else share
        body = replace(client.opening(of, halves), key_id=key_id)
        assert await service.refusal(client.ask("open", body)) == answer
    mallory = service.Client.of(gateway, "mallory")
    assert await service.refusal(mallory.ask("open", request)) == NO_KEY
    await client.recover("ed25519")
    assert await service.refusal(client.ask("open", request)) == REPLACED
    narrow = await client.request("GET", f"/wallet/v1/token?id={other.record.epoch.hex()}")
    for stranger in (mallory, replace(client, token=narrow.json()["token"])):
        assert await service.refusal(stranger.ask("open", request)) == NO_KEY
    await client.recover("ed25519")
    assert await service.refusal(client.ask("open", request)) == NO_KEY


async def test_a_vault_of_a_key_that_is_recovered_while_it_is_opened(party, gateway, client, share):
    """Its shares are no more: that is said, and not taken for somebody's fault."""
    store = client.store(share)
    request = client.opening(share, store.halves)
    port = gateway.links[party].port
    handle = port.handle

    async def slow(verb, grant, body):
        reply = await handle(verb, grant, body)
        if verb == "open":
            await client.recover("ed25519")
        return reply

    port.handle = slow
    assert await service.refusal(client.ask("open", request)) == REPLACED


# ---------------------------------------------------------------------- what is refused


async def test_what_is_no_body_of_the_verb_is_malformed(client):
    for verb in ("open", "generate", "recover", "sign", "exchange", "activate"):
        for body in (b"", b"\0", b"\xff" * 200, bytes(5000)):
            response = await client.post(verb, body)
            assert response.status_code == 400
            assert response.json()["error"].startswith(f"{verb}: ")


async def test_a_signing_request_must_fit_its_key(gateway, client, ec_share):
    _, good = client.begin_sign(ec_share)
    short = client.proven(ec_share, replace(good, message=b"short"))
    for bad, error in [
        (replace(good, signer=1), "the signer is neither the operator nor the institution"),
        (replace(good, signer=9), "the signer is neither the operator nor the institution"),
        (short, "message hash of 5 bytes, expected 32"),
    ]:
        assert await service.refusal(client.ask("sign", bad)) == (400, error)
    await client.check_works(ec_share)


async def test_the_key_that_is_activated_must_be_the_sessions_own(client):
    session_id, _ = await client.begin_generate("ed25519")
    body = wire.Activate(session_id, bytes(32))
    said = 409, "this session has not made that key"
    assert await service.refusal(client.ask("activate", body)) == said
    assert await client.key_ids() == {}
    await client.check_consistent("ed25519")


async def test_what_is_not_made_cannot_be_activated(gateway, client, share):
    session_id = service.fresh_session()
    await client.ask("recover", wire.Recover(session_id, "ed25519"))
    response = await client.post("activate", wire.Activate(session_id, share.record.epoch))
    assert response.status_code == 409
    await client.check_works(share)
    await client.recover("ed25519")  # and nothing is in the way


async def test_a_signing_session_activates_nothing(gateway, client, ec_share):
    _, request = client.begin_sign(ec_share)
    await client.ask("sign", request)
    body = wire.Activate(request.session_id, ec_share.record.epoch)
    said = 400, "a signing session makes no key"
    assert await service.refusal(client.ask("activate", body)) == said


# ---------------------------------------------------------------------- who is who


async def test_another_users_session_cannot_be_told_from_none(gateway, client, ec_share):
    mallory = service.Client.of(gateway, "mallory")
    session_id, made = await client.begin_generate("ed25519")
    empty = wire.Exchange(session_id, ())
    assert await service.refusal(mallory.ask("exchange", empty)) == NO_SESSION
    body = wire.Activate(session_id, made.record.epoch)
    assert await service.refusal(mallory.ask("activate", body)) == NO_SESSION
    await client.activate(session_id, made)
    party, messages = await client.begun(ec_share)
    stolen = wire.Exchange(party.session_id, messages)
    assert await service.refusal(mallory.ask("exchange", stolen)) == NO_SESSION
    await client.finished(ec_share, party, messages)


@pytest.mark.parametrize(("forwarding", "signer"), [("store", 2), ("stream", 2), ("stream", 3)])
async def test_a_token_alone_enters_no_open_session(gateway, client, ec_share, forwarding, signer):
    """Another with a token of the same user: whatever it sends, as whoever, the session goes on."""
    making, made = await client.begin_generate("ed25519")
    party, messages = await client.begun(ec_share, signer)
    exchange = wire.Exchange(party.session_id, messages).to_bytes()
    activate = wire.Activate(making, made.record.epoch).to_bytes()
    other = SessionKey()
    for verb, body in (("exchange", exchange), ("activate", activate)):
        key = service.SESSIONS[body[:32]]
        for header in (
            None,
            "",
            "zz",
            other.proof(verb, body),
            key.proof(verb, body[:-1]),
            key.proof("exchange" if verb == "activate" else "activate", body),
            key.proof(verb, body)[:-2],
        ):
            headers = {"Content-Type": wire.MEDIA_TYPE}
            headers |= {} if header is None else {session_keys.HEADER: header}
            answer = await client.request("POST", wire.PREFIX + verb, content=body, headers=headers)
            assert (answer.status_code, answer.json()["error"]) == NO_SESSION, (verb, header)
    await client.finished(ec_share, party, messages)
    await client.activate(making, made)


async def test_an_expired_token_calls_off_only_what_its_holder_has_opened(gateway, client):
    making, made = await client.begin_generate("ed25519")
    user_id, body = await client.user_id(), wire.Activate(making, made.record.epoch).to_bytes()
    for stolen in (None, "00" * 64, service.SESSIONS[making].proof("exchange", body)):
        await gateway.gateway.cancel_session(user_id, "activate", body, stolen)
    proof = service.SESSIONS[making].proof("activate", body)
    await gateway.gateway.cancel_session("another user", "activate", body, proof)
    assert len(gateway.gateway.sessions.open_sessions) == 1
    await gateway.gateway.cancel_session(user_id, "activate", body, proof)
    assert len(gateway.gateway.sessions.open_sessions) == 0


WRONG_HEADERS = [
    ({"sender": 3}, "messages: party 1 speaks for 3"),
    ({"sender": 2}, "messages: party 1 speaks for 2"),
    ({"receiver": 1}, "messages: party 1 takes no part"),
    ({"receiver": 3}, "messages: party 3 takes no part"),
    ({"receiver": 7}, "messages: party 7 takes no part"),
    ({"session_id": bytes(32)}, "messages: of another session"),
]


async def test_envelopes_are_the_clients_to_who_takes_part(gateway, client, share):
    _, request = client.begin_sign(share)
    (envelope,) = service.envelopes(request.messages)
    for header, error in WRONG_HEADERS:
        bad = replace(request, messages=(replace(envelope, **header).encode(),))
        assert await service.refusal(client.ask("sign", bad)) == (400, error)
    for garbage in (b"", b"x", bytes(100)):
        bad = replace(request, messages=(garbage,))
        status, error = await service.refusal(client.ask("sign", bad))
        assert (status, error[:18]) == (400, "messages: envelope")
    await client.check_works(share)  # no turn is left behind
