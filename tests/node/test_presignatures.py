"""Presignatures: a signature in one request, and each used at most once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from mpcsim.ids import MPC_NODES
from node.errors import BadRequest
from node.models import KeyShareRecord
from node.settings import Settings
from node.timing import Timing
from tests.node.wallets import House, stored_share

HASH = bytes(range(32))


def anew(test: Callable[[House], Awaitable[None]], settings: Settings | None = None) -> None:
    async def run() -> None:
        async with House(settings=settings) as house:
            await test(house)

    asyncio.run(run())


async def sign(
    house: House, record: KeyShareRecord, presignatures: list[str], signer: str | None = None
) -> tuple[list[str], list[str]]:
    """What is left, and what was asked of the gateway."""
    house.transport.seen.clear()
    _, left = await house.wallet.sign(
        house.caller(),
        stored_share(record),
        message=HASH,
        signer=signer,
        presignatures=presignatures,
        timing=Timing(),
    )
    return left, list(house.transport.seen)


@pytest.mark.parametrize("signer", ["operator", "institution"])
def test_a_signature_takes_one_request(signer: str) -> None:
    async def test(house: House) -> None:
        record = await house.generate("secp256k1")
        made = await house.presign(record, 3, signer=signer)
        assert len(set(made)) == 3
        for n in range(3):
            made, asked = await sign(house, record, made)
            assert (len(made), asked) == (2 - n, ["presigned"])
        left, asked = await sign(house, record, made)
        assert (left, asked) == ([], ["sign", "exchange"])

    anew(test)
