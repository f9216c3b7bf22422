"""The table of sessions alone, in virtual time: places, leases, and what is closed at whom."""

import asyncio
from dataclasses import replace

import pytest

from mpcsim.ids import INSTITUTION, MPC_NODES, OPERATOR
from mpcsim.service.error_codes import Code
from mpcsim.service.errors import (
    GENERATION,
    RECOVERY,
    SIGNING,
    NodeFailed,
    Refused,
    idempotency_key_reused,
    node_unreachable,
    too_many_key_creations,
)
from mpcsim.service.gateway.defaults import LINK_TIMEOUT_S
from mpcsim.service.gateway.sessions.sessions import CANCEL_WAIT_S, CallerContext, Sessions
from mpcsim.service.rpc.tokens import Claims
from mpcsim.service.web.idempotency import CallName
from tests.helpers.virtual import in_virtual_time

EPOCH = "ab" * 32


class Side:
    """A link to an MPC node that is asked to close sessions, and may fail at it, or take long."""

    def __init__(self):
        self.closed, self.failure, self.takes_s = [], None, 0.0

    async def call(self, scope, body, times):
        assert scope.verb == "close"
        self.closed.append(body.session_id)
        await asyncio.sleep(self.takes_s)
        if self.failure is not None:
            raise self.failure


class Table(Sessions):
    """With two such links; sessions begin with what differs."""

    def __init__(self, **options):
        self.sides = {party: Side() for party in MPC_NODES}
        defaults = {"queue": 0, "signing_s": 15.0, "making_s": 60.0, "lease_s": 5.0}
        defaults |= {"making_limit": 0, "making_queue": 0, "making_wait_s": 0.0}
        clock = asyncio.get_running_loop().time
        super().__init__(self.sides, clock=clock, **defaults | options)

    async def opened(self, what=SIGNING, number=1, *, user="alice", name=None, **more):
        options = {"curve": "secp256k1"} | more
        if what == SIGNING:
            options = {"key_id": EPOCH, "nodes": (OPERATOR,)} | options
        if what == RECOVERY:
            options = {"key_id": EPOCH} | options
        call = None if name is None else CallName(name, "generate")
        caller = CallerContext(Claims(user, user, "access", None, 0), name=call)
        session = await self.begin(caller, bytes([number]) * 32, what=what, **options)
        session.open_nodes = set(session.nodes)
        return session


def now():
    return asyncio.get_running_loop().time()


async def asked(table, session, takes_s=0.1):
    """The client has asked for something of the session, once more."""
    async with table.serve_in_turn(session):
        await asyncio.sleep(takes_s)


def test_whoever_opens_a_vault_tries_a_password_unless_it_is_known_better():
    assert CallerContext(Claims("alice", "alice", "access", None, 0)).is_password_guess


@in_virtual_time
async def test_a_place_is_free_once_its_lease_is_over_and_not_before():
    table = Table()
    holder = await table.opened()
    await asked(table, holder)
    for wait_s, retry_s in ((2.5, 3), (2.4, 1)):
        await asyncio.sleep(wait_s)
        with pytest.raises(Refused, match="in progress") as refused:
            await table.opened(number=2)
        assert refused.value.retry_after_s == retry_s
    await asyncio.sleep(0.1)
    assert now() == pytest.approx(5.1)
    await table.opened(number=2)
    assert not table.is_open(holder)
    assert table.sides[OPERATOR].closed == [holder.session_id]
    assert not table.sides[INSTITUTION].closed


@in_virtual_time
async def test_who_waits_gets_the_place_when_the_lease_ends_or_the_holder_does():
    table = Table(queue=1)
    holder = await table.opened()
    with pytest.raises(Refused, match="in progress"):
        await asyncio.gather(table.opened(number=2), table.opened(number=3))
    await asyncio.sleep(4.999 - now())
    assert table.is_open(holder)
    await asyncio.sleep(0.002)
    (second,) = table.open_sessions
    waiting = asyncio.create_task(table.opened(number=3))
    await asyncio.sleep(1)
    table.end(second)
    await waiting
    assert now() == pytest.approx(6.001)
    await asyncio.sleep(8)  # while nobody waits, a lease may be over
    assert table.open_sessions == [waiting.result()]


