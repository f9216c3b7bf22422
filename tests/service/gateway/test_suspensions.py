"""A client that caught an MPC node cheating: its word stays, whatever happens meanwhile. And who
has caught nobody suspends nothing."""

import asyncio
import os
import threading
from contextlib import contextmanager
from dataclasses import replace

import pytest

from mpcsim.crypto.rng import SystemRng
from mpcsim.ids import INSTITUTION, MPC_NODES, OPERATOR
from mpcsim.service.gateway.activation import suspensions
from mpcsim.service.gateway.api.metrics import probes
from mpcsim.service.gateway.registry import RegisteredKey
from mpcsim.service.rpc import suspension_notices, wire
from mpcsim.service.rpc.statements import SignedRecord, SuspensionReceipt, is_signed_by
from mpcsim.service.rpc.suspension_notices import notice_digest
from mpcsim.service.storage.database import StoreFailed, StoreProblem
from mpcsim.service.web.user_limits import TokenBucket
from tests.helpers import gateway as service

SUSPENDED = "this key is suspended: an MPC node was caught cheating with it; recover it"
OFTEN = 20
CAUGHT = "the client caught party 2 cheating"


@pytest.fixture(autouse=True)
def soon(monkeypatch):
    """Attempts follow each other at once."""
    monkeypatch.setattr(suspensions, "FIRST_RETRY_S", 0.01)
    monkeypatch.setattr(suspensions, "LAST_RETRY_S", 0.05)
    monkeypatch.setattr(suspensions, "PROMPT_S", 0.05)
    monkeypatch.setattr(suspensions, "MOST_OFTEN", TokenBucket(OFTEN, 60.0))


def at_the_nodes(gateway):
    """Why the only key is suspended, by MPC node; None where it is not."""
    return {party: rows[0][-1] for party, rows in service.shares_of(gateway).items()}


async def refused(client, share):
    """Neither the vault nor a signature."""
    halves = dict.fromkeys(MPC_NODES, b"")
    requests = [("open", wire.OpenVault(share.record.epoch, bytes(32), halves, {}))]
    requests += [("sign", client.begin_sign(share, signer=signer)[1]) for signer in MPC_NODES]
    for verb, request in requests:
        assert await service.refusal(client.ask(verb, request)) == (409, SUSPENDED), verb


async def heals(client, share):
    """A recovery makes new shares of the key, and they work."""
    new = await client.recover(share.record.curve_name)
    assert new.public_key == share.public_key
    await client.check_works(new)


@pytest.mark.parametrize("curve", ["secp256k1", "ed25519"])
async def test_it_needs_no_token_and_holds_at_once_and_for_good(tmp_path, curve):
    with service.started(tmp_path) as (gateway, client):
        assert list(tmp_path.rglob("gateway*-reserve"))  # room for a suspension on a full disk
        share = client.give_key(curve)
        body = await client.suspension(share)
        service.set_down(gateway, True)
        headers = {"Content-Type": wire.MEDIA_TYPE}
        for _ in range(2):  # the answer may have been lost
            path = wire.PREFIX + "suspend"
            said = await client.http.post(path, content=body.to_bytes(), headers=headers)
            assert (said.status_code, said.content) == (204, b"")
        await refused(client, share)
        assert at_the_nodes(gateway) == {OPERATOR: None, INSTITUTION: None}
        service.set_down(gateway, False)
        await service.delivered(gateway)
        assert at_the_nodes(gateway) == {OPERATOR: CAUGHT, INSTITUTION: CAUGHT}
    with service.started(tmp_path) as (gateway, client):
        rows = gateway.gateway.registry._database.rows(
            "SELECT party, opened, length(signature) FROM suspensions ORDER BY party"
        )
        assert rows == [(OPERATOR, 1, 64), (INSTITUTION, 1, 64)]
        await refused(client, share)
        await heals(client, share)


