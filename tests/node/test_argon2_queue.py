"""Users take turns at Argon2id: whatever one asks for delays another by one computation."""

import asyncio
import threading
from contextlib import asynccontextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpcsim.ids import OPERATOR
from node.errors import CallerGone, PasswordsBusy
from node.process import argon2_queue
from node.process.argon2_queue import Argon2Queue, FairScheduler, QueueFull, default_concurrency
from tests.helpers.gateway import Clock
from tests.helpers.tiers import examples
from tests.node.harness import system
from tests.node.wallets import PASSWORD, House

GUESS = "/v3/wallet/validate/password"
NEW = {"curve": "ed25519", "password": PASSWORD}

# ---------------------------------------------------------------------- who is next


@examples(60)
@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("add"), st.sampled_from("abc")),
            st.tuples(st.just("next"), st.none()),
            st.tuples(st.just("remove"), st.integers(0, 30)),
        ),
        max_size=40,
    )
)
def test_nobody_is_passed_over(steps):
    """Against a list: of one user in order; between two turns of one user, everybody who waits all
    the while has one."""
    turns, waiting, passed, number = FairScheduler(8, 4), [], {}, 0
    for what, value in steps:
        if what == "add":
            of_one = sum(user == value for user, _ in waiting)
            if len(waiting) >= 8 or of_one >= 4:
                with pytest.raises(QueueFull):
                    turns.add(value, number)
            else:
                turns.add(value, number)
                waiting.append((value, number))
                if not of_one:
                    passed[value] = set()
            number += 1
        elif what == "remove":
            found = next((entry for entry in waiting if entry[1] == value), None)
            assert turns.remove(found[0] if found else "a", value) == (found is not None)
            if found:
                waiting.remove(found)
        else:
            item = turns.next()
            if not waiting:
                assert item is None
                continue
            (user,) = (user for user, number in waiting if number == item)
            assert item == min(number for other, number in waiting if other == user)
            waiting.remove((user, item))
            for other in {other for other, _ in waiting} - {user}:
                assert user not in passed[other], f"{other} is passed over"
                passed[other].add(user)
            passed[user] = set()
        assert len(turns) == len(waiting)
        assert turns.users == len({user for user, _ in waiting})


@pytest.mark.parametrize(
    ("cores", "memory_mib", "workers", "expected"),
    [
        *((1, None, 1, 1), (2, None, 1, 1), (4, None, 1, 3), (8, None, 3, 2), (4, None, 8, 1)),
        *((32, 320, 1, 3), (32, 319, 1, 2), (32, 100, 1, 1), (32, 640, 2, 3), (3, 1024, 1, 2)),
    ],
)
def test_a_core_stays_for_signing_and_memory_is_enough(
    cores, memory_mib, workers, expected, monkeypatch
):
    monkeypatch.setattr(argon2_queue, "usable_cores", lambda: cores)
    memory = None if memory_mib is None else memory_mib << 20
    monkeypatch.setattr(argon2_queue, "memory_limit", lambda: memory)
    assert default_concurrency(workers) == expected


# ---------------------------------------------------------------------- the queue in the node


class Room:
    """A queue of one place, which is taken until ``open``."""

    def __init__(self, **limits):
        self.clock = Clock(0.0)
        self.queue = Argon2Queue(1, FairScheduler(**limits), clock=self.clock)
        self.gate = threading.Event()
        self.done = []
        self.first = self.queue.submit("first", self.gate.wait)

    def ask(self, user, name=None, gone=None):
        def work():
            self.done.append(name or user)
            return name or user

        return self.queue.submit(user, work, gone)

    async def open(self):
        self.gate.set()
        await self.first.result()

    async def __aenter__(self):
        return self

    async def __aexit__(self, *error):
        self.gate.set()
        self.queue.close()


async def test_turns_in_threads():
    async with Room() as room:
        waited = []
        room.queue.listener = waited.append
        asked = [room.ask("mallory", f"guess {number}") for number in range(5)]
        asked.append(room.ask("alice"))
        assert (room.queue.running, room.queue.waiting) == (1, 6)
        room.clock.now = 2.5
        await room.open()
        results = [await each.result() for each in asked]
        assert results == [*(f"guess {number}" for number in range(5)), "alice"]
        assert room.done[:3] == ["guess 0", "alice", "guess 1"]
        assert (room.queue.running, room.queue.waiting) == (0, 0)
        assert waited == [2.5] * 6


async def test_no_more_wait_than_may():
    async with Room(in_all=3, of_one=2) as room:
        for _ in range(2):
            room.ask("mallory")
        with pytest.raises(PasswordsBusy):
            room.ask("mallory")
        room.ask("alice")
        with pytest.raises(PasswordsBusy):
            room.queue.check("bob")
        await room.open()
        assert await room.ask("bob").result() == "bob"


