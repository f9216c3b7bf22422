"""Messages of a signature in requests of their own."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from mpcsim.ids import OPERATOR
from mpcsim.protocols.engine.envelope import Envelope
from node.errors import ApiError
from node.process.settings import Settings
from tests.helpers.gateway import CURVES
from tests.node.wallets import House

HASH = bytes(range(32))
APART = Settings(separate_messages=True)


class Posts:
    """Every request that carries further messages; they go in this order."""

    def __init__(self, house: House, *, backwards: bool = False) -> None:
        self.sizes: list[int] = []
        self._exchange = house.client.exchange
        self._backwards = backwards
        house.client.exchange = self.exchange  # type: ignore[method-assign]

    async def exchange(
        self, token: str, session_id: bytes, messages: Sequence[bytes]
    ) -> tuple[bytes, ...]:
        self.sizes.append(len(messages))
        if self._backwards and len(self.sizes) == 1:
            await asyncio.sleep(0.2)
        return await self._exchange(token, session_id, tuple(messages))


@pytest.mark.few(2)
@pytest.mark.parametrize("curve", CURVES)
async def test_a_key_signs(curve: str, early: bool) -> None:
    settings = Settings(separate_messages=True, early_requests=early)
    async with House(settings=settings) as house:
        record = await house.generate(curve)
        posts = Posts(house)
        await house.sign(record, HASH)
        await house.sign(record, HASH, signer="institution")
        assert posts.sizes == ([1, 1] * 2 if curve == "secp256k1" else [])


async def test_what_is_not_between_two_that_know_each_other_stays_together() -> None:
    """A key generation, and a recovery, have messages for both MPC nodes."""

    async with House(settings=APART) as house:
        posts = Posts(house)
        await house.generate("secp256k1")
        assert min(posts.sizes) > 1


@pytest.mark.few(1)
@pytest.mark.parametrize("lost", [0, 1])
async def test_one_that_gets_lost_ends_the_session_and_blames_nobody(lost: int) -> None:
    async with House(settings=APART) as house:
        record = await house.generate("secp256k1")
        exchange, count = house.client.exchange, iter(range(9))

        async def losing(token: str, session_id: bytes, messages: Any) -> Any:
            kind = Envelope.decode(messages[0]).kind
            if next(count) == lost:
                raise ApiError(502, f"lost: {kind}")
            return await exchange(token, session_id, messages)

        house.client.exchange = losing  # type: ignore[method-assign]
        with pytest.raises(ApiError, match="lost"):
            await house.sign(record, HASH)
        await house.wallet.close()
        house.client.exchange = exchange  # type: ignore[method-assign]
        node = house.gateway.gateway.links[OPERATOR].node
        assert not node._sessions
        await house.sign(record, HASH)
