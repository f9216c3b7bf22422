"""Sessions among themselves: races, queues, lost clients, cancelled requests, links that fail."""

import asyncio
import os
import threading
from contextlib import suppress
from functools import partial

import pytest

from mpcsim.ids import CLIENT, MPC_NODES, OPERATOR, ROLES
from mpcsim.protocols import reshare
from mpcsim.protocols.engine.envelope import ABORT_KIND, Envelope
from mpcsim.service.errors import Refused
from mpcsim.service.gateway.defaults import LEASE_S
from mpcsim.service.gateway.links.links import Link, Times
from mpcsim.service.gateway.registry import Registry
from mpcsim.service.gateway.sessions import sessions
from mpcsim.service.rpc import wire
from tests.helpers.gateway import Client, refusal, shares_of, until
from tests.helpers.key_records import said_to_be_signed

EXISTS = "ed25519 key already exists for this user"
QUEUE_FULL = "a signing session for this key is in progress"
SIGNING = f"{QUEUE_FULL}; with the gateway's --queue, calls wait"
RECOVERING = "a recovery for this key is in progress"
GENERATING = "a generation for this key is in progress"
GONE = "no such session, or it has expired"


def signing_line(gateway, share):
    """Requests that wait for a turn with the operator."""
    return gateway.gateway.sessions._signing._waiters.get(((2,), share.record.epoch.hex()), ())


def nothing_open(gateway):
    """No session, no turn, and nothing still to be told."""
    service = gateway.gateway.sessions
    return not any(
        [
            service._sessions,
            service._signing._waiters,
            service._making._waiters,
            service._key_creation_slots._waiters,
            service._close_later,
            *(
                link.node.sessions or link.node._sessions._exclusive
                for link in gateway.links.values()
            ),
        ]
    )


@pytest.fixture
def gateway(gateway):
    """After which nothing is open, whatever the test did."""
    yield gateway
    assert nothing_open(gateway)


# ---------------------------------------------------------------------- one at a time


async def test_the_log_has_key_and_session_of_every_request(monkeypatch, gateway, client, ec_share):
    noted = []
    monkeypatch.setattr(sessions, "annotate_request", lambda **fields: noted.append(fields))
    party, messages = await client.begun(ec_share)
    await client.finished(ec_share, party, messages)
    named = {"key_id": ec_share.record.epoch.hex(), "session_id": party.session_id}
    assert noted == 2 * [named]


async def test_a_second_signature_is_refused_and_the_first_unharmed(gateway, client, ec_share):
    party, messages = await client.begun(ec_share)
    for _ in range(3):
        assert await refusal(client.sign(ec_share)) == (409, SIGNING)
    await client.sign(ec_share, signer=3)  # the other MPC node is free
    await client.finished(ec_share, party, messages)
    await client.sign(ec_share)


# ---------------------------------------------------------------------- lost clients


async def test_a_session_heard_of_after_it_was_called_off_is_closed(clock, gateway, client, share):
    """It took longer on its way than the word that it was off."""
    arrived, go = asyncio.Event(), asyncio.Event()
    original = Link.call

    async def call(link, scope, *arguments, **options):
        if scope.verb == "recover":
            arrived.set()
            await go.wait()
        return await original(link, scope, *arguments, **options)

    for link in gateway.links.values():
        link.call = partial(call, link)
    recovery = asyncio.create_task(client.begin_recover("ed25519"))
    await arrived.wait()
    clock.now += 60
    await client.sign(share)
    assert nothing_open(gateway)
    go.set()
    assert await refusal(recovery) == (410, GONE)
    assert nothing_open(gateway)
    assert all(len(rows) == 1 for rows in shares_of(gateway).values())


async def test_a_client_that_says_it_gives_up_leaves_nothing_behind(gateway, client):
    client.give_key("ed25519")
    session_id, _ = await client.begin_recover("ed25519")  # both MPC nodes are prepared
    number = reshare.RESHARE.number
    notices = [
        Envelope(number, ABORT_KIND, False, CLIENT, party, session_id, b"").encode()
        for party in MPC_NODES
    ]
    await client.exchange(session_id, notices)
    assert nothing_open(gateway)
    await client.recover("ed25519")