async def test_who_is_cancelled_or_gone_gives_up_its_turn():
    async with Room() as room:
        hung_up = asyncio.Event()
        waiting = asyncio.create_task(room.ask("alice").result())
        leaving = asyncio.create_task(room.ask("bob", gone=hung_up.wait).result())
        staying = room.ask("carol", gone=asyncio.Event().wait)
        await asyncio.sleep(0)
        waiting.cancel()
        hung_up.set()
        with pytest.raises(CallerGone):
            await leaving
        await asyncio.wait([waiting])
        assert waiting.cancelled()
        assert (room.queue.waiting, [*room.queue._since]) == (1, [staying])
        await room.open()
        assert await staying.result() == "carol"
        await asyncio.sleep(0)
        assert staying.watcher.cancelled()
        assert room.done == ["carol"]


async def test_what_is_computed_cannot_be_stopped_but_left():
    async with Room() as room:
        room.first.abandon()
        room.first.on_caller_gone()
        assert not room.first.future.done()
        await room.open()
        assert room.first.future.result() is True


async def test_an_error_goes_to_whoever_asked_and_the_next_one_is_served():
    async with Room() as room:
        failing = room.queue.submit("alice", lambda: 1 // 0)
        after = room.ask("alice", "after")
        await room.open()
        with pytest.raises(ZeroDivisionError):
            await failing.result()
        assert await after.result() == "after"


async def test_at_the_end_nobody_waits_for_ever():
    async with Room() as room:
        waiting = asyncio.create_task(room.ask("alice").result())
        await asyncio.sleep(0)
        room.queue.close()
        await asyncio.wait([waiting])
        assert waiting.cancelled()


# ---------------------------------------------------------------------- the wallet


@asynccontextmanager
async def full_house(**limits):
    """A wallet; and what takes all places for passwords, until ``gate`` is set."""
    house, gate = House(), threading.Event()
    queue = house.wallet._workers.argon2 = Argon2Queue(1, FairScheduler(**limits))

    def fill():
        queue.submit("somebody", gate.wait)
        return queue.submit("somebody", bytes)

    try:
        yield house, fill, gate
    finally:
        gate.set()
        await house.wallet.close()


async def test_who_finds_no_room_has_changed_nothing():
    async with full_house(in_all=1) as (house, fill, gate):
        record = house.give_key("ed25519")
        filled = fill()
        for refused in (
            house.generate("secp256k1"),
            house.recover("ed25519"),
            house.matches(record),
        ):
            with pytest.raises(PasswordsBusy):
                await refused
        assert not house.gateway.gateway.links[OPERATOR].node._sessions
        await house.sign(record)  # needs no password
        gate.set()
        await filled.result()
        await house.generate("secp256k1")
        await house.recover("ed25519")


async def test_who_finds_room_no_more_leaves_no_session_behind():
    """There was room when the key generation began."""
    async with full_house(in_all=1) as (house, fill, _):
        record = house.give_key("ed25519")
        queue, workers = house.wallet.argon2, house.wallet._workers
        fill()
        full, queue.check = queue.check, lambda user: None
        queue.submit = lambda user, *given: full(user)
        for refused in (house.generate("secp256k1"), house.recover("ed25519")):
            with pytest.raises(PasswordsBusy):
                await refused
            while workers._tasks:
                await asyncio.wait(workers._tasks)
            assert not house.gateway.gateway.links[OPERATOR].node._sessions
        await house.sign(record)


def test_who_hangs_up_gives_up_its_turn_over_a_socket():
    with system() as found:
        share = found.user().post("/v3/wallet/generate", NEW).json()
        wallet, gate = found.api.app.state.wallet, threading.Event()
        guess = {"password": PASSWORD, "secret_store": share["secret_store"]}

        waited = []

        async def fill():
            queue = wallet._workers.argon2 = Argon2Queue(1)
            queue.listener = waited.append
            queue.submit("somebody", gate.wait)

        async def until(waiting):
            async with asyncio.timeout(20):
                while wallet.argon2.waiting != waiting:
                    await asyncio.sleep(0.01)

        found.api.loop.run(fill())
        try:
            asked = [found.user().begin("POST", GUESS, json=guess) for _ in range(2)]
            found.api.loop.run(until(2))
            asked[0].cancel()  # closes its connection
            found.api.loop.run(until(1))
        finally:
            gate.set()
        assert asked[1].result(20).json() == {"result": True}
        assert len(waited) == 2
