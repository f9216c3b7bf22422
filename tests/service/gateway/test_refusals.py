"""What is refused though nobody honest asks for it: the MPC nodes before a gateway that asks
wrongly, and the gateway before the MPC nodes are asked at all."""

import asyncio
import os
from dataclasses import replace

import pytest

from mpcsim.ids import CLIENT, INSTITUTION, MPC_NODES, OPERATOR, ROLES
from mpcsim.protocols.engine.envelope import Envelope
from mpcsim.service.errors import Refused, key_replaced, node_unreachable
from mpcsim.service.gateway.links.links import Link, Times
from mpcsim.service.gateway.registry import KeyChanged, KeyExists
from mpcsim.service.rpc import wire
from tests.helpers import gateway as service
from tests.helpers.key_records import said_to_be_signed

NO_KEY = (404, "no such key")
NO_SESSION = (410, "no such session, or it has expired")
OF_ANOTHER_USER = (401, "the grant is for another user")
IN_USE = (409, "a session of this id is open")
EXISTS = (409, "ed25519 key already exists for this user")
NO_CURVE = (400, "Invalid curve")


def answer(link, verb, user_id, body, key_id=None):
    """Status and text of an MPC node's refusal; no gateway looks at the request first."""
    try:
        service.ask_node(link, verb, user_id, body, key_id)
    except Refused as refused:
        return refused.status, str(refused)
    return 200, ""


def asked(gateway):
    """Verbs, as the MPC nodes are asked from now on."""
    verbs = []
    for link in gateway.links.values():

        def handle(verb, grant, body, original=link.node.handle):
            verbs.append(verb)
            return original(verb, grant, body)

        link.node.handle = handle
    return verbs


def held(gateway, party):
    """State and suspension of the shares in an MPC node's store."""
    return [(state, suspended) for _, _, _, state, suspended in service.shares_of(gateway)[party]]


# ---------------------------------------------------------------------- an MPC node begins nothing


async def test_the_node_makes_keys_on_known_curves_one_each(party, gateway, client):
    link, alice = gateway.links[party], await client.user_id()
    client.give_key("ed25519")
    for curve, expected in [("secp256r1", NO_CURVE), ("ed25519", EXISTS)]:
        body = wire.Generate(os.urandom(32), curve, ())
        assert answer(link, "generate", alice, body) == expected
    assert not link.node.sessions


async def test_the_node_recovers_no_key_that_the_user_does_not_have(party, gateway, client, share):
    link, alice = gateway.links[party], await client.user_id()
    mallory = await service.Client.of(gateway, "mallory").user_id()
    for user_id, curve in [(alice, "secp256k1"), (alice, "secp256r1"), (mallory, "ed25519")]:
        body = wire.Recover(os.urandom(32), curve)
        assert answer(link, "recover", user_id, body, share.record.epoch) == NO_KEY
    assert not link.node.sessions


async def test_the_node_does_not_give_a_session_away_nor_let_others_in(party, gateway, client):
    link, alice = gateway.links[party], await client.user_id()
    mallory = await service.Client.of(gateway, "mallory").user_id()
    session_id, made = await client.begin_generate("ed25519")
    body = wire.Generate(session_id, "ed25519", ())
    assert answer(link, "generate", mallory, body) == IN_USE
    for user_id, named, expected in [
        (mallory, session_id, OF_ANOTHER_USER),
        (alice, bytes(32), NO_SESSION),
    ]:
        for verb, body in [
            ("exchange", wire.Exchange(named, ())),
            ("vote", wire.Activate(named, made.record.epoch)),
        ]:
            assert answer(link, verb, user_id, body) == expected
    assert held(gateway, party) == [("prepared", None)]
    await client.activate(session_id, made)
    await client.check_works(made)


async def test_the_node_does_nothing_with_keys_it_lacks_or_of_others(party, gateway, client, share):
    link, alice = gateway.links[party], await client.user_id()
    mallory = await service.Client.of(gateway, "mallory").user_id()
    request = client.begin_sign(share, signer=party)[1]
    for user_id, key_id in [(alice, bytes(32)), (mallory, share.record.epoch)]:
        for verb, body in [
            ("sign", replace(request, key_id=key_id)),
            ("open", wire.OpenHalf(key_id, service.REPLY_KEY, b"", request.proof)),
        ]:
            assert answer(link, verb, user_id, body) == NO_KEY, verb
    assert held(gateway, party) == [("active", None)]
    await client.check_works(share)


# ---------------------------------------------------------------------- an MPC node and its vote


async def test_the_node_votes_when_it_is_done_and_no_earlier(party, gateway, client):
    """It holds its new share before it knows that the others hold theirs."""
    client.give_key("ed25519")
    link, early, alice = gateway.links[party], [], await client.user_id()
    node, original = link.node, link.node.handle

    def handle(verb, grant, body):
        reply = original(verb, grant, body)
        for session in node._sessions:
            if session.made and not session.done:
                key_id = bytes.fromhex(session.made.key_id)
                vote = wire.Activate(session.session_id, key_id)
                grant = link.grant(service.granted("vote", alice, vote))
                with pytest.raises(Refused) as refused:
                    original("vote", grant, vote.to_bytes())
                early.append((refused.value.status, str(refused.value)))
        return reply

    node.handle = handle
    session_id, made = await client.begin_recover("ed25519")
    assert set(early) == {(409, f"the {ROLES[party]} is not done")}
    assert sorted(held(gateway, party)) == [("active", None), ("prepared", None)]
    await client.activate(session_id, made)
    await client.check_works(made)


