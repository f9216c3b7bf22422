"""No file may grow any more: calls fail in one sentence, and nothing is lost."""

import asyncio
import random

import pytest

from tests.campaign.callers import crowd, together
from tests.campaign.service import BACKEND, service

pytestmark = pytest.mark.soak

BLOCK = 512
"""Bytes; what ``ulimit -f`` counts."""
ATTEMPTS = 12
"""Rounds of calls until the disk must have been full."""


def limit(served, room):
    largest = max(file.stat().st_size for file in served.data.rglob("*"))
    return f"-f {(largest + room) // BLOCK}"


@pytest.mark.parametrize(("room", "gently"), [(0, False), (1 << 13, True), (1 << 16, False)])
def test_files_that_cannot_grow(tmp_path, room, gently):
    """
    Args:
        room: bytes that the largest file may still grow by.
        gently: whether gateway and MPC nodes are asked to end, or killed.
    """
    rng = random.Random(room)

    async def campaign():
        async with crowd(served, rng) as people:
            # With keys enough that a log has room beside them.
            calm = [*people.join("ed25519", 4), *people.join("secp256k1", 4)]
            await people.check()
            busy = [*people.join("ed25519", 8), *people.join("secp256k1", 2)]
            end = served.terminate if gently else served.kill
            end(*BACKEND)
            up = [n for n in BACKEND if served.refusal(n, limit(served, room)) is None]
            if up == [*BACKEND]:
                await until_full(people, calm, busy)
            end(*up)
            served.start(*BACKEND)
            await people.check(anew=True)

    async def until_full(people, calm, busy):
        failed = []

        async def attempt(caller):
            answer = await caller.make()
            assert answer is not None
            if answer.status_code >= 500:
                failed.append(answer.text)

        for _ in range(ATTEMPTS):
            await together(attempt(caller) for caller in busy)
            if len(failed) >= len(busy):
                break
        assert failed, "there was room for everything"
        print(set(failed))
        await people.check(calm)  # signing needs no room

    with service(tmp_path) as served:
        asyncio.run(campaign())