async def test_few_wait_until_an_mpc_node_has_been_asked(monkeypatch, gateway, client, share):
    monkeypatch.setattr(suspensions, "PROMPT_S", 60.0)
    data = (await client.suspension(share)).to_bytes()
    port, go_on = gateway.links[INSTITUTION].port, asyncio.Event()
    handle = port.handle

    async def hanging(*request):
        await go_on.wait()
        return await handle(*request)

    port.handle = hanging
    suspend = gateway.gateway.suspend
    first = [asyncio.create_task(suspend(data)) for _ in range(suspensions.MAX_OF_KEY)]
    waiting = gateway.gateway.suspensions._waiting
    await service.until(lambda: waiting.total() == len(first))
    assert await suspend(data) == b""
    assert not any(each.done() for each in first)
    go_on.set()
    assert {*await asyncio.gather(*first)} == {b""}
    assert not waiting


@pytest.mark.parametrize("down", MPC_NODES)
async def test_a_node_out_of_reach_hears_of_it_later(down, gateway, client, share):
    body = await client.suspension(share)
    gateway.links[down].down = True
    await client.ask("suspend", body)
    await service.until(lambda: at_the_nodes(gateway)[5 - down])
    assert at_the_nodes(gateway)[down] is None
    await service.until(
        lambda: gateway.gateway.suspensions.undelivered_count == 1
    )  # it is written down, too
    await refused(client, share)
    gateway.links[down].down = False
    await service.delivered(gateway)
    assert gateway.gateway.suspensions.undelivered_count == 0
    assert at_the_nodes(gateway) == {OPERATOR: CAUGHT, INSTITUTION: CAUGHT}
    await refused(client, share)
    await heals(client, share)


@pytest.mark.parametrize("write", ["acknowledge", "lift"])
async def test_what_the_nodes_say_is_asked_for_again_until_it_is_stored(
    write, monkeypatch, gateway, client, share
):
    registry, body, failed = gateway.gateway.registry, await client.suspension(share), []
    original = getattr(registry, write)

    def full(*arguments):
        if len(failed) < 3:
            failed.append(arguments)
            raise StoreFailed("registry.sqlite", StoreProblem.FULL)
        original(*arguments)

    monkeypatch.setattr(registry, write, full)
    if write == "lift":
        body = replace(body, notices=dict.fromkeys(MPC_NODES, b"?"))
    assert (await client.post("suspend", body)).status_code == 204
    await service.delivered(gateway)
    assert len(failed) == 3
    why = CAUGHT if write == "acknowledge" else None
    assert at_the_nodes(gateway) == {OPERATOR: why, INSTITUTION: why}
    assert bool(registry.suspension_notices()) == (write == "acknowledge")