async def test_the_node_votes_for_no_share_it_has_dropped(party, monkeypatch, gateway, client):
    """The session is called off after the node has looked for it."""
    link, alice = gateway.links[party], await client.user_id()
    session_id, made = await client.begin_generate("ed25519")
    sessions = link.node._sessions
    original = sessions.find

    def find(*arguments):
        session = original(*arguments)
        service.ask_node(link, "close", alice, wire.Close(session_id))
        return session

    monkeypatch.setattr(sessions, "find", find)
    body = wire.Activate(session_id, made.record.epoch)
    assert answer(link, "vote", alice, body) == NO_SESSION
    assert held(gateway, party) == []


# ---------------------------------------------------------------------- the gateway asks nobody


async def test_a_key_whose_shares_do_not_fit_is_not_touched(gateway, client, share):
    """What the MPC nodes hold is left as it is, until the right file is back."""
    with gateway.links[OPERATOR].node.store._database.transaction() as cursor:
        cursor.execute("DELETE FROM shares")
    await gateway.gateway.activation.resolve_at_start()
    verbs = asked(gateway)
    request = client.begin_sign(share)[1]
    for call in (client.recover("ed25519"), client.ask("sign", request)):
        status, text = await service.refusal(call)
        assert (status, text.partition(";")[0]) == (
            503,
            "the stores of the gateway and the MPC nodes do not fit together for this key",
        )
    assert set(verbs) == {"sign", "standing", "testify"}
    assert len(service.shares_of(gateway)[INSTITUTION]) == 1


@pytest.mark.parametrize("why", [KeyChanged, KeyExists])
async def test_a_key_without_a_record_is_neither_opened_nor_recovered(
    why, monkeypatch, gateway, client
):
    """It is damaged, and the registry does not take what both nodes have signed."""
    client.give_key("ed25519")
    registry, user_id = gateway.gateway.registry, await client.user_id()
    with registry._database.transaction() as cursor:
        cursor.execute("UPDATE keys SET record = NULL")

    def refuse(signed):
        raise why("another one")

    monkeypatch.setattr(registry, "put", refuse)
    activation = gateway.gateway.activation
    for call in (
        client.recover("ed25519"),
        activation.signed_record(user_id, "ed25519", Times()),
        activation.signed_record(user_id, "secp256k1", Times()),
    ):
        status, text = await service.refusal(call)
        assert (status, "do not fit together for this key" in text) == (503, True)


async def test_a_key_that_is_gone_when_it_is_to_be_recovered(monkeypatch, gateway, client):
    """The registry was put back, or written to, while the MPC nodes were asked."""
    client.give_key("ed25519")
    registry = gateway.gateway.registry

    async def resolve(*asked):
        with registry._database.transaction() as cursor:
            cursor.execute("DELETE FROM keys")

    monkeypatch.setattr(gateway.gateway.activation, "resolve", resolve)
    status, text = await service.refusal(client.recover("ed25519"))
    assert (status, "do not fit together for this key" in text) == (503, True)


async def test_a_recovery_that_waited_for_another_one_is_refused(monkeypatch, gateway, client):
    client.give_key("ed25519")
    sessions, made = gateway.gateway.sessions, []
    begin = sessions.begin

    async def after_another(*asked):
        monkeypatch.setattr(sessions, "begin", begin)
        made.append(await client.recover("ed25519"))
        return await begin(*asked)

    monkeypatch.setattr(sessions, "begin", after_another)
    assert await service.refusal(client.recover("ed25519")) == (
        409,
        "the key has been recovered meanwhile",
    )
    await client.check_works(made[0])


async def test_no_key_is_recovered_beside_a_vote_that_cannot_be_ended(gateway, client, share):
    """Both MPC nodes have voted for newer shares once, and one has lost its own."""
    newer = (b"newer".hex().ljust(64, "0"), "ed25519")
    for party in MPC_NODES:
        with gateway.links[party].node.store._database.transaction() as cursor:
            cursor.execute(
                "INSERT INTO signed (key_id, user_id, curve, what) VALUES (?, ?, ?, 'vote')",
                (newer[0], await client.user_id(), newer[1]),
            )
            if party == INSTITUTION:
                cursor.execute(
                    "INSERT INTO shares (key_id, user_id, curve, public_key, share, state,"
                    " recoveries, predecessor, record) SELECT ?, user_id, curve, public_key,"
                    " share, 'voted', recoveries + 1, key_id, record FROM shares",
                    newer[:1],
                )
    status, text = await service.refusal(client.recover("ed25519"))
    assert (status, "do not fit together for this key" in text) == (503, True)
    await client.check_works(share)