@in_virtual_time
async def test_who_is_served_keeps_the_place_and_the_others_wait_a_lease_longer():
    table = Table(queue=1)
    holder = await table.opened()
    serving = asyncio.create_task(asked(table, holder, 5.5))
    waiting = asyncio.create_task(table.opened(number=2))
    await serving
    await waiting
    assert now() == pytest.approx(5.5 + 5.0)


@in_virtual_time
async def test_who_waits_while_a_silent_session_is_closed_waits_no_longer_than_for_that():
    """The one before in the line is lost as well."""
    table = Table(queue=2, signing_s=30.0)
    await table.opened()
    table.sides[OPERATOR].takes_s = 3.0
    lines = [asyncio.create_task(table.opened(number=number)) for number in (2, 3)]
    await lines[0]
    assert now() == pytest.approx(5.0 + 3.0)
    await lines[1]
    assert now() == pytest.approx(2 * (5.0 + 3.0), abs=1.0)


@in_virtual_time
async def test_a_request_waits_longer_than_the_session_of_a_lost_client_lasts():
    assert Table(signing_s=40.0).queues["signing"].max_wait_s == 40.0 + CANCEL_WAIT_S


@in_virtual_time
async def test_whoever_asks_first_whether_a_key_is_free_hears_what_a_session_would():
    table, place = Table(), ("alice", "secp256k1", RECOVERY)
    table.check_key_is_free(*place)
    await table.opened(RECOVERY)
    table.check_key_is_free("alice", "ed25519", RECOVERY)
    await asyncio.sleep(4.999)
    with pytest.raises(Refused, match="a recovery for this key is in progress"):
        table.check_key_is_free(*place)
    await asyncio.sleep(0.001)
    assert now() == 5.0
    table.check_key_is_free(*place)
    await table.opened(RECOVERY, 2)


@in_virtual_time
async def test_keys_are_made_so_many_at_a_time_and_so_many_wait_so_long():
    table = Table(making_limit=1, making_queue=1, making_wait_s=9.5)
    assert table.key_creation_slots.capacity == 1
    await table.opened(GENERATION)
    for expected_s, retry_s in ((9.5, 10), (60.0, 100)):
        waiting = asyncio.create_task(table.opened(GENERATION, 2, user="bob"))
        await asyncio.sleep(0)
        table.end(await table.opened(number=3))  # to sign is another matter
        with pytest.raises(Refused, match=str(too_many_key_creations(1))) as refused:
            await table.opened(GENERATION, 4, user="carol")
        assert refused.value.retry_after_s == retry_s
        with pytest.raises(Refused, match="a generation for this key is in progress"):
            await table.opened(GENERATION, 5, user="bob")
        if expected_s == 60.0:
            await waiting  # the first one's lifetime is over
        else:
            with pytest.raises(Refused, match=str(too_many_key_creations(1))):
                await waiting
            table.key_creation_slots.max_wait_s = 100.0
        assert now() == pytest.approx(expected_s)


@in_virtual_time
async def test_who_is_cancelled_in_the_line_gives_up_the_place_of_its_key():
    table = Table(making_limit=1, making_queue=1, making_wait_s=9.5)
    await table.opened(GENERATION)
    waiting = asyncio.create_task(table.opened(GENERATION, 2, user="bob"))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    table.check_key_is_free("bob", "secp256k1", GENERATION)


@in_virtual_time
async def test_what_was_not_told_is_kept_until_the_last_of_a_place_is_over():
    table = Table()
    for number in (1, 2):
        session = await table.opened(RECOVERY, number)
        table.sides[INSTITUTION].failure = node_unreachable(INSTITUTION)
        await table.cancel([session])
        await asyncio.sleep(40.0)
    for until_s, kept in ((100.0 + LINK_TIMEOUT_S - 0.1, True), (100.0 + LINK_TIMEOUT_S, False)):
        await asyncio.sleep(until_s - now())
        with pytest.raises(Refused, match="no such session"):
            await table.find(Claims("alice", "alice", "access", None, 0), bytes(32))
        assert bool(table._close_later) is kept


@pytest.mark.parametrize(("what", "lasts_s"), [(SIGNING, 15), (GENERATION, 60), (RECOVERY, 60)])
@in_virtual_time
async def test_a_session_ends_by_itself_after_its_lifetime(what, lasts_s):
    table = Table()
    session = await table.opened(what)
    await asyncio.sleep(lasts_s - 0.01)
    assert table.is_open(session)
    await asyncio.sleep(0.02)
    assert not table.is_open(session)
    for party, side in table.sides.items():
        assert side.closed == [session.session_id] * (party in session.nodes)
    await table.opened(what)