@pytest.mark.parametrize("again", [True, False])
async def test_what_cannot_be_remembered_is_owed(again, monkeypatch, gateway, client, ec_share):
    """It holds, and is not acknowledged before it is written, whoever asks for that."""
    body = await client.suspension(ec_share)

    def full(*arguments):
        raise OSError("no space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(gateway.gateway.registry, "suspend", full)
        for _ in range(2):
            assert (await client.post("suspend", body)).status_code == 500
        await refused(client, ec_share)
        assert await state(gateway) == ["not stored yet: 1 suspensions of keys"]
        assert gateway.gateway.registry.suspension_notices() == []
    if again:
        await client.ask("suspend", body)
    await service.delivered(gateway)
    assert len(gateway.gateway.registry.suspension_notices()) == len(MPC_NODES)
    assert await state(gateway) == [None]
    await refused(client, ec_share)


async def test_what_could_not_be_written_is_owed_no_more_after_a_recovery(
    monkeypatch, gateway, client, ec_share
):
    def full(*arguments):
        raise OSError("no space left on device")

    monkeypatch.setattr(gateway.gateway.registry, "suspend", full)
    assert (await client.post("suspend", await client.suspension(ec_share))).status_code == 500
    await heals(client, ec_share)
    await service.delivered(gateway)
    assert await state(gateway) == [None]


async def test_two_that_are_over_at_once_take_a_third_along(monkeypatch, gateway, client, share):
    """One of them forgets it first."""
    table, gate = gateway.gateway.suspensions, asyncio.Event()
    await client.ask("suspend", await client.suspension(share))
    await service.delivered(gateway)
    deliver = table._deliver_notice

    async def waiting(notice):
        await gate.wait()
        await deliver(notice)

    monkeypatch.setattr(table, "_deliver_notice", waiting)
    for body in await occasions(gateway, client, share, 2):
        await client.ask("suspend", body)
    await heals(client, share)
    assert len(table._notices) == 3
    gate.set()
    await service.delivered(gateway)
    assert not table._notices


async def test_a_recovery_that_is_under_way_goes_on(gateway, client, share):
    body = await client.suspension(share)
    session_id, new = await client.begin_recover("ed25519")
    await client.ask("suspend", body)
    await client.activate(session_id, new)
    await client.check_works(new)


async def test_each_key_has_room_of_its_own(monkeypatch, gateway, client):
    monkeypatch.setattr(suspensions, "MAX_OF_KEY", 1)
    bodies = [await client.suspension(client.give_key(curve)) for curve in service.CURVES]
    service.set_down(gateway, True)
    for body in bodies:
        assert (await client.post("suspend", body)).status_code == 204
    service.set_down(gateway, False)


async def test_deliveries_end_when_the_gateway_stops(gateway, client, share):
    body = await client.suspension(share)
    service.set_down(gateway, True)
    await client.ask("suspend", body)
    table = gateway.gateway.suspensions
    (task,) = table._undelivered.values()
    await table.stop()
    assert task.cancelled()
    table._undelivered[body.occasion] = None  # as at a start
    await table.stop()
    service.set_down(gateway, False)
    table.deliver()
    await service.delivered(gateway)


async def test_suspensions_of_replaced_shares_do_not_pile_up(gateway, client, share):
    for _ in range(3):
        await client.ask("suspend", await client.suspension(share))
        await service.delivered(gateway)
        kept = {notice.at.key_id for notice in gateway.gateway.registry.suspension_notices()}
        assert kept == {share.record.epoch}
        await refused(client, share)
        share = await client.recover("ed25519")
    assert len(gateway.gateway.suspensions._notices) == 1


async def state(gateway):
    return [(await probe.look())["registry"] for probe in probes(gateway.gateway)[-1:]]


async def test_a_recovery_ends_what_could_not_be_delivered(caplog, gateway, client, share):
    body = await client.suspension(share)
    tell = suspensions.Suspensions._deliver_notice
    gate = asyncio.Event()

    async def waiting(self, notice):
        await gate.wait()
        await tell(self, notice)

    suspensions.Suspensions._deliver_notice = waiting
    try:
        await client.ask("suspend", body)
        await heals(client, share)
        gate.set()
        await service.delivered(gateway)
    finally:
        suspensions.Suspensions._deliver_notice = tell
    assert at_the_nodes(gateway) == {OPERATOR: None, INSTITUTION: None}
    assert gateway.gateway.registry.suspension_notices() == []
    assert caplog.messages[-1].endswith("is no longer suspended: it has been recovered")
    response = await client.post("suspend", body)
    record = SignedRecord.from_bytes(response.content).record
    assert (response.status_code, record.predecessor) == (200, share.record.epoch)


@pytest.mark.parametrize("known", [(), (RegisteredKey("u", "ed25519", "00" * 32, b"", ""),)])
async def test_a_gateway_that_is_starting_does_not_say_that_there_is_no_key(gateway, client, known):
    """Its registry may have been put back, or be damaged."""
    body = await client.suspension(client.give_key("ed25519"))
    gateway.gateway.registry.keys = lambda user_id: known
    for over, status in ((False, 503), (True, 404)):
        gateway.gateway.introduction.start_is_over = over
        gateway.gateway.introduction._next_attempt_at = float("inf")
        answer = await client.post("suspend", body)
        assert answer.status_code == status
        assert answer.headers.get("Retry-After") == (None if over else "1")


# ---------------------------------------------------------------------- strangers


def other(data):
    return bytes([data[0] ^ 1]) + data[1:]


WITHOUT_A_SESSION = [
    (lambda b, t: replace(b, tag=bytes(32)), 403),
    (lambda b, t: replace(b, tag=other(b.tag)), 403),
    (lambda b, t: replace(b, tag=t["session"].tag), 403),
    (lambda b, t: replace(b, tag=t["key"].tag), 403),
    (lambda b, t: replace(b, tag=t["user"].tag), 403),
    (lambda b, t: replace(b, occasion=replace(b.occasion, session_id=bytes(32))), 403),
    (lambda b, t: replace(b, occasion=replace(b.occasion, key_id=bytes(32))), 403),
    (lambda b, t: replace(b, occasion=replace(b.occasion, user_id="mallory")), 403),
    (lambda b, t: replace(b, notices={OPERATOR: b.notices[OPERATOR]}), 400),
    (lambda b, t: replace(b, notices={INSTITUTION: b.notices[INSTITUTION]}), 400),
    (lambda b, t: b"?", 400),
    (lambda b, t: bytes(5000), 413),
]


async def test_who_had_no_session_suspends_nothing(gateway, client):
    share, ed = [client.give_key(curve) for curve in ("secp256k1", "ed25519")]
    mallory = service.Client.of(gateway, "mallory")
    body = await client.suspension(share)
    tags = {
        "session": await client.suspension(share, culprit=INSTITUTION),
        "key": await client.suspension(ed),
        "user": await mallory.suspension(mallory.give_key("ed25519")),
    }
    for change, status in WITHOUT_A_SESSION:
        assert (await client.post("suspend", change(body, tags))).status_code == status
    assert gateway.gateway.registry.suspension_notices() == []


def sealed(body, share, **changed):
    """Notices by somebody who has the tag, and not the share; or all of it, of something else."""
    at = replace(body.occasion, **changed)
    return {
        j: suspension_notices.seal_notice(share.peers[j].pair_secret, at, j, OPERATOR, SystemRng())
        for j in MPC_NODES
    }


OPENS_NOWHERE = [
    lambda b, s, o: dict.fromkeys(MPC_NODES, b""),
    lambda b, s, o: dict.fromkeys(MPC_NODES, bytes(200)),
    lambda b, s, o: {j: other(notice) for j, notice in b.notices.items()},
    lambda b, s, o: {j: notice[:-1] for j, notice in b.notices.items()},
    lambda b, s, o: {OPERATOR: b.notices[INSTITUTION], INSTITUTION: b.notices[OPERATOR]},
    lambda b, s, o: sealed(b, o),
    lambda b, s, o: sealed(b, s, session_id=bytes(32)),
    lambda b, s, o: sealed(b, s, user_id="mallory"),
    lambda b, s, o: sealed(b, s, key_id=bytes(32)),
]


async def test_what_opens_at_neither_node_is_lifted(caplog, gateway, client):
    """Whoever has a stolen token has a tag, too."""
    share, bob = client.give_key("secp256k1"), service.Client.of(gateway, "bob")
    theirs = bob.give_key("ed25519")
    for forge in OPENS_NOWHERE:
        caplog.clear()
        body = await client.suspension(share)
        await client.ask("suspend", replace(body, notices=forge(body, share, theirs)))
        await service.delivered(gateway)
        assert all(why is None for rows in service.shares_of(gateway).values() for *_, why in rows)
        assert gateway.gateway.registry.suspension_notices() == []
        assert not gateway.gateway.suspensions._blocked_by
        of = f"key {share.record.epoch.hex()} of user {client.token_user}"
        said = f"{of} is no longer suspended: no holder of a share asked for it"
        assert caplog.messages[-1] == said
    await client.check_works(share)


@pytest.mark.parametrize("opens", MPC_NODES)
async def test_what_opens_at_one_node_stays(tmp_path, opens):
    with service.started(tmp_path) as (gateway, client):
        share = client.give_key("ed25519")
        body = await client.suspension(share)
        notices = {**body.notices, 5 - opens: bytes(40)}
        await client.ask("suspend", replace(body, notices=notices))
        await service.delivered(gateway)
        assert at_the_nodes(gateway) == {opens: CAUGHT, 5 - opens: None}
    with service.started(tmp_path) as (gateway, client):
        await refused(client, share)
        await heals(client, share)


async def test_a_node_must_sign_that_a_notice_does_not_open(monkeypatch, gateway, client, ec_share):
    """Or whoever is between the two could lift a suspension."""
    body = await client.suspension(ec_share)
    node = gateway.links[OPERATOR].node
    original, forged = node.handle, []

    def handle(verb, *rest):
        reply = original(verb, *rest)
        if verb != "suspend" or len(forged) == 3:
            return reply
        forged.append(wire.SuspendReply.from_bytes(reply))
        return replace(forged[-1], opened=0).to_bytes()

    monkeypatch.setattr(node, "handle", handle)
    garbage = replace(body, notices={**body.notices, INSTITUTION: b"?"})
    await client.ask("suspend", garbage)
    await service.delivered(gateway)
    assert len(forged) == 3
    await refused(client, ec_share)
    at, notice = body.occasion, body.notices[OPERATOR]
    statement = SuspensionReceipt(at.key_id, notice_digest(notice), 1)
    assert is_signed_by(node.hello().identity, statement, forged[0].signature)
    assert not is_signed_by(
        node.hello().identity, replace(statement, opened=0), forged[0].signature
    )


@pytest.mark.options(queue=1)
@pytest.mark.parametrize("signer", MPC_NODES)
async def test_whoever_waited_for_a_turn_finds_the_key_suspended(gateway, client, ec_share, signer):
    body = await client.suspension(ec_share)
    begun = client.begin_sign(ec_share, signer=signer)[1]
    waiting = asyncio.create_task(client.post("sign", begun))
    await asyncio.sleep(0)
    await client.ask("suspend", body)
    response = await waiting
    assert (response.status_code, response.json()) == (409, {"error": SUSPENDED})
    assert not gateway.gateway.sessions._sessions


# ---------------------------------------------------------------------- many at once


async def occasions(gateway, client, share, n):
    """Suspensions that open nowhere, by somebody with the tags of so many sessions."""
    user_id, found = await client.user_id(), []
    for _ in range(n):
        at = wire.AbortedSession(user_id, share.record.epoch, os.urandom(32))
        tag = gateway.gateway.suspensions.session_tag(at)
        found.append(wire.Suspend(at, tag, dict.fromkeys(MPC_NODES, b"?"), share.record.curve_name))
    return found


@contextmanager
def slow(gateway):
    """The registry takes its time to write a suspension; yields what lets it go on, and what says
    that it has begun."""
    registry, begun, go_on = gateway.gateway.registry, threading.Event(), threading.Event()
    write = registry.suspend

    def suspend(*arguments):
        begun.set()
        assert go_on.wait(30)
        write(*arguments)

    registry.suspend = suspend
    try:
        yield begun, go_on
    finally:
        go_on.set()
        registry.suspend = write


async def test_what_is_being_written_is_not_forgotten_for_what_is_lifted_meanwhile(gateway, client):
    share, other = [client.give_key(curve) for curve in ("secp256k1", "ed25519")]
    body = await client.suspension(share)
    (forged,) = await occasions(gateway, client, other, 1)
    service.set_down(gateway, True)
    await client.ask("suspend", forged)
    with slow(gateway) as (begun, go_on):
        asking = asyncio.create_task(client.ask("suspend", body))
        await asyncio.to_thread(begun.wait)
        service.set_down(gateway, False)
        written = gateway.gateway.registry.suspension_notices
        await service.until(lambda: all(notice.opened == 0 for notice in written()))
        await refused(client, share)
        assert written(), "the other one is to be lifted, and waits for its turn to write"
        go_on.set()
        await asking
    await service.delivered(gateway)
    await refused(client, share)
    await client.check_works(other)


async def test_what_nobody_waits_for_any_more_is_not_forgotten(gateway, client, ec_share):
    """Whoever asked has gone when it is written."""
    body = await client.suspension(ec_share)
    with slow(gateway) as (begun, go_on):
        asking = asyncio.create_task(gateway.gateway.suspend(body.to_bytes()))
        await asyncio.to_thread(begun.wait)
        asking.cancel()
        go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await asking
    assert len(gateway.gateway.registry.suspension_notices()) == len(MPC_NODES)
    await refused(client, ec_share)
    await service.delivered(gateway)
    assert at_the_nodes(gateway) == {OPERATOR: CAUGHT, INSTITUTION: CAUGHT}


async def test_what_opens_nowhere_fills_no_registry_and_hinders_no_true_one(gateway, client, share):
    """Somebody has the tags of many sessions, and no share; the MPC nodes cannot be asked."""
    genuine = await client.suspension(share)
    service.set_down(gateway, True)
    found = []
    for body in await occasions(gateway, client, share, suspensions.MAX_OF_KEY + 5):
        response = await client.post("suspend", body)
        found.append(response.status_code)
    assert found == [204] * suspensions.MAX_OF_KEY + [503] * 5
    assert response.json() == {"error": "too many suspensions of this key"}
    assert int(response.headers["Retry-After"]) < suspensions.FULL_S
    assert len(gateway.gateway.registry.suspension_notices()) == 2 * suspensions.MAX_OF_KEY
    assert (await client.post("suspend", genuine)).status_code == 503
    service.set_down(gateway, False)
    await service.delivered(gateway)
    assert gateway.gateway.registry.suspension_notices() == []
    await refused(client, share)  # for the genuine one's sake
    await client.ask("suspend", genuine)  # which is asked for again
    await service.delivered(gateway)
    await refused(client, share)
    assert at_the_nodes(gateway) == {OPERATOR: CAUGHT, INSTITUTION: CAUGHT}
    await heals(client, share)


async def test_a_key_without_room_for_a_suspension_is_blocked_for_a_while(
    monkeypatch, gateway, client, share
):
    """Unless it is asked for again by then."""
    monkeypatch.setattr(suspensions, "MAX_OF_KEY", 0)
    monkeypatch.setattr(suspensions, "FULL_S", 0.02)
    body, table = await client.suspension(share), gateway.gateway.suspensions
    assert (await client.post("suspend", body)).status_code == 503
    (timer,) = table._full.values()
    assert (await client.post("suspend", body)).status_code == 503
    assert timer.cancelled()
    assert (len(table._full), table._blocked_by[share.record.epoch]) == (1, 1)
    await service.until(lambda: not table._full)
    await client.check_works(share)


async def test_what_opens_nowhere_is_written_and_logged_so_often_no_more(gateway, client, share):
    """Somebody has had sessions, and no share: each suspension is lifted at once."""
    found = []
    for body in await occasions(gateway, client, share, OFTEN + 2):
        found.append((await client.post("suspend", body)).status_code)
        await service.delivered(gateway)
    assert found == [204] * OFTEN + [503] * 2
    await refused(client, share)


@pytest.mark.parametrize(
    ("days", "status"),
    [(suspensions.TAG_DAYS, 204), (suspensions.TAG_DAYS + 1, 403), (-1, 204), (-2, 403)],
)
async def test_a_tag_outlives_the_token_by_days(days, status, wall_clock, gateway, client, share):
    body = await client.suspension(share)
    wall_clock.now += max(0, -days) * suspensions.DAY_S  # and a clock may be put back
    body = replace(body, tag=gateway.gateway.suspensions.session_tag(body.occasion))
    wall_clock.now += days * suspensions.DAY_S
    assert (await client.post("suspend", body)).status_code == status


async def test_of_a_key_that_is_suspended_for_good_no_more_is_remembered(gateway, client, share):
    more = await occasions(gateway, client, share, suspensions.MAX_OF_KEY + 5)
    await client.ask("suspend", await client.suspension(share))
    await service.delivered(gateway)
    service.set_down(gateway, True)
    for body in more:
        await client.ask("suspend", body)
    assert len(gateway.gateway.registry.suspension_notices()) == 2 * suspensions.MAX_OF_KEY
    service.set_down(gateway, False)
    await service.delivered(gateway)
    await refused(client, share)
    await heals(client, share)
