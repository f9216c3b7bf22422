"""Gateway and node are killed at random moments, and started again on the same folder."""

import asyncio
import random

import pytest

from tests.campaign.callers import crowd
from tests.campaign.service import BOTH, GATEWAY, NODE, service

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

VICTIMS = [(GATEWAY,), (GATEWAY,), (NODE,), BOTH]
NEW, OLD = 3, 2
"""Users who have no key yet, and who have one: two callers each."""


@pytest.mark.parametrize(
    ("curve", "kills", "seed"),
    [*(("ed25519", 12, seed) for seed in range(7)), *(("secp256k1", 8, seed) for seed in range(2))],
)
def test_killed_at_random_moments(tmp_path, curve, kills, seed):
    rng = random.Random(f"{curve} {seed}")

    async def campaign():
        async with crowd(served, rng) as people:
            for number in range(kills):
                old = people.callers[-OLD:]
                callers = [*old, *people.join(curve, NEW)]
                victims = VICTIMS[number % len(VICTIMS)]
                print(f"seed {seed}, kill {number}: {' and '.join(victims)}")
                await people.strike(callers, victims)
                await people.check(callers)
            await people.check()
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
