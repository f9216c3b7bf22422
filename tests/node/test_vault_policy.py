"""Vault policy ``signer``: the MPC node that signs opens the vault alone."""

import asyncio
from dataclasses import replace

import pytest

from mpcsim.crypto.rng import SystemRng
from mpcsim.ids import INSTITUTION, MPC_NODES, OPERATOR
from mpcsim.service.errors import NodeFailed
from mpcsim.service.rpc import statements, wire
from mpcsim.service.vault import ReplyKey, SecretStore
from node.errors import BadRequest, Upstream
from node.process.settings import Settings
from tests.helpers.gateway import CURVES, Clock
from tests.node.wallets import House, failing

HASH = bytes(range(32))
SIGNER = Settings(vault_policy="signer")
IN_TWO_STEPS = Settings(vault_policy="signer", early_requests=False)
AN_HOUR_S = statements.ATTESTED_S


@pytest.fixture
def clock():
    return Clock(1_800_000_000.0)


@pytest.fixture
def house(request, clock):
    """With the test's ``settings``, if it is given any."""
    given = "settings" in request.fixturenames
    settings = request.getfixturevalue("settings") if given else SIGNER
    return House(settings=settings, now=clock, clock=clock)


async def told(house):
    """What the MPC nodes are told in the background, they have been told."""
    await asyncio.gather(*house.gateway.gateway.attestations._exchanges.values())


@pytest.mark.few(2)
@pytest.mark.parametrize("settings", [SIGNER, IN_TWO_STEPS], ids=["early", "two steps"])
@pytest.mark.parametrize("curve", CURVES)
async def test_each_mpc_node_signs_while_the_other_is_away(curve, settings, house, clock, record):
    await house.sign(record, HASH, signer="operator")
    await told(house)
    for away, there in ((OPERATOR, "institution"), (INSTITUTION, "operator")):
        house.gateway.links[away].down = True
        await house.sign(record, HASH, signer=there)
        await house.sign(record, HASH)  # whoever is there
        assert await house.opens(record)
        house.gateway.links[away].down = False


@pytest.mark.parametrize("settings", [SIGNER, IN_TWO_STEPS], ids=["early", "two steps"])
async def test_for_an_hour(settings, house, clock, record):
    await house.sign(record, HASH)
    house.gateway.links[INSTITUTION].down = True
    clock.now += AN_HOUR_S - 1
    await house.sign(record, HASH)
    clock.now += 2
    assert await failing(Upstream, house.sign(record, HASH)) == (
        "Upstream returned 424 Failed Dependency: the operator has not heard from the "
        "institution within an hour which keys are suspended"
    )
    house.gateway.links[INSTITUTION].down = False
    await house.sign(record, HASH)


async def test_both_is_the_default_and_a_store_says_which(house, clock, record):
    assert Settings().vault_policy == "both"
    whole = SecretStore.from_text(record.secret_store)
    assert (whole.whole, whole.version) == (True, 3)
    assert SecretStore.from_text(whole.to_text()) == whole
    house.wallet._whole = False  # the setting is about new vaults; the store about its own
    await house.sign(record, HASH)
    renewed = await house.recover("ed25519")
    halves = SecretStore.from_text(renewed.secret_store)
    assert (halves.whole, halves.version) == (False, 2)
    await house.sign(renewed, HASH)


async def test_a_whole_does_not_pass_for_a_half_nor_a_half_for_a_whole(party, house, clock, record):
    store = SecretStore.from_text(record.secret_store)
    for whole in (False, True):
        if whole:
            house.wallet._whole = False
            record = await house.recover("ed25519")
            store = SecretStore.from_text(record.secret_store)
        sealed = replace(store, whole=whole).to_text()
        said = await failing(BadRequest, house.sign(record, secret_store=sealed))
        assert said == "Invalid secret_store"
    await house.sign(record)


async def test_who_signs_opens_its_part(house, clock, record):
    store = SecretStore.from_text(record.secret_store)
    key, public = bytes.fromhex(record.key_id), ReplyKey(SystemRng()).public
    proof = wire.UseProof(bytes(16), bytes(32))
    for party in MPC_NODES:
        vault = wire.Vault(public, {party: store.halves[party]}, {party: proof}, 1)
        signer = next(j for j in MPC_NODES if j != party)
        body = wire.Sign(bytes(32), key, signer, HASH, (), (), proof, vault)
        said = await failing(BadRequest, house.client.sign(house.caller().token, body))
        assert said == "Invalid secret_store"
        assert not house.gateway.gateway.sessions._sessions


async def test_what_was_said_is_carried_while_nothing_new_can_be_said(house, clock, record):
    """The institution is there, but cannot list what is suspended."""

    await house.sign(record, HASH)
    await told(house)

    def unable():
        raise NodeFailed(503, "too many", INSTITUTION)

    house.gateway.links[INSTITUTION].node._attestations.make_statement = unable
    house.gateway.links[OPERATOR].node.restart()
    await house.sign(record, HASH)
