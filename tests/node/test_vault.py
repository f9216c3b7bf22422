"""Opening vaults and signing: what binds the requests for it, and who is believed."""

from dataclasses import replace

import pytest

from mpcsim.ids import OPERATOR
from mpcsim.service import vault
from mpcsim.service.rpc import wire
from node.errors import ApiError, StaleBoot, UntrustedNode
from tests.node.wallets import CHEAP, altering, failing, on

CURVES = ("secp256k1", "ed25519")


def altered(record, **changes):
    """The record with another secret store."""
    store = replace(vault.SecretStore.from_text(record.secret_store), **changes)
    return record.model_copy(update={"secret_store": store.to_text()})


def flipped(data):
    return bytes([data[0] ^ 1]) + data[1:]


# ---------------------------------------------------------------------- a gateway that meddles


async def test_a_password_is_tried_on_no_store_but_ours(house, record):
    """Neither on one that was altered, nor on one of a node that spends more on it."""

    salt = vault.SecretStore.from_text(record.secret_store).salt
    assert await house.matches(altered(record, salt=flipped(salt))) is False
    assert await house.matches(record)
    house.wallet._cost = vault.Argon2Cost(vault.INTERACTIVE.operations + 1, CHEAP.memory_kib)
    assert not await house.matches(await house.recover("ed25519"))


async def test_parts_of_the_vault_key_that_are_damaged_open_nothing(house, record):
    def damaged(opened):
        return replace(opened, halves={j: flipped(half) for j, half in opened.halves.items()})

    house.transport.hook = on("open", altering(wire.VaultOpened, damaged))
    said = await failing(UntrustedNode, house.public_key(record))
    assert said == "The MPC nodes' parts of the vault key are damaged"


async def test_a_message_that_no_session_takes_begins_none(house, record):
    said = await failing(ApiError, house.sign(record, bytes(wire.MAX_MESSAGE_BYTES + 1)))
    assert said.startswith("MPC session cannot begin: message of 65537 bytes")
    assert "sign" not in house.transport.seen


# ---------------------------------------------------------------------- restarts


@pytest.mark.few(1)
@pytest.mark.parametrize(("verb", "early"), [("open", False), ("sign", False), ("sign", True)])
async def test_a_node_that_is_started_anew_again_and_again(verb, early, house, record):
    """Whoever asks is told, after one more try."""

    async def restart(name, go_on):
        if name == verb:
            house.gateway.links[OPERATOR].node.restart()
        return await go_on()

    house.transport.hook = restart
    house.transport.seen.clear()
    said = await failing(StaleBoot, house.sign(record))
    assert said == (
        "Upstream returned 412 Precondition Failed: the operator's MPC node has another "
        "boot than this is for"
    )
    assert house.transport.seen.count(verb) == 2
    house.transport.hook = None
    await house.sign(record)
