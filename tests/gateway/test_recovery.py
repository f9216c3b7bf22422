"""Recovery and activation: two phases, broken off wherever they can be."""

import asyncio
from contextlib import closing, suppress
from dataclasses import replace
from itertools import product

import pytest

from mpcsim.gateway.links import Link
from mpcsim.ids import CLIENT, MPC_NODES
from mpcsim.keyshare import Guard, KeyShare
from mpcsim.mpc_node.node import MpcNode
from mpcsim.protocols import ecdsa, frost
from mpcsim.rpc import wire
from mpcsim.runner import run as run_parties
from tests.helpers.gateway import (
    CURVES,
    MESSAGE,
    Client,
    Clock,
    Failed,
    Stuck,
    feed,
    give_key,
    open_with,
    reopen,
    sends,
    shares_of,
)
from tests.helpers.tiers import fast_few


def nodes_share(gateway, party, key_id):
    """A copy of the share in an MPC node's store."""
    share = KeyShare.from_bytes(gateway.links[party].node.store.find(key_id).share)
    return replace(share, guard=Guard())


@pytest.mark.parametrize("curve", CURVES)
async def test_old_and_new_shares_do_not_combine(curve, gateway, client):
    """Whoever has kept the old shares gains nothing by a new one."""

    protocol = ecdsa if curve == "secp256k1" else frost

    old = await give_key(gateway, client, curve)
    old_nodes = [nodes_share(gateway, party, old.record.epoch.hex()) for party in MPC_NODES]
    new = await client.recover(curve)
    assert new.public_key == old.public_key
    assert new.secret_share != old.secret_share
    for was in old_nodes:
        now = nodes_share(gateway, was.identifier, new.record.epoch.hex())
        assert now.secret_share != was.secret_share
        pairs = [(old, now), (new, was)]
        for mine, theirs in pairs:
            signers = (CLIENT, was.identifier)
            outcomes = run_parties(
                protocol.party(protocol.setup(share, signers, MESSAGE), session_id=bytes(32))
                for share in (mine, theirs)
            )
            assert not any(hasattr(outcome, "result") for outcome in outcomes.values())
            # Not by force either: the points of two polynomials do not give the key.
            forced = replace(mine.record, public_shares=theirs.record.public_shares)
            assert forced.public_shares[CLIENT] != mine.group.base(mine.secret_share)


@pytest.mark.parametrize("signer", MPC_NODES)
async def test_a_signing_session_open_during_an_activation_is_ended(signer, gateway, client):
    old = await give_key(gateway, client, "secp256k1")
    party, request = client.begin_sign(old, signer=signer)
    mail = wire.Signing.from_bytes(await client.ask("sign", request)).messages
    outputs = feed(party, mail)
    new = await client.recover("secp256k1")
    with pytest.raises(Failed) as failed:
        await client.exchange(party.session_id, sends(outputs))
    assert failed.value.status == 410
    assert party.outcome is None
    await client.check_works(new)


async def test_a_signing_session_is_ended_though_its_mpc_node_missed_the_activation(
    monkeypatch, gateway, client
):
    old = await give_key(gateway, client, "secp256k1")
    party, request = client.begin_sign(old)
    outputs = feed(party, wire.Signing.from_bytes(await client.ask("sign", request)).messages)
    await miss_activate(monkeypatch, gateway, 2, client.recover("secp256k1"))
    with pytest.raises(Failed) as failed:
        await client.exchange(party.session_id, sends(outputs))
    assert failed.value.status == 410
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
    states = [state for _, _, _, state, _ in shares_of(gateway)[party]]
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
async def test_a_node_that_missed_the_activation_catches_up(
    monkeypatch, party, kind, heal, gateway, client
):
    old = await give_key(gateway, client, "ed25519") if kind == "recover" else None
    begin = client.recover if old else client.generate
    share = await miss_activate(monkeypatch, gateway, party, begin("ed25519"))
    if old:
        await client.check_retired(old)
    await heal(gateway, client, share)
    for rows in shares_of(gateway).values():
        assert [state for _, _, _, state, _ in rows] == ["active"]


