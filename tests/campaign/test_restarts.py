"""The processes end, in good order or not, and begin again: what was acknowledged signs."""

import asyncio

import pytest

from tests.campaign.callers import crowd, together
from tests.campaign.service import ALL, GATEWAY, INSTITUTION, NODE, OPERATOR, seeded, service

pytestmark = pytest.mark.soak

VICTIMS = [(GATEWAY,), (OPERATOR,), (NODE,), (INSTITUTION,), ALL, (NODE, GATEWAY, OPERATOR)]
ROUNDS = len(VICTIMS)


async def succeeds(call):
    answer = await call
    assert answer is not None, "no answer"
    assert answer.is_success, answer.text


@pytest.mark.parametrize("gently", [True, False], ids=["asked to end", "killed"])
def test_between_calls(tmp_path, gently):
    """Nothing is under way, so nothing may fail."""
    rng = seeded("between calls")

    async def campaign():
        async with crowd(served, rng) as people:
            end = served.terminate if gently else served.kill
            for number in range(ROUNDS):
                new = [*people.join("ed25519", 2), *people.join("secp256k1", number % 2)]
                old = rng.sample(people.callers, len(people.callers) // 2)
                await together(succeeds(caller.make()) for caller in new)
                await together(succeeds(caller.make()) for caller in old)
                victims = rng.choice(VICTIMS)
                end(*victims)
                await asyncio.to_thread(served.start, *victims)
                for caller in people.callers:
                    *_, share = caller.key.shares.values()
                    await succeeds(caller.sign(share))
                await people.check()

    with service(tmp_path) as served:
        asyncio.run(campaign())
