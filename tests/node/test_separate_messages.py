"""Messages of a signature in requests of their own."""

import asyncio

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

    def __init__(self, house, *, backwards=False):
        self.sizes = []
        self._exchange = house.client.exchange
        self._backwards = backwards
        house.client.exchange = self.exchange

    async def exchange(self, token, session_id, messages):
        self.sizes.append(len(messages))
        if self._backwards and len(self.sizes) == 1:
            await asyncio.sleep(0.2)
        return await self._exchange(token, session_id, tuple(messages))


@pytest.mark.few(2)
@pytest.mark.parametrize("curve", CURVES)
async def test_a_key_signs(curve, early):
    settings = Settings(separate_messages=True, early_requests=early)
    async with House(settings=settings) as house:
        record = await house.generate(curve)
        posts = Posts(house)
        await house.sign(record, HASH)
        await house.sign(record, HASH, signer="institution")
        assert posts.sizes == ([1, 1] * 2 if curve == "secp256k1" else [])


async def test_what_is_not_between_two_that_know_each_other_stays_together():
    """A key generation, and a recovery, have messages for both MPC nodes."""

    async with House(settings=APART) as house:
        posts = Posts(house)
        await house.generate("secp256k1")
        assert min(posts.sizes) > 1


@pytest.mark.few(1)
@pytest.mark.parametrize("lost", [0, 1])
async def test_one_that_gets_lost_ends_the_session_and_blames_nobody(lost):
    async with House(settings=APART) as house:
        record = await house.generate("secp256k1")
        exchange, count = house.client.exchange, iter(range(9))

        async def losing(token, session_id, messages):
            kind = Envelope.decode(messages[0]).kind
            if next(count) == lost:
                raise ApiError(502, f"lost: {kind}")
            return await exchange(token, session_id, messages)

        house.client.exchange = losing
        with pytest.raises(ApiError, match="lost"):
            await house.sign(record, HASH)
        await house.wallet.close()
        house.client.exchange = exchange
        node = house.gateway.gateway.links[OPERATOR].node
        assert not node._sessions
        await house.sign(record, HASH)
