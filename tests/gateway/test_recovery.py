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


def run(work, **options):
    """Run ``work(gateway, client)`` with a gateway in memory."""

    async def whole():
        with closing(open_with(**options)) as gateway:
            return await work(gateway, Client.of(gateway))

    return asyncio.run(whole())


def nodes_share(gateway, party, key_id):
    """A copy of the share in an MPC node's store."""
    share = KeyShare.from_bytes(gateway.links[party].node._store.find(key_id).share)
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
            with gateway.links[2].node._store._database.transaction() as cursor:
                cursor.execute("UPDATE shares SET key_id = 'damaged' WHERE state = 'voted'")
            return share

    async def use(share):
        with closing(reopen(tmp_path)) as gateway:
            await Client.of(gateway, "bob").check_works(share)

    share = asyncio.run(make())
    asyncio.run(use(share))
    assert "the operator holds no share of this key" in caplog.text


# ---------------------------------------------------------------------- broken off


def requests_of(kind, curve):
    """How many requests to the gateway, and to the MPC nodes, an undisturbed run makes."""
    counts = []

    async def work(gateway, client):
        if kind == "recover":
            await give_key(gateway, client, curve)
        client.requests.clear()
        before = counting(gateway)
        await getattr(client, kind)(curve)
        counts.extend((len(client.requests), sum(before)))

    def counting(gateway):
        calls = []
        for link in gateway.links.values():
            original = link.node.handle

            def handle(*arguments, original=original):
                calls.append(1)
                return original(*arguments)

            link.node.handle = handle
        return calls

    run(work)
    return counts


class Lost(Exception):
    """The client is gone."""


@pytest.mark.parametrize("kind", ["generate", "recover"])
@pytest.mark.parametrize("answered", [False, True])
def test_a_client_lost_at_any_request_leaves_the_old_key_or_none(kind, answered):
    """Before its n-th request is sent, or before the answer to it has arrived."""
    requests, _ = requests_of(kind, "ed25519")
    assert requests >= 3

    async def work(gateway, client, at):
        old = await give_key(gateway, client, "ed25519") if kind == "recover" else None
        original, count = client.post, 0

        async def post(verb, body):
            nonlocal count
            count += 1
            if count == at and not answered:
                raise Lost
            response = await original(verb, body)
            if count == at:
                raise Lost
            return response

        client.post = post
        with pytest.raises(Lost):
            await getattr(client, kind)("ed25519")
        client.post = original
        activated = answered and at == requests
        if old and not activated:
            await client.check_works(old)
        if old is None:
            assert bool(await client.key_ids()) == activated
        gateway.gateway.sessions._clock.now += 100  # a recovery of a lost client expires
        await client.check_consistent("ed25519", old and old.public_key.encode())

    for at in range(1, requests + 1):
        run(lambda gateway, client, at=at: work(gateway, client, at), clock=Clock())


@pytest.mark.parametrize("kind", ["generate", "recover"])
@pytest.mark.parametrize("how", ["request lost", "reply lost", "node restarted", "disk full"])
@pytest.mark.parametrize("every", [5, pytest.param(1, marks=pytest.mark.soak)])
def test_an_mpc_node_lost_at_any_request_leaves_the_old_key_or_none(monkeypatch, kind, how, every):
    """At the n-th request to an MPC node; afterwards everything works again at once."""
    _, calls = requests_of(kind, "ed25519")
    assert calls >= 14

    async def work(gateway, client, at):
        old = await give_key(gateway, client, "ed25519") if kind == "recover" else None
        original, count = MpcNode.handle, 0

        def handle(node, verb, grant, body):
            nonlocal count
            count += 1
            if count == at and how == "request lost":
                raise TimeoutError
            if count == at and how == "node restarted":
                node.restart()
            if count == at and how == "disk full":
                raise OSError("no space left on device")
            reply = original(node, verb, grant, body)
            if count == at and how == "reply lost":
                raise TimeoutError
            return reply

        monkeypatch.setattr(MpcNode, "handle", handle)
        with suppress(Failed, Stuck):
            await getattr(client, kind)("ed25519")
        assert set(client.statuses) <= {200, 204, 404, 409, 410, 500, 504}
        monkeypatch.undo()
        assert count >= at
        await client.check_consistent("ed25519", old and old.public_key.encode())

    for at in range(1, calls + 1, every):
        run(lambda gateway, client, at=at: work(gateway, client, at))


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
