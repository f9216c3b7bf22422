"""How many keys are made at a time, and who waits for that, how long, and who does not."""

import asyncio
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpcsim.service.errors import too_many_key_creations
from mpcsim.service.gateway.sessions.key_queue import KeyQueue
from mpcsim.service.rpc import wire
from mpcsim.service.web.transport import AsgiTransport, Limits, ReplyTimeout
from tests.helpers.gateway import Client, until
from tests.helpers.tiers import examples
from tests.service.gateway.test_sessions import nothing_open

TOO_MANY = (429, str(too_many_key_creations(1)))


@pytest.fixture
def gateway(gateway):
    """After which nothing is open, whatever the test did."""
    yield gateway
    assert nothing_open(gateway)


def waiting(gateway):
    """How many are in the line."""
    return len(gateway.gateway.sessions._key_creation_slots._waiters.get(None, ()))


async def served(taking):
    """What gives up the place that somebody who waited has by now."""
    for _ in range(5):
        await asyncio.sleep(0)
    assert taking.done()
    return await taking


def under_way(gateway):
    return sum(session.makes_key for session in gateway.gateway.sessions._sessions.values())


# ---------------------------------------------------------------------- the line itself


async def test_who_listens_hears_of_each_key_that_is_taken_and_given_up() -> None:
    queue, heard = KeyQueue(0, 0.0), []
    queue.listener = lambda key, taken: heard.append((key, taken))
    release = await queue.acquire("key")
    for _ in range(2):
        release()
    assert heard == [("key", True), ("key", False)]


async def test_a_key_goes_past_who_is_just_leaving_the_line() -> None:
    queue = KeyQueue(2, 1000.0)
    release = await queue.acquire("key")
    first, second = (asyncio.create_task(queue.acquire("key")) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    release()
    (await second)()
    with pytest.raises(asyncio.CancelledError):
        await first
    assert not queue._waiters


async def test_nobody_watches_the_caller_any_longer_once_it_has_a_place() -> None:
    queue, watching = KeyQueue(1, 1000.0), []

    async def disconnect() -> None:
        watching.append(asyncio.current_task())
        await asyncio.Event().wait()

    release = await queue.acquire("key")
    taking = asyncio.create_task(queue.acquire("key", disconnect))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    release()
    await taking
    assert watching[0].cancelling()


ACTIONS = (*["take"] * 5, "leave", "leave", "late", "cancel")


@given(
    st.integers(1, 2),
    st.integers(0, 3),
    st.lists(st.sampled_from(ACTIONS), min_size=8, max_size=30),
    st.data(),
)
@examples(100)
def test_a_line_holds_so_many_in_order_whatever_happens(places, capacity, actions, data):
    """Beside a model: those who hold, and those who wait, in order."""

    async def work():
        queue = KeyQueue(capacity, 1000.0, places)
        holding, line = [], []
        for action in actions:
            if action == "take":
                taking = asyncio.create_task(queue.acquire("key"))
                await asyncio.sleep(0)
                if len(holding) < places:
                    holding.append(await taking)
                elif len(line) < capacity:
                    line.append(taking)
                else:
                    with pytest.raises(TimeoutError):
                        await taking
            elif action == "leave" and holding:
                leave = holding.pop(data.draw(st.integers(0, len(holding) - 1)))
                leave()
                leave()
                if line:
                    holding.append(await served(line.pop(0)))
            elif action == "late" and line:  # its place comes as it leaves
                taking = line.pop(0)
                holding.pop()()
                taking.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await taking
                if line:
                    holding.append(await served(line.pop(0)))
            elif action == "cancel" and line:
                taking = line.pop(data.draw(st.integers(0, len(line) - 1)))
                taking.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await taking
            assert all(not taking.done() for taking in line)
            assert queue.is_taken("key") == bool(holding)
            assert (queue.holder_count, queue.waiting_count) == (len(holding), len(line))
        for taking in line:
            taking.cancel()
        await asyncio.gather(*line, return_exceptions=True)
        for leave in holding:
            leave()
        assert not queue._waiters
        assert not queue._holders

    asyncio.run(work())


# ---------------------------------------------------------------------- at the gateway


@pytest.mark.options(making_limit=1)
async def test_signing_waits_for_none_of_it(gateway, client):
    share, other = [client.give_key(curve) for curve in ("ed25519", "secp256k1")]
    begun, bob = await client.begin_recover("ed25519"), Client.of(gateway, "bob")
    late = asyncio.create_task(bob.generate("ed25519"))
    await until(lambda: waiting(gateway) == 1)
    for key in (share, other, share):
        await client.sign(key)
    assert not late.done()
    assert under_way(gateway) == 1
    await client.activate(*begun)
    await bob.check_works(await late)


@pytest.mark.options(making_limit=1, making_wait_s=1000)
async def test_who_hangs_up_leaves_the_line_and_nothing_begins(gateway, client):
    """A handler is not cancelled when its caller goes away; this one takes note of it."""
    begun = await client.begin_generate("ed25519")
    bob = Client.of(gateway, "bob")
    transport = AsgiTransport(gateway.app, Limits(total_s=0.05))
    body = wire.Generate(os.urandom(32), "ed25519", ()).to_bytes()
    with pytest.raises(ReplyTimeout):
        await transport.request("POST", wire.PREFIX + "generate", token=bob.token, body=body)
    async with asyncio.timeout(20):
        await transport.close()
    assert waiting(gateway) == 0
    assert under_way(gateway) == 1
    await client.activate(*begun)
    assert nothing_open(gateway)
    await bob.generate("ed25519")
