"""Signatures of child keys: an MPC node derives them itself, from the record of its own share."""

from dataclasses import replace

import pytest

from mpcsim.crypto.bip32 import HARDENED
from mpcsim.ids import MPC_NODES, OPERATOR
from mpcsim.service.errors import Refused
from tests.helpers.gateway import ask_node
from tests.helpers.tiers import fast_few


@pytest.mark.parametrize("signer", fast_few(MPC_NODES, 1))
async def test_a_child_signs_and_after_a_recovery_as_well(gateway, client, ec_share, signer):
    for path in ((), (0, 7), (HARDENED - 1,) * 10):
        await client.sign(ec_share, signer=signer, path=path)
    new = await client.recover("secp256k1")
    assert new.record.chain_code == ec_share.record.chain_code
    await client.sign(new, signer=signer, path=(0, 7))


def refusals(share, client, gateway, user_id, path):
    """What the node says of a path, and what the gateway passes on."""
    link = gateway.links[OPERATOR]
    request = client.proven(share, replace(client.begin_sign(share)[1], path=path))
    with pytest.raises(Refused) as refused:
        ask_node(link, "sign", user_id, request)
    assert not link.node._sessions, "nothing has been begun"
    return request, refused.value


NOWHERE = [
    ("secp256k1", (0, HARDENED), 'step 2 ("2147483648") is hardened'),
    ("ed25519", (0,), "ed25519 keys have no chain code"),
]


@pytest.mark.parametrize(("curve", "path", "words"), NOWHERE)
async def test_a_path_that_leads_nowhere(gateway, client, share, curve, path, words):
    """Whatever its caller has looked at."""
    user_id = await client.user_id()
    request, refused = refusals(share, client, gateway, user_id, path)
    assert refused.status == 422
    assert str(refused).startswith(f"Invalid path: {words}")
    response = await client.post("sign", request)
    assert (response.status_code, response.json()) == (422, {"error": str(refused)})
    await client.check_works(share)
