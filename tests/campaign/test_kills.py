"""The processes are killed at random moments, and started again on the same folder."""

import asyncio

import pytest

from tests.campaign.callers import crowd
from tests.campaign.service import ALL, BACKEND, GATEWAY, NODE, seeded, service

pytestmark = pytest.mark.soak

CALLS = ("/generate", "/recover", "/sign")
CURVES = ("ed25519", "secp256k1", "ed25519")
SEVERAL = [ALL, BACKEND, (GATEWAY, NODE)]
KILLS = 10
NEW, OLD = 3, 2
"""Users who have no key yet, and who have one: two callers each."""


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("gently", [False, True], ids=["killed", "asked to end"])
@pytest.mark.parametrize("name", [*ALL, "several"])
def test_killed_at_random_moments(tmp_path, name, gently):
    """Each process alone, and several at once, on one data folder: while keys are generated,
    recovered, and sign."""
    rng = seeded(name)
    # Of what an MPC node was asked, the gateway mostly finds out what came of it.
    mostly_in_doubt = name in (GATEWAY, NODE)

    async def campaign():
        async with crowd(served, rng) as people:
            for number in range(KILLS):
                old = people.callers[-OLD:]
                callers = [*old, *people.join(CURVES[number % 3], NEW)]
                victims = SEVERAL[number % len(SEVERAL)] if name == "several" else (name,)
                print(f"kill {number}: {' and '.join(victims)}")
                await people.strike(callers, victims, gently=gently)
                await people.check(callers)
            await people.check()
            print(f"under way: {dict(people.struck)}")
            assert gently or all(people.struck[path] >= KILLS // 5 for path in CALLS), people.struck
            if mostly_in_doubt and not gently:
                assert sum(caller.in_doubt for caller in people.callers) >= KILLS // 2

    with service(tmp_path) as served:
        asyncio.run(campaign())


@pytest.mark.parametrize("curve", ["ed25519", "secp256k1"])
def test_nobody_waits_for_a_caller_who_is_gone(tmp_path, curve):
    """The node is killed with all that its callers had begun; the gateway has not noticed."""
    rng = seeded(curve)

    async def campaign():
        async with crowd(served, rng) as people:
            old = people.join(curve, 6)
            await people.check()
            await people.strike([*old, *people.join(curve, 6)], (NODE,))
            await people.check(anew=True)

    with service(tmp_path) as served:
        asyncio.run(campaign())
