"""Recovery and activation: two phases, broken off wherever they can be."""

from contextlib import closing
from itertools import product

import pytest

from mpcsim.ids import MPC_NODES
from mpcsim.service.gateway.links.links import Link
from tests.helpers import gateway as service
from tests.helpers.tiers import fast_few


async def test_a_session_ends_though_its_node_missed_the_activation(monkeypatch, gateway, client):
    old = client.give_key("secp256k1")
    party, messages = await client.begun(old)
    await miss_activate(monkeypatch, gateway, 2, client.recover("secp256k1"))
    assert (await service.refusal(client.exchange(party.session_id, messages)))[0] == 410
    assert party.outcome is None


# ---------------------------------------------------------------------- a node misses the end


async def miss_activate(monkeypatch, gateway, party, work):
    """One MPC node does not hear of the other's vote."""
    original = Link.call

    async def call(link, scope, *arguments, **options):
        link.down = link.node.me == party and scope.verb == "activate"
        return await original(link, scope, *arguments, **options)

    monkeypatch.setattr(Link, "call", call)
    result = await work
    monkeypatch.undo()
    gateway.links[party].down = False
    states = [state for _, _, _, state, _ in service.shares_of(gateway)[party]]
    assert "voted" in states, "it has missed it"
    return result


async def by_open(gateway, client, share):
    body = client.opening(share, dict.fromkeys(MPC_NODES, b""))
    response = await client.post("open", body)
    assert (response.status_code, response.json()) == (400, {"error": "Invalid secret_store"})


async def by_sign(gateway, client, share):
    await client.check_works(share)


async def by_recover(gateway, client, share):
    await client.check_works(await client.recover(share.record.curve_name))


async def by_restart(gateway, client, share):
    await gateway.gateway.activation.resolve_at_start()


@pytest.mark.parametrize(
    ("heal", "kind", "party"),
    fast_few(
        product([by_open, by_sign, by_recover, by_restart], ["generate", "recover"], MPC_NODES), 6
    ),
)
async def test_who_missed_the_end_catches_up(monkeypatch, party, kind, heal, gateway, client):
    old = client.give_key("ed25519") if kind == "recover" else None
    begin = client.recover if old else client.generate
    share = await miss_activate(monkeypatch, gateway, party, begin("ed25519"))
    if old:
        await client.check_retired(old)
    await heal(gateway, client, share)
    for rows in service.shares_of(gateway).values():
        assert [state for _, _, _, state, _ in rows] == ["active"]


async def test_one_users_trouble_does_not_keep_the_gateway_from_starting(
    tmp_path, monkeypatch, caplog
):
    with service.started(tmp_path) as (gateway, client):
        bob = service.Client.of(gateway, "bob")
        share = bob.give_key("ed25519")
        await miss_activate(monkeypatch, gateway, 2, client.generate("ed25519"))
        with gateway.links[2].node.store._database.transaction() as cursor:
            cursor.execute("UPDATE shares SET key_id = 'damaged' WHERE state = 'voted'")
    with closing(service.reopen(tmp_path)) as gateway:
        await service.Client.of(gateway, "bob").check_works(share)
    assert "the operator holds no share of this key" in caplog.text