async def test_one_making_for_a_user_and_curve(gateway, client):
    first = await client.begin_generate("ed25519")
    assert await refusal(client.begin_generate("ed25519")) == (409, GENERATING)
    other = await client.begin_generate("secp256k1")
    assert len(gateway.gateway.sessions._sessions) == 2
    assert all(link.node.sessions == 2 for link in gateway.links.values())
    for begun in (first, other):
        await client.activate(*begun)
        await client.check_works(begun[1])


# ---------------------------------------------------------------------- two clients make a key


async def test_a_generation_whose_place_was_taken_does_not_come_into_force(clock, gateway, client):
    late = await client.begin_generate("ed25519")
    clock.now += LEASE_S
    begun = await client.begin_generate("ed25519")
    assert await refusal(client.activate(*late)) == (410, GONE)
    await client.activate(*begun)
    assert await refusal(client.activate(*late)) == (410, GONE)
    await client.check_works(begun[1])
    await client.check_retired(late[1])


async def test_who_is_not_signed_up_makes_no_key(gateway, client):
    """The token is genuine, and the registry is older than it."""
    client.token = gateway.issuer.issue_access("0" * 32, "alice", 60)
    assert await refusal(client.begin_generate("ed25519")) == (404, "no such user")
    assert not any(shares_of(gateway).values())


async def test_a_key_that_is_registered_meanwhile_is_not_replaced_by_a_generation(gateway, client):
    """However it came there: sessions do not let it happen."""
    session_id, share = await client.begin_generate("ed25519")
    registry, key_id = gateway.gateway.registry, os.urandom(32).hex()
    public_key = share.public_key.encode()
    registry.put(said_to_be_signed(await client.user_id(), key_id, "ed25519", public_key))
    assert await refusal(client.activate(session_id, share)) == (409, EXISTS)
    assert await client.key_ids() == {"ed25519": key_id}


# ---------------------------------------------------------------------- links that fail


@pytest.mark.parametrize("down", MPC_NODES)
async def test_a_node_out_of_reach_is_named_and_leaves_no_lock(down, gateway, client, ec_share):
    client.give_key("ed25519")
    party, messages = await client.begun(ec_share, down)
    gateway.links[down].down = True
    response = await client.post("exchange", wire.Exchange(party.session_id, messages))
    assert response.status_code == 503
    error = f"the {ROLES[down]}'s MPC node cannot be reached"
    assert response.json() == {"error": error, "party": down}
    making = (client.recover("ed25519"), Client.of(gateway, "bob").generate("ed25519"))
    for refused in (client.sign(ec_share, signer=down), *making):
        assert (await refusal(refused))[0] == 503
    gateway.links[down].down = False
    assert gateway.links[down].node.sessions == 1, "it could not be told"
    await client.sign(ec_share, signer=down)
    await client.recover("ed25519")


async def test_only_before_the_next_key_an_interrupted_activation_ends_votes(
    monkeypatch, gateway, client
):
    made, activation = [], gateway.gateway.activation

    async def run(decision, times):
        made.append(decision)
        decision.failures.append(Refused(409, "no"))  # which is no node that fails

    monkeypatch.setattr(activation, "_run_decision", run)
    at = await client.user_id(), "ed25519"
    await activation._resume_interrupted(*at)
    for aborting in ({}, {"aborting": False}):
        await activation.resolve(*at, Times(), **aborting)
    assert [decision._aborting for decision in made] == [False, True, False]


