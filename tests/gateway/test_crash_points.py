"""A crash before and after every durable write of a generation and of a recovery."""

import asyncio
from itertools import product

import pytest

from tests.helpers.crashes import NEVER, Crash, crashing, no_waiting_for_the_disk
from tests.helpers.gateway import CURVES, Client, Failed, reopen, shares_of


async def attempt(client, work, curve):
    """Whether it came to a good end."""
    try:
        await getattr(client, work)(curve)
    except (Crash, Failed):
        return False
    return True


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    no_waiting_for_the_disk(monkeypatch)


def crashed(folder, work, curve, at=NEVER, when="before"):
    """Crash, look at what is left, and go on with it; how many writes there were."""
    public_key = None
    gateway = reopen(folder)
    client = Client.of(gateway)

    async def until_the_crash():
        nonlocal public_key
        if work == "recover":
            public_key = (await client.generate(curve)).public_key.encode()
        with crashing(at, when) as written:
            done = await attempt(client, work, curve)
        assert done == (at == NEVER)
        return len(written)

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


@pytest.mark.few(1)
@pytest.mark.parametrize("work", ["generate", "recover"])
@pytest.mark.parametrize(
    ("curve", "every"),
    [("ed25519", 5), *[pytest.param(curve, 1, marks=pytest.mark.soak) for curve in CURVES]],
)
def test_a_crash_at_any_write_leaves_a_working_key_or_none(tmp_path, work, curve, every):
    count = crashed(tmp_path / "whole", work, curve)
    assert count >= 9, "two shares begun and prepared, two votes, the registry, two in force"
    for at, when in [*product(range(count), ("before", "after"))][::every]:
        crashed(tmp_path / f"{at} {when}", work, curve, at, when)
