"""The processes are killed at random moments, and started again on the same folder."""

import asyncio
import random

import pytest

from tests.campaign.callers import crowd
from tests.campaign.service import ALL, BACKEND, GATEWAY, NODE, service

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

SEVERAL = [ALL, BACKEND, (GATEWAY, NODE)]
NEW, OLD = 3, 2
"""Users who have no key yet, and who have one: two callers each."""


@pytest.mark.parametrize(("curve", "kills"), [("ed25519", 10), ("ed25519", 11), ("secp256k1", 9)])
@pytest.mark.parametrize("name", [*ALL, "several"])
def test_killed_at_random_moments(tmp_path, curve, kills, name):
    """Thirty times each process alone, and several at once."""
    rng = random.Random(f"{name} {curve} {kills}")
    # Of what an MPC node was asked, the gateway mostly finds out what came of it.
    mostly_in_doubt = name in (GATEWAY, NODE)

    async def campaign():
        async with crowd(served, rng) as people:
            for number in range(kills):
                old = people.callers[-OLD:]
                callers = [*old, *people.join(curve, NEW)]
                victims = SEVERAL[number % len(SEVERAL)] if name == "several" else (name,)
                print(f"kill {number}: {' and '.join(victims)}")
                await people.strike(callers, victims)
                await people.check(callers)
            await people.check()
            if mostly_in_doubt:
                assert sum(caller.in_doubt for caller in people.callers) >= kills // 2

    with service(tmp_path) as served:
        asyncio.run(campaign())


@pytest.mark.parametrize("curve", ["ed25519", "secp256k1"])
def test_nobody_waits_for_a_caller_who_is_gone(tmp_path, curve):
    """The node is killed with all that its callers had begun; the gateway has not noticed."""
    rng = random.Random(curve)

    async def campaign():
        async with crowd(served, rng) as people:
            old = people.join(curve, 6)
            await people.check()
            await people.strike([*old, *people.join(curve, 6)], (NODE,))
            await people.check(anew=True)

    with service(tmp_path) as served:
        asyncio.run(campaign())
