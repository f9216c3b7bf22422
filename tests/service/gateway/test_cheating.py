"""A client that cheats: what the MPC nodes do about it, and for how long."""

from dataclasses import replace

import pytest

from mpcsim.service.mpc_node.store import ShareStore
from tests.helpers.adversary import alter_kind
from tests.helpers.gateway import Stuck, cheating, refusal, shares_of, started


def flip(data):
    return bytes([data[0] ^ 1]) + data[1:]


bad_offer = alter_kind("Offer", lambda m: replace(m, offer=replace(m.offer, t=flip(m.offer.t))))
malformed_frost = alter_kind("Commitments", lambda m: b"?")


async def suspended(gateway, client, share, party, why):
    """Both the vault and signing are refused."""
    name = {2: "operator", 3: "institution"}[party]
    error = f"this key is suspended at the {name}: {why}; recover it"
    response = await client.post("sign", client.begin_sign(share, signer=party)[1])
    assert (response.status_code, response.json()) == (409, {"error": error})
    store = client.store(share)
    body = client.opening(share, store.halves)
    response = await client.post("open", body)
    assert response.status_code == 409
    assert "this key is suspended at the " in response.json()["error"]


WHY = "OT-extension correlation check fails (by the client)"


async def test_a_cheat_that_cannot_be_stored_is_owed_and_the_other_hears_of_it(tmp_path, party):
    with started(tmp_path) as (gateway, client):
        share = client.give_key("secp256k1")
        node = gateway.links[party].node
        node.store.database._writer.execute("PRAGMA query_only = ON")
        assert (await refusal(client.sign(share, signer=party, wrap=cheating(bad_offer))))[0] == 503
        await suspended(gateway, client, share, party, WHY)
        other = gateway.links[5 - party].node.store.find(share.record.epoch.hex())
        assert other.suspended_there == node.store.pending_suspensions == 1
        node.store.database._writer.execute("PRAGMA query_only = OFF")
        node.sweep()
        assert node.store.pending_suspensions == 0
        assert shares_of(gateway)[party][0][-1] == WHY


async def test_a_cheat_is_remembered_until_the_key_is_recovered(tmp_path, party):
    with started(tmp_path) as (gateway, client):
        share = client.give_key("secp256k1")
        with pytest.raises(Stuck, match="a peer reported that it aborted"):
            await client.sign(share, signer=party, wrap=cheating(bad_offer))
        await suspended(gateway, client, share, party, WHY)
        assert not gateway.gateway.sessions._sessions
        assert not gateway.links[party].node.sessions
        (reason,) = gateway.links[party].node.aborts.elements()
        assert WHY.startswith(reason.text)
    with started(tmp_path) as (gateway, client):
        await suspended(gateway, client, share, party, WHY)
        assert [s for *_, s in shares_of(gateway)[5 - party]] == [None]
        new = await client.recover("secp256k1")
        assert new.public_key == share.public_key
        await client.check_works(new)
        await client.check_retired(share)


async def test_discarding_is_stored_before_anyone_hears(monkeypatch, gateway, client, ec_share):
    """If it cannot be stored, nobody hears of the abort, and the state is not used again."""
    original = ShareStore.suspend

    def full(*arguments):
        raise OSError("no space left on device")

    monkeypatch.setattr(ShareStore, "suspend", full)
    assert await refusal(client.sign(ec_share, wrap=cheating(bad_offer))) == (500, "internal error")
    monkeypatch.setattr(ShareStore, "suspend", original)
    assert (await refusal(client.sign(ec_share)))[0] == 409
    await client.sign(ec_share, signer=3)
    await client.check_works(await client.recover("secp256k1"))