CANNOT_BE_BEGUN = [
    ("generate", "secp256r1", NO_CURVE),
    ("generate", "ed25519", EXISTS),
    ("recover", "secp256r1", NO_CURVE),
    ("recover", "secp256k1", (404, "no secp256k1 key is registered for this user")),
]


@pytest.mark.parametrize(("verb", "curve", "expected"), CANNOT_BE_BEGUN)
async def test_what_cannot_be_begun_reaches_no_mpc_node(verb, curve, expected, gateway, client):
    client.give_key("ed25519")
    verbs = asked(gateway)
    session_id = os.urandom(32)
    bodies = {
        "generate": wire.Generate(session_id, curve, ()),
        "recover": wire.Recover(session_id, curve),
    }
    assert await service.refusal(client.ask(verb, bodies[verb])) == expected
    assert verbs == []


async def test_a_session_id_in_use_is_refused_and_its_session_goes_on(gateway, client):
    mallory = service.Client.of(gateway, "mallory")
    own = mallory.give_key("secp256k1")
    session_id, made = await client.begin_generate("ed25519")
    verbs = asked(gateway)
    for verb, body in [
        ("generate", wire.Generate(session_id, "ed25519", ())),
        ("recover", wire.Recover(session_id, "secp256k1")),
        ("sign", replace(mallory.begin_sign(own)[1], session_id=session_id)),
    ]:
        assert await service.refusal(mallory.ask(verb, body)) == IN_USE
    assert set(verbs) == {"standing"}
    await client.activate(session_id, made)
    await client.check_works(made)
    # No turn of Mallory's key is left behind.
    await mallory.check_works(own)
    await mallory.recover("secp256k1")


async def test_a_vault_that_cannot_be_opened_begins_no_session(gateway, client, ec_share):
    _, body = client.begin_sign(ec_share)
    halves = dict.fromkeys(MPC_NODES, b"half")
    vault = wire.Vault(service.REPLY_KEY, halves, {OPERATOR: body.proof}, 0)
    verbs = asked(gateway)
    status, _ = await service.refusal(client.ask("sign", replace(body, signer=2, vault=vault)))
    assert (status, verbs, gateway.gateway.sessions.open_sessions) == (400, [], [])


# ---------------------------------------------------------------------- what has changed meanwhile


@pytest.mark.parametrize("verb", ["exchange", "activate"])
async def test_who_waited_for_a_session_that_is_off_finds_none(monkeypatch, verb, gateway, client):
    """The request before has failed, and no MPC node could be told that the session is off: they
    would go on, and make the key of a client that has heard of the failure."""
    session_id, made = await client.begin_generate("ed25519")
    original, entered, leave = Link.call, asyncio.Event(), asyncio.Event()
    failing = True

    async def call(link, scope, *arguments, **options):
        if failing and scope.verb in ("exchange", "close"):
            entered.set()
            await leave.wait()
            raise node_unreachable(link.node.me)
        return await original(link, scope, *arguments, **options)

    monkeypatch.setattr(Link, "call", call)
    noise = tuple(
        Envelope(9, 1, False, CLIENT, party, session_id, b"").encode() for party in MPC_NODES
    )
    bodies = {
        "exchange": wire.Exchange(session_id, noise),
        "activate": wire.Activate(session_id, made.record.epoch),
    }
    lock = gateway.gateway.sessions._sessions[session_id].lock
    first = asyncio.create_task(client.ask("exchange", bodies["exchange"]))
    await entered.wait()
    second = asyncio.create_task(client.ask(verb, bodies[verb]))
    await service.until(lambda: lock._waiters)
    leave.set()
    assert (await service.refusal(first))[0] == 503
    failing = False
    assert await service.refusal(second) == NO_SESSION
    assert await client.key_ids() == {}
    monkeypatch.undo()
    await client.check_consistent("ed25519")


async def test_a_recovery_replaces_the_key_it_began_with_or_none(gateway, client, share):
    """Whatever else has changed the registry: no MPC node votes."""
    session_id, made = await client.begin_recover("ed25519")
    user_id, other = await client.user_id(), os.urandom(32).hex()
    public_key = share.public_key.encode()
    newer = said_to_be_signed(user_id, other, "ed25519", public_key, 1)
    gateway.gateway.registry.put(newer)
    verbs = asked(gateway)
    expected = 409, "the key has been recovered meanwhile"
    assert await service.refusal(client.activate(session_id, made)) == expected
    assert set(verbs) == {"close"}
    assert await client.key_ids() == {"ed25519": other}


async def test_nobody_asks_again_about_a_key_retired_meanwhile(monkeypatch, gateway, client):
    old = client.give_key("ed25519")
    original, recovered = Link.call, []

    async def call(link, scope, *arguments, **options):
        if scope.verb == "sign" and not recovered:
            recovered.append(await client.recover("ed25519"))
            verbs.clear()
        return await original(link, scope, *arguments, **options)

    verbs = asked(gateway)
    monkeypatch.setattr(Link, "call", call)
    assert await service.refusal(client.sign(old)) == (404, str(key_replaced()))
    assert verbs == ["sign"]
    await client.check_works(*recovered)
