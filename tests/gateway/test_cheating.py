"""A client that cheats: what the MPC nodes do about it, and for how long."""

import os
from contextlib import closing
from dataclasses import replace

import pytest

from mpcsim.algebra.secp256k1 import SECP256K1
from mpcsim.ids import CLIENT, MPC_NODES, OPERATOR
from mpcsim.keyshare import KeyShare
from mpcsim.mpc_node.store import ShareStore
from mpcsim.rpc import wire
from mpcsim.vault import SecretStore
from tests.helpers.adversary import on
from tests.helpers.gateway import (
    NO_PROOF,
    Client,
    Failed,
    Stuck,
    cheating,
    delivered,
    feed,
    give_key,
    reopen,
    seal,
    sends,
    shares_of,
)


def flip(data):
    return bytes([data[0] ^ 1]) + data[1:]


bad_offer = on("Offer", lambda m: replace(m, offer=replace(m.offer, t=flip(m.offer.t))))
G = SECP256K1.base(SECP256K1.scalar(1))
bad_gamma = on("Respond", lambda m: replace(m, Gamma_u=m.Gamma_u + G))
malformed_ecdsa = on("Commit", lambda m: b"?")
malformed_frost = on("Commitments", lambda m: b"?")
other_context = on("Commitments", lambda m: replace(m, context=bytes(32)))


NONCE = "nonce used in the multiplication is not the committed one"


async def suspended(gateway, client, share, party, why):
    """Both the vault and signing are refused."""
    name = {2: "operator", 3: "institution"}[party]
    error = f"this key is suspended at the {name}: {why}; recover it"
    response = await client.post("sign", client.begin_sign(share, signer=party)[1])
    assert (response.status_code, response.json()) == (409, {"error": error})
    store = SecretStore.from_text(seal(gateway, await client.user_id(), share)[1])
    body = client.opening(share, store.halves)
    response = await client.post("open", body)
    assert response.status_code == 409
    assert "this key is suspended at the " in response.json()["error"]


@pytest.mark.parametrize(
    ("curve", "tamper", "why", "discards"),
    [
        ("secp256k1", bad_offer, "OT-extension correlation check fails", True),
        ("secp256k1", bad_gamma, NONCE, False),
        ("secp256k1", malformed_ecdsa, "message does not decode", False),
        ("ed25519", malformed_frost, "message does not decode", False),
    ],
)
@pytest.mark.parametrize("party", MPC_NODES)
async def test_a_cheat_is_remembered_until_the_key_is_recovered(
    tmp_path, curve, tamper, why, discards, party
):
    why += " (by the client)"
    with closing(reopen(tmp_path)) as gateway:
        client = Client.of(gateway)
        share = await give_key(gateway, client, curve)
        with pytest.raises(Stuck, match="a peer reported that it aborted"):
            await client.sign(share, signer=party, wrap=cheating(tamper))
        await suspended(gateway, client, share, party, why)
        assert not gateway.gateway.sessions._sessions
        assert not gateway.links[party].node._sessions
        (reason,) = gateway.links[party].node.aborts.elements()
        assert why.startswith(reason.text)
    with closing(reopen(tmp_path)) as gateway:
        client = Client.of(gateway)
        await suspended(gateway, client, share, party, why)
        node = gateway.links[party].node
        stored = KeyShare.from_bytes(node._store.find(share.record.epoch.hex()).share)
        if curve == "secp256k1":
            assert (stored.peers[CLIENT].multiplication is None) == discards
        other = 5 - party
        assert [s for *_, s in shares_of(gateway)[other]] == [None]
        new = await client.recover(curve)
        assert new.public_key == share.public_key
        await client.check_works(new)
        await client.check_retired(share)


async def test_a_cheat_is_remembered_even_if_the_stored_share_has_been_damaged_meanwhile(
    gateway, client
):
    share = await give_key(gateway, client, "secp256k1")
    party, request = client.begin_sign(share, wrap=cheating(bad_offer))
    mail = wire.Signing.from_bytes(await client.ask("sign", request)).messages
    with gateway.links[OPERATOR].node._store._database.transaction() as cursor:
        cursor.execute("UPDATE shares SET share = x'00'")
    await client.exchange(request.session_id, sends(feed(party, mail)))
    ((*_, why),) = shares_of(gateway)[OPERATOR]
    assert why == "OT-extension correlation check fails (by the client)"


