"""Which MPC nodes a node works with."""

import logging

import pytest

from mpcsim.crypto.rng import SystemRng
from mpcsim.ids import ROLES
from mpcsim.service.mpc_node.identity import Identity
from mpcsim.service.rpc import pinned_identities
from mpcsim.service.rpc.statements import SealKeyStatement
from mpcsim.service.vault import SealKey
from mpcsim.service.web.transport import Reply
from node.errors import OutcomeUnknown, UntrustedNode
from tests.helpers.gateway import hellos
from tests.node.wallets import House, altering_json


def identities(house):
    return {party: hello.identity for party, hello in hellos(house.gateway).items()}


def showing(party, **changed):
    """A gateway that shows something else of an MPC node."""

    def change(said):
        said[ROLES[party]] |= {
            member: value.hex() if isinstance(value, bytes) else value
            for member, value in changed.items()
        }

    async def hook(name, go_on):
        return await (altering_json(change)(name, go_on) if name == "nodes" else go_on())

    return hook


def impostor(party):
    """A gateway's own key, with a seal key and everything."""
    own, seal_key = Identity.generate(SystemRng()), bytes(31) + b"\x09"
    signature = own.sign(SealKeyStatement(party, seal_key, 0))
    return showing(party, identity=own.public, seal_key=seal_key, signature=signature)


async def test_the_first_ones_are_taken_and_it_is_said_once_what_to_set(caplog):
    """Of those that are named, nothing is said."""
    caplog.set_level(logging.INFO, "node")

    async with House() as house:
        named = House(house.gateway, identities=identities(house))
        await named.sign(await named.generate("secp256k1"))
        record = await house.generate("ed25519")
        await house.recover("ed25519")
        (line,) = [r.getMessage() for r in caplog.records if r.name == "node"]
        *_, setting = line.split()
        name, _, text = setting.partition("=")
        assert name == "MPC_NODE_KEYS"
        assert pinned_identities.parse_identities(text) == identities(house)
        assert record.key_id not in line


async def test_another_identity_than_the_one_that_is_named(party):
    async with House() as house:
        record = house.give_key("ed25519")
        named = House(house.gateway, identities=identities(house))
        named.transport.hook = impostor(party)
        said = f"The {ROLES[party]} has another identity than MPC_NODE_KEYS says"
        for call in (named.sign(record), named.generate("secp256k1"), named.recover("ed25519")):
            with pytest.raises(UntrustedNode, match=f"^{said}$"):
                await call
        named.transport.hook = None
        await named.sign(record)  # nothing is lost


async def test_another_identity_than_at_first(party):
    async with House() as house:
        record = house.give_key("ed25519")
        await house.client.nodes()
        house.transport.hook = impostor(party)
        said = f"^The {ROLES[party]} has another identity than when this node first met it; "
        for making in (house.recover("ed25519"), house.generate("secp256k1")):
            with pytest.raises(UntrustedNode, match=said):
                await making
        await house.sign(record)  # with the seal keys that are known
        house.transport.hook = None
        await house.sign(await house.recover("ed25519"))


@pytest.mark.parametrize("lost", [False, True])
async def test_a_seal_key_that_has_been_replaced(party, lost):
    """Its statement is genuine, and a gateway may have kept it: with the key, that has leaked, it
    would open what is sealed from now on. A REST node that has seen no newer one hands out nothing
    that is sealed to it: both MPC nodes vote with the number of the present one.

    Args:
        lost: the answer with the votes; they are read off the registry's record.
    """
    async with House() as house:
        house.give_key("ed25519")
        node = house.gateway.links[party].node
        old, node._boot.seal_key = node.hello(), SealKey.generate(SystemRng())
        with node.store.database.transaction() as cursor:
            cursor.execute("INSERT INTO secrets VALUES ('seal_number', 1)")
        node.restart()
        replaced = showing(party, seal_key=old.seal_key, signature=old.signature, seal_number=0)

        async def lying(name, go_on):
            reply = await replaced(name, go_on)
            return Reply(503, b"") if lost and name == "activate" else reply

        restarted = House(house.gateway)
        restarted.transport.hook = lying
        for making in (restarted.recover("ed25519"), restarted.generate("ed25519", "bob")):
            with pytest.raises(OutcomeUnknown, match="seal key is one that it has replaced"):
                await making
        restarted.transport.hook = None
        await restarted.sign(await restarted.recover("ed25519"))


@pytest.mark.parametrize("pinned", [True, False])
@pytest.mark.parametrize("change", [{"seal_key": bytes(32)}, {"signature": bytes(64)}])
async def test_a_seal_key_of_somebody_elses(pinned, change, party):
    async with House() as house:
        asked = House(house.gateway, identities=identities(house) if pinned else None)
        asked.transport.hook = showing(party, **change)
        said = f"^The {ROLES[party]}'s seal key does not bear its identity's signature$"
        with pytest.raises(UntrustedNode, match=said):
            await asked.client.nodes()
        asked.transport.hook = None
        await asked.client.nodes()
