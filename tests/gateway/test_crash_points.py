"""A crash before and after every durable write of a generation and of a recovery."""

import asyncio
from contextlib import contextmanager

import pytest

from mpcsim.rpc.database import Database
from tests.helpers.gateway import Client, Failed, reopen, shares_of

NEVER = 10**9


class Crash(BaseException):
    """The process is gone."""


@contextmanager
def crashing(at, when):
    """Crash before or after the commit of write number ``at`` (from 0); later writes never happen.

    Yields:
        The number of writes so far, in a list.
    """
    original = Database.transaction
    count = [0]

    @contextmanager
    def transaction(database):
        number = count[0]
        count[0] += 1
        if number > at or (number == at and when == "before"):
            raise Crash
        with original(database) as cursor:
            yield cursor
        if number == at:
            raise Crash

    Database.transaction = transaction
    try:
        yield count
    finally:
        Database.transaction = original


async def attempt(client, work, curve):
    """Whether it came to a good end."""
    try:
        await getattr(client, work)(curve)
    except (Crash, Failed):
        return False
    return True


@pytest.fixture(autouse=True)
def no_waiting_for_the_disk(monkeypatch):
    """What is written survives the end of a process; only a power cut would be another matter."""
    original = Database.__init__

    def opened(database, *arguments):
        original(database, *arguments)
        database._writer.execute("PRAGMA synchronous = OFF")

    monkeypatch.setattr(Database, "__init__", opened)


def crashed(folder, work, curve, at=NEVER, when="before"):
    """Crash, look at what is left, and go on with it; how many writes there were."""
    public_key = None
    gateway = reopen(folder)
    client = Client.of(gateway)

    async def until_the_crash():
        nonlocal public_key
        if work == "recover":
            public_key = (await client.generate(curve)).public_key.encode()
        with crashing(at, when) as count:
            done = await attempt(client, work, curve)
        assert done == (at == NEVER)
        return count[0]

    async def after():
        again = Client.of(gateway)
        client.http, client.hellos = again.http, again.hellos
        states = {state for rows in shares_of(gateway).values() for *_, state, _ in rows}
        voted = [row for rows in shares_of(gateway).values() for row in rows if row[3] == "voted"]
        assert states <= {"active", "voted"}
        assert len(voted) <= 1, "what both have voted for is in force from the start on"
        await client.check_consistent(curve, public_key)

    count = asyncio.run(until_the_crash())
    gateway.close()
    gateway = reopen(folder)
    asyncio.run(after())
    gateway.close()
    return count


@pytest.mark.parametrize(
    ("work", "curve"),
    [
        ("generate", "ed25519"),
        ("recover", "ed25519"),
        pytest.param("generate", "secp256k1", marks=pytest.mark.slow),
        pytest.param("recover", "secp256k1", marks=pytest.mark.slow),
    ],
)
def test_a_crash_at_any_write_leaves_a_working_key_or_none(tmp_path, work, curve):
    count = crashed(tmp_path / "whole", work, curve)
    assert count >= 9, "two shares begun and prepared, two votes, the registry, two in force"
    for at in range(count):
        for when in ("before", "after"):
            crashed(tmp_path / f"{at} {when}", work, curve, at, when)