async def test_a_disagreement_that_proves_nothing_suspends_nothing(gateway, client):
    share = await give_key(gateway, client, "ed25519")
    with pytest.raises(Stuck):
        await client.sign(share, wrap=cheating(other_context))
    await client.check_works(share)


async def test_discarding_is_stored_before_anyone_hears(monkeypatch, gateway, client):
    """If it cannot be stored, nobody hears of the abort, and the state is not used again."""
    share = await give_key(gateway, client, "secp256k1")
    original = ShareStore.suspend

    def full(*arguments):
        raise OSError("no space left on device")

    monkeypatch.setattr(ShareStore, "suspend", full)
    with pytest.raises(Failed) as failed:
        await client.sign(share, wrap=cheating(bad_offer))
    assert (failed.value.status, failed.value.error) == (500, "internal error")
    monkeypatch.setattr(ShareStore, "suspend", original)
    with pytest.raises(Failed) as failed:
        await client.sign(share)
    assert failed.value.status == 409
    await client.sign(share, signer=3)
    await client.check_works(await client.recover("secp256k1"))


@pytest.mark.parametrize("kind", ["begin_generate", "begin_recover"])
@pytest.mark.parametrize("message", ["Commit", "Reveal", "Deal"])
async def test_a_cheat_while_a_key_is_made_ends_that_session_and_nothing_else(
    kind, message, gateway, client
):
    old = await give_key(gateway, client, "ed25519") if kind == "begin_recover" else None
    tamper = on(message, lambda m: b"?")
    try:
        begun = await getattr(client, kind)("ed25519", wrap=cheating(tamper))
    except (Stuck, Failed):
        pass
    else:  # the client of a recovery deals nothing that could be malformed
        assert (old, message) == (old, "Deal")
        await client.activate(*begun)
        old = begun[1]
    if old:
        await client.check_works(old)
    await client.check_consistent("ed25519", old and old.public_key.encode())


@pytest.mark.parametrize("party", MPC_NODES)
async def test_the_client_hears_that_a_node_gave_up_though_the_other_still_speaks_to_it(
    party, gateway, client
):
    tamper = on("Commit", lambda m: b"?", to={party})
    with pytest.raises(Stuck, match="a peer reported that it aborted"):
        await client.begin_generate("ed25519", wrap=cheating(tamper))
    assert not gateway.gateway.sessions._sessions
    assert not any(link.node._sessions for link in gateway.links.values())
    await client.check_consistent("ed25519")


SUSPENDED = "this key is suspended: an MPC node was caught cheating with it; recover it"


def using(share):
    """Requests that use a key."""
    halves = dict.fromkeys(MPC_NODES, b"")
    yield "open", wire.OpenVault(share.record.epoch, bytes(32), halves, {})
    for signer in MPC_NODES:
        request = wire.Sign(os.urandom(32), share.record.epoch, signer, b"?", (), (), NO_PROOF)
        yield "sign", request


async def test_a_client_that_caught_a_node_cheating_suspends_its_key_everywhere(gateway, client):
    share = await give_key(gateway, client, "secp256k1")
    body = await client.suspension(share)
    await client.ask("suspend", body)
    await delivered(gateway)
    for rows in shares_of(gateway).values():
        assert [why for *_, why in rows] == ["the client caught party 2 cheating"]
    for verb, request in using(share):
        response = await client.post(verb, request)
        assert (response.status_code, response.json()) == (409, {"error": SUSPENDED})
    response = await client.post("exchange", wire.Exchange(body.occasion.session_id, ()))
    assert response.status_code == 410
    assert not gateway.links[OPERATOR].node._sessions, "open sessions end, too"
    bob = Client.of(gateway, "bob")
    await bob.check_works(await give_key(gateway, bob, "secp256k1"))
    await client.check_works(await client.recover("secp256k1"))


async def test_guessing_at_the_multiplication_state_ends_with_the_first_failure(gateway, client):
    """Sessions one after another: the second guess already finds the key suspended."""
    share = await give_key(gateway, client, "secp256k1")
    for attempt in range(3):
        with pytest.raises((Stuck, Failed)) as caught:
            await client.sign(share, message=os.urandom(32), wrap=cheating(bad_offer))
        assert isinstance(caught.value, Stuck) == (attempt == 0)
