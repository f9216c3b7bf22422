"""Keys with k = 2 and 4 in OT extension: made, used, recovered to another k."""

import os

import pytest

from mpcsim.service.rpc.session_keys import SessionKey
from node.errors import Upstream
from node.process.settings import Settings
from tests.node.wallets import House

HASH = bytes(range(32))


@pytest.mark.few(1)
@pytest.mark.parametrize(("k", "scheme"), [(2, "ot/80/2"), (4, "ot/80/4")])
async def test_a_key_is_made_used_and_recovered(k, scheme):
    async with House(settings=Settings(ot_extension_k=k)) as house:
        record = await house.generate("secp256k1")
        for signer in ("operator", "institution"):
            await house.sign(record, HASH, signer=signer)
        recovered = await house.recover("secp256k1")
        await house.sign(recovered, HASH)
        assert recovered.public_key == record.public_key


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
