"""Calls that make a key and have a name: repeated, after whatever befell the first one, they end
with a share that works. Node, gateway and MPC nodes in this process."""

import asyncio
from contextlib import suppress

import pytest

from mpcsim.ids import INSTITUTION
from mpcsim.service.error_codes import Code
from mpcsim.service.storage.database import StoreFailed, StoreProblem
from mpcsim.service.web.transport import Reply
from node import errors
from tests.helpers.gateway import Clock, shares_of
from tests.helpers.tiers import fast_few
from tests.node import wallets

ED, HASH = "ed25519", b"\x5c" * 32
KEY = 'order 4711: "first try", once'
VERBS = ("generate", "recover")


async def check_works(house, record, name="alice"):
    """It is the share in force: it signs, and is what is registered."""
    wallets.check_signature(record.public_key, HASH, await house.sign(record, HASH, name))
    (key,) = (await house.wallet.keys(house.caller(name))).keys
    assert (key.key_id, key.public_key) == (record.key_id, record.public_key)


async def check_waiting(call):
    error = await wallets.refused(errors.Conflict, call)
    assert error.code is Code.BUSY
    assert 1 <= int(error.headers["Retry-After"]) <= 5


async def prepared(house, verb):
    """What there has to be before."""
    return house.give_key(ED) if verb == "recover" else None


def again(house, verb, **options):
    """The call that is repeated."""
    return getattr(house, verb)(ED, key=KEY, **options)


lost = wallets.losing(errors.UpstreamTimeout())
"""Done, but nobody hears of it, nor of anything that it is asked then."""


# ---------------------------------------------------------------------- what came into force


@pytest.mark.parametrize("verb", VERBS)
async def test_a_repeated_call_ends_with_a_fresh_share(verb, house):
    before = await prepared(house, verb)
    made = [await again(house, verb) for _ in range(3)]
    assert len({record.key_id for record in made}) == 3
    assert {record.public_key for record in [*made, before] if record} == {made[0].public_key}
    for retired in made[:2]:
        await wallets.refused(errors.NotFound, house.sign(retired, HASH))
    await check_works(house, made[2])


@pytest.mark.parametrize("verb", fast_few(VERBS, 1))
@pytest.mark.parametrize("lost_at", ["activate", "generate or recover", "exchange"])
async def test_after_a_lost_answer(verb, lost_at, house):
    """502 and 504: whether the call came to something, its caller does not know."""

    await prepared(house, verb)
    at = verb if " " in lost_at else lost_at

    async def cut_off(name, go_on):
        if name == at:
            return await lost(name, go_on)
        if name == "/wallet/v1/keys":  # where the node would find out
            raise errors.Unreachable
        return await go_on()

    house.transport.hook = cut_off
    error = await wallets.refused(errors.OutcomeUnknown, again(house, verb))
    assert error.code is Code.OUTCOME_UNKNOWN
    await wallets.settled(house)
    house.transport.hook = None
    await check_works(house, await again(house, verb))


async def test_a_key_that_has_been_recovered_since_by_another_call(house):
    """Whoever repeats has no share: so it is recovered once more, and the other share goes."""

    first = await again(house, "generate")
    other = await house.recover(ED)
    made = await again(house, "generate")
    assert made.public_key == first.public_key
    await check_works(house, made)
    await wallets.refused(errors.NotFound, house.sign(other, HASH))


async def test_without_a_name_no_gateway_makes_it_a_recovery(house):
    record = await house.generate(ED)

    lie = Reply(409, b'{"error": "recover it"}', "in-force")
    house.transport.hook = wallets.on("generate", wallets.answering(lie))
    assert (await wallets.refused(errors.KeyAlreadyActive, house.generate(ED))).status == 409
    await check_works(house, record)


# ---------------------------------------------------------------------- what still runs


async def test_while_it_is_voted_it_is_told_to_wait(house):
    voting, vote_now = asyncio.Event(), asyncio.Event()
    link = house.gateway.links[INSTITUTION]
    original = link.call

    async def slow(scope, *rest):
        if scope.verb == "vote":
            voting.set()
            await vote_now.wait()
        return await original(scope, *rest)

    link.call = slow
    first = asyncio.ensure_future(again(house, "generate"))
    await voting.wait()
    try:
        async with asyncio.timeout(20):  # it does not wait for the votes itself
            await check_waiting(again(house, "generate"))
    finally:
        vote_now.set()
    await check_works(house, await first)