async def test_a_node_that_fails_in_an_activation_is_named_and_the_next_goes_well(
    monkeypatch, caplog, gateway, client
):
    session_id, share = await client.begin_generate("ed25519")
    call = gateway.links[OPERATOR].call

    async def failing(scope, *rest):
        if scope.verb != "close":
            raise ValueError("a secret")
        return await call(scope, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(gateway.links[OPERATOR], "call", failing)
        status, error = await refusal(client.activate(session_id, share))
    assert (status, "the operator's MPC node has failed" in error) == (500, True)
    assert "operator vote: ValueError" in caplog.messages
    assert "a secret" not in caplog.text
    await client.check_works(await client.generate("ed25519"))


async def test_of_two_refusals_to_vote_the_first_is_told(monkeypatch, gateway, client):
    session_id, share = await client.begin_generate("ed25519")
    original = Link.call

    async def call(link, scope, *rest):
        if scope.verb == "vote":
            raise Refused(409, f"no vote of {ROLES[link.port.me]}")
        return await original(link, scope, *rest)

    monkeypatch.setattr(Link, "call", call)
    _, error = await refusal(client.activate(session_id, share))
    assert "no vote of operator" in error


@pytest.mark.parametrize("asks", ["for the record", "to sign"])
async def test_who_asks_about_a_key_ends_no_vote(asks, monkeypatch, gateway, client):
    share, activation, asked = client.give_key("ed25519"), gateway.gateway.activation, []

    async def resolve(*arguments, aborting=True):
        asked.append(aborting)

    monkeypatch.setattr(activation, "resolve", resolve)
    if asks == "to sign":
        with gateway.links[OPERATOR].node.store._database.transaction() as cursor:
            cursor.execute("DELETE FROM shares")
        assert (await refusal(client.sign(share)))[0] == 404
    else:
        with activation._registry._database.transaction() as cursor:
            cursor.execute("UPDATE keys SET record = NULL")
        with pytest.raises(Refused):
            await activation.signed_record(await client.user_id(), "ed25519", Times())
    assert asked == [False]


# ---------------------------------------------------------------------- requests that are cancelled


@pytest.mark.parametrize("verb", ["vote", "activate"])
@pytest.mark.parametrize("nth", [1, 2])
@pytest.mark.parametrize("kind", ["generate", "recover"])
async def test_an_activation_outlives_its_caller(monkeypatch, verb, nth, kind, gateway, client):
    """Cancelled while the MPC nodes vote, or are told of it: it is done all the same."""
    calls = []
    old = client.give_key("ed25519") if kind == "recover" else None
    begin = client.begin_recover if old else client.begin_generate
    session_id, share = await begin("ed25519")
    original = Link.call

    async def cancelling(link, scope, *arguments, **options):
        if scope.verb == verb:
            calls.append(scope.verb)
            if len(calls) == nth:
                activating.cancel()
        return await original(link, scope, *arguments, **options)

    monkeypatch.setattr(Link, "call", cancelling)
    activating = asyncio.create_task(client.activate(session_id, share))
    with suppress(asyncio.CancelledError):
        await activating
    monkeypatch.undo()
    assert (await client.key_ids())["ed25519"] == share.record.epoch.hex()
    await client.check_works(share)
    assert nothing_open(gateway)
    for rows in shares_of(gateway).values():
        assert [state for _, _, _, state, _ in rows] == ["active"]


async def test_nobody_decides_while_the_registry_is_written(monkeypatch, gateway, client):
    """The caller is gone; whoever comes next waits for the decision, and finds it."""
    original, entered, leave = Registry.put, threading.Event(), threading.Event()

    def slow(registry, *arguments):
        entered.set()
        assert leave.wait(10)
        return original(registry, *arguments)

    session_id, share = await client.begin_generate("ed25519")
    monkeypatch.setattr(Registry, "put", slow)
    activating = asyncio.create_task(client.activate(session_id, share))
    await asyncio.to_thread(entered.wait, 10)
    activating.cancel()
    assert gateway.gateway.activation.decision_lock(client.token_user, "ed25519").locked()
    leave.set()
    assert await refusal(client.generate("ed25519")) == (409, EXISTS)


async def test_a_cancelled_signing_request_leaves_no_lock(monkeypatch, gateway, client, share):
    original = Link.call

    async def cancelling(link, scope, *arguments, **options):
        if scope.verb == "sign":
            signing.cancel()
            await asyncio.sleep(0)
        return await original(link, scope, *arguments, **options)

    monkeypatch.setattr(Link, "call", cancelling)
    signing = asyncio.create_task(client.sign(share))
    with pytest.raises(asyncio.CancelledError):
        await signing
    monkeypatch.undo()
    await until(lambda: nothing_open(gateway))
    await client.check_works(share)


async def test_signing_goes_on_while_a_commit_waits_for_the_disk(tmp_path, gateway, client, share):
    entered, leave = threading.Event(), threading.Event()

    def hold():
        databases = [gateway.gateway.registry._database]
        databases += [link.node.store._database for link in gateway.links.values()]
        with databases[0].transaction(), databases[1].transaction(), databases[2].transaction():
            entered.set()
            assert leave.wait(10)

    writing = asyncio.create_task(asyncio.to_thread(hold))
    await asyncio.to_thread(entered.wait, 10)
    recovering = asyncio.create_task(client.recover("ed25519"))
    for _ in range(5):
        await client.check_works(share)
    assert not recovering.done()
    leave.set()
    await writing
    await client.check_works(await recovering)
