"""Settings of signing: messages in requests of their own, and k = 2 and 4 in OT extension."""

import os

import pytest

from mpcsim.service.rpc.session_keys import SessionKey
from node.errors import Upstream
from node.process.settings import Settings
from tests.helpers.gateway import CURVES
from tests.node.wallets import House

HASH = bytes(range(32))
APART = Settings(separate_messages=True)


class Posts:
    """Every request that carries further messages."""

    def __init__(self, house):
        self.sizes = []
        self._exchange = house.client.exchange
        house.client.exchange = self.exchange

    async def exchange(self, token, session_id, messages):
        self.sizes.append(len(messages))
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


# ---------------------------------------------------------------------- k


async def test_recovery_changes_to_the_setting_in_force():
    async with House(settings=Settings(ot_extension_k=4)) as house:
        record = await house.generate("secp256k1")
        later = House(house.gateway)
        recovered = await later.recover("secp256k1")
        assert len(recovered.encrypted_share) < len(record.encrypted_share) / 2
        await later.sign(recovered, HASH)
        await house.sign(recovered, HASH)  # the share says which k it has


@pytest.mark.few(1)
@pytest.mark.parametrize("k", [0, 3, 8, 255])
async def test_mpc_nodes_make_no_keys_with_another_k(k):
    async with House() as house:
        token = house.caller().token
        asked = house.client.generate(token, SessionKey(), "secp256k1", (), k)
        with pytest.raises(Upstream, match=r"k = .*; 1, 2 or 4"):
            await asked
        await house.generate("secp256k1")
        with pytest.raises(Upstream, match=r"k = .*; 1, 2 or 4"):
            await house.client.recover(token, os.urandom(32), "secp256k1", k)