@in_virtual_time
async def test_a_request_waits_a_second_until_a_session_is_closed_and_its_place_longer():
    table = Table()
    holder, table.sides[OPERATOR].takes_s = await table.opened(), 3.0
    await table.cancel([holder])
    assert now() == CANCEL_WAIT_S
    assert not table.is_open(holder)
    with pytest.raises(Refused) as refused:  # by whom it will be given up, nobody can say
        await table.opened()
    assert refused.value.retry_after_s == 1
    await asyncio.sleep(2.001)
    await table.opened()


FULL = NodeFailed(503, "full", OPERATOR, code=Code.DISK_FULL)


@pytest.mark.parametrize(
    ("what", "failure", "again"),
    [
        (SIGNING, node_unreachable(OPERATOR), 1),
        (RECOVERY, node_unreachable(OPERATOR), 1),
        (GENERATION, node_unreachable(OPERATOR), 0),
        (SIGNING, FULL, 0),
    ],
)
@in_virtual_time
async def test_whom_nobody_could_tell_is_told_before_the_next_session_of_the_key(
    what, failure, again
):
    table = Table()
    session, side = await table.opened(what), table.sides[OPERATOR]
    side.failure = failure
    await table.start_cancelling(session)
    assert len(table._close_later) == again
    if again:
        with pytest.raises(NodeFailed):
            await table.close_pending(OPERATOR, EPOCH)
    side.failure = None
    for key_id in (None, "cd" * 32, EPOCH, EPOCH):
        await table.close_pending(OPERATOR, key_id)
    await table.close_pending(INSTITUTION, EPOCH)
    assert side.closed == [session.session_id] * (1 + 2 * again)


@in_virtual_time
async def test_a_user_has_one_call_of_a_name_and_others_have_theirs():
    table = Table()
    for number, user, name in ((1, "alice", None), (2, "bob", "a"), (3, "carol", "b")):
        await table.opened(GENERATION, number, user=user, name=name)
    alice, bob = (CallerContext(Claims(user, user, "access", None, 0)) for user in ("alice", "bob"))
    for caller, name, curve, refused in [
        (alice, "a", "ed25519", False),
        (bob, "a", "secp256k1", False),
        (bob, "b", "ed25519", False),
        (bob, "a", "ed25519", True),
    ]:
        call = replace(caller, name=CallName(name, "generate")).named_call(curve)
        if not refused:
            table.check_no_other_call(call)
            continue
        with pytest.raises(Refused, match=str(idempotency_key_reused())):
            table.check_no_other_call(call)


@in_virtual_time
async def test_sessions_of_a_key_sign_with_it_or_replace_it():
    table = Table()
    both = [await table.opened(), await table.opened(RECOVERY, 2)]
    await table.opened(GENERATION, 3, curve="ed25519")
    await table.opened(number=4, key_id="cd" * 32)
    assert table.of_key(EPOCH) == both


@in_virtual_time
async def test_of_an_id_there_is_one_session_and_the_place_of_another_stays_free():
    table = Table()
    await table.opened()
    with pytest.raises(Refused, match="a session of this id is open"):
        await table.opened(RECOVERY)
    await table.opened(RECOVERY, 2)


@pytest.mark.parametrize(("curve", "requests"), [("secp256k1", 2), ("ed25519", 1)])
@in_virtual_time
async def test_so_many_requests_of_the_client_are_to_come(curve, requests):
    table = Table()
    assert (await table.opened(curve=curve)).requests_to_come == requests
    assert (await table.opened(RECOVERY, 2, curve=curve)).requests_to_come <= 0


@in_virtual_time
async def test_requests_of_a_session_are_served_one_at_a_time_and_none_after_its_end():
    table = Table()
    session = await table.opened()
    both = [asyncio.create_task(asked(table, session)) for _ in range(2)]
    await asyncio.wait(both)
    assert now() == pytest.approx(0.2)
    assert (session.requests_in_progress, session.last_served_at) == (0, now())
    first = asyncio.create_task(asked(table, session))
    await asyncio.sleep(0.05)
    second = asyncio.create_task(asked(table, session))
    await asyncio.sleep(0)
    table.end(session)
    await first
    with pytest.raises(Refused, match="no such session"):
        await second