async def test_while_the_first_call_waits_for_others_it_is_told_to_wait(house):
    """It is in nobody's books yet, though the key is its own (``--making-limit``)."""

    place = house.caller().claims.user_id, ED
    # The lock that the first call would hold.
    leave = await house.gateway.gateway.sessions._making.acquire(place)
    await check_waiting(again(house, "generate"))
    leave()
    await check_works(house, await again(house, "generate"))


@pytest.mark.parametrize("verb", fast_few(VERBS, 1))
@pytest.mark.parametrize("at", ["exchange", "activate"])
async def test_a_node_that_dies_half_way(verb, at):
    """It says no good-bye: its session is open until its lease is over."""
    clock = Clock()
    async with wallets.House(clock=clock) as house:
        await prepared(house, verb)
        hanging = asyncio.Event()

        async def hang(name, go_on):
            hanging.set()
            house.transport.hook = wallets.answering(errors.Unreachable())
            await asyncio.Event().wait()
            raise AssertionError

        house.transport.hook = wallets.on(at, hang)
        first = asyncio.ensure_future(again(house, verb))
        await hanging.wait()
        first.cancel()
        with suppress(asyncio.CancelledError):
            await first
        await wallets.settled(house)
        other = wallets.House(house.gateway)
        await check_waiting(again(other, verb))
        clock.now += 10.0
        await check_works(other, await again(other, verb))


@pytest.mark.parametrize("verb", fast_few(VERBS, 1))
async def test_while_a_vote_is_undecided_it_is_told_to_wait(verb, house):
    await prepared(house, verb)
    link = house.gateway.links[INSTITUTION]
    original = link.call

    async def cut(scope, *rest):
        link.down = link.down or scope.verb == "vote"
        return await original(scope, *rest)

    link.call = cut
    await wallets.refused(errors.OutcomeUnknown, again(house, verb))
    await wallets.settled(house)
    error = await wallets.refused(errors.Conflict, again(house, verb))
    assert error.code is Code.BUSY
    assert error.headers["Retry-After"] == "5"
    assert error.message == (
        "what came of the first call with this Idempotency-Key is not decided yet: "
        "the institution's MPC node cannot be reached"
    )
    link.call, link.down = original, False
    await check_works(house, await again(house, verb))


# ---------------------------------------------------------------------- the gateway's own troubles


@pytest.mark.parametrize(
    ("writes", "error", "made"),
    [("put", errors.OutcomeUnknown, 1), ("put_named_call", errors.Upstream, 0)],
    ids=["what is decided", "the name"],
)
async def test_what_the_registry_cannot_write(writes, error, made, house):
    """Once it is decided, it has come into force; without its name, no key is made."""

    registry = house.gateway.gateway.registry
    put = getattr(registry, writes)

    def full(*_):
        raise StoreFailed("gateway.sqlite", StoreProblem.FULL)

    setattr(registry, writes, full)
    found = await wallets.refused(error, again(house, "generate"))
    assert found.code is (Code.OUTCOME_UNKNOWN if made else Code.DISK_FULL)
    assert [len(rows) for rows in shares_of(house.gateway).values()] == [made] * 2
    setattr(registry, writes, put)
    await check_works(house, await again(house, "generate"))


# ---------------------------------------------------------------------- the name of another call


async def test_the_name_of_another_call_is_refused_and_nothing_changes(house):
    """One answer for another verb and curve; also while the first one runs."""

    others = [lambda: house.recover(ED, key=KEY), lambda: house.generate("secp256k1", key=KEY)]

    async def look(name, go_on):
        before = shares_of(house.gateway)
        house.transport.seen.clear()
        said = set()
        for other in others:
            error = await wallets.refused(errors.BadRequest, other())
            assert error.code is Code.IDEMPOTENCY_KEY_USED
            said.add((error.status, error.message))
        assert said == {(400, "This Idempotency-Key has been used for another call")}
        assert shares_of(house.gateway) == before
        assert "exchange" not in house.transport.seen, "refused at once"
        return await go_on()

    async def passing():
        return Reply(204, b"")

    house.transport.hook = wallets.on("activate", look)
    record = await again(house, "generate")
    await look("", passing)
    await check_works(house, record)
