"""A process stands still in the middle of calls, for shorter or longer than others wait."""

import asyncio

import httpx
import pytest

from tests.campaign.callers import crowd
from tests.campaign.service import ALL, NODE, seeded, service

pytestmark = pytest.mark.soak

GATEWAY_TIMEOUT_S = 2
"""How long the node waits for the gateway."""
PATIENCE_S = 4
"""How long the callers wait for the node, which may ask the gateway in vain more than once."""
PAUSES_S = [0.5, 1.95, 2.05, 3.0, 5.0]


@pytest.mark.parametrize("victim", ALL)
@pytest.mark.parametrize("curve", ["ed25519", "secp256k1"])
def test_paused_at_random_moments(tmp_path, curve, victim):
    rng = seeded(curve, victim)

    async def campaign():
        async with (
            crowd(served, rng) as people,
            httpx.AsyncClient(base_url=served.address(NODE), trust_env=False) as http,
        ):
            for pause_s in PAUSES_S:
                callers = [*people.callers[-2:], *people.join(curve, 3)]
                print(f"{victim} stands still for {pause_s} s")
                async with people.at_work(callers, PATIENCE_S):
                    served.pause(victim)
                    try:
                        if victim != NODE:
                            assert (await http.get("/")).status_code == 200
                        await asyncio.sleep(pause_s)
                    finally:
                        served.resume(victim)
                await people.check(callers)
            await people.check()

    with service(tmp_path, GATEWAY_TIMEOUT_S=str(GATEWAY_TIMEOUT_S)) as served:
        asyncio.run(campaign())