def test_one_users_trouble_does_not_keep_the_gateway_from_starting(tmp_path, monkeypatch, caplog):
    async def make():
        with closing(reopen(tmp_path)) as gateway:
            client, bob = Client.of(gateway), Client.of(gateway, "bob")
            share = await give_key(gateway, bob, "ed25519")
            await miss_activate(monkeypatch, gateway, 2, client.generate("ed25519"))
            with gateway.links[2].node.store._database.transaction() as cursor:
                cursor.execute("UPDATE shares SET key_id = 'damaged' WHERE state = 'voted'")
            return share

    async def use(share):
        with closing(reopen(tmp_path)) as gateway:
            await Client.of(gateway, "bob").check_works(share)

    share = asyncio.run(make())
    asyncio.run(use(share))
    assert "the operator holds no share of this key" in caplog.text


# ---------------------------------------------------------------------- broken off


class Lost(Exception):
    """The client is gone."""


async def begun(kind, gateway, client):
    """The user's key, if it is to be recovered."""
    return await give_key(gateway, client, "ed25519") if kind == "recover" else None


@pytest.mark.parametrize("kind", ["generate", "recover"])
@pytest.mark.parametrize("answered", [False, True])
async def test_a_client_lost_at_any_request_leaves_the_old_key_or_none(kind, answered):
    """Before its n-th request is sent, or before the answer to it has arrived."""
    verbs = []
    while "activate" not in verbs:
        with closing(open_with(clock=(clock := Clock()))) as gateway:
            client = Client.of(gateway)
            old = await begun(kind, gateway, client)
            original, left = client.post, len(verbs)

            async def post(verb, body, original=original):
                nonlocal left
                if left == 0:
                    verbs.append(verb)
                    if answered:
                        await original(verb, body)
                    raise Lost
                left -= 1
                return await original(verb, body)

            client.post = post
            with pytest.raises(Lost):
                await getattr(client, kind)("ed25519")
            client.post = original
            activated = answered and verbs[-1] == "activate"
            if old and not activated:
                await client.check_works(old)
            if old is None:
                assert bool(await client.key_ids()) == activated
            clock.now += 100  # a recovery of a lost client expires
            await client.check_consistent("ed25519", old and old.public_key.encode())
    assert len(verbs) >= 3


@pytest.mark.few(3)
@pytest.mark.parametrize("kind", ["generate", "recover"])
@pytest.mark.parametrize("how", ["request lost", "reply lost", "node restarted", "disk full"])
@pytest.mark.parametrize("every", [5, pytest.param(1, marks=pytest.mark.soak)])
async def test_an_mpc_node_lost_at_any_request_leaves_the_old_key_or_none(
    monkeypatch, kind, how, every
):
    """At the n-th request to an MPC node; afterwards everything works again at once."""
    original, at, reached = MpcNode.handle, 1, True

    def handle(node, verb, grant, body):
        nonlocal left, reached
        left -= 1
        if left != 0:
            return original(node, verb, grant, body)
        reached = True
        if how == "request lost":
            raise TimeoutError
        if how == "node restarted":
            node.restart()
        if how == "disk full":
            raise OSError("no space left on device")
        reply = original(node, verb, grant, body)
        if how == "reply lost":
            raise TimeoutError
        return reply

    while reached:
        with closing(open_with()) as gateway:
            client = Client.of(gateway)
            old = await begun(kind, gateway, client)
            left, reached = at, False
            with monkeypatch.context() as patch, suppress(Failed, Stuck):
                patch.setattr(MpcNode, "handle", handle)
                await getattr(client, kind)("ed25519")
            assert set(client.statuses) <= {200, 204, 404, 409, 410, 500, 504}
            await client.check_consistent("ed25519", old and old.public_key.encode())
        at += every
    assert at >= 14


async def test_both_votes_must_be_for_one_record(gateway, client):
    """Nothing is in force unless both MPC nodes have signed the same."""
    voting = gateway.links[3].node._voting
    genuine = voting._public_record
    voting._public_record = lambda share: replace(genuine(share), epoch=bytes(32))
    with pytest.raises(Failed) as failed:
        await client.generate("ed25519")
    assert failed.value.status == 409
    assert failed.value.response.json() == {
        "error": "the MPC nodes do not vote for the same record",
        "undecided": True,
    }
    assert await client.key_ids() == {}
    for rows in shares_of(gateway).values():
        assert [state for *_, state, _ in rows] == ["voted"]
