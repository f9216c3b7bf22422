"""Vault policy ``signer``: the MPC node that signs opens the vault alone."""

import asyncio
from dataclasses import replace

import pytest

from mpcsim.crypto.rng import SystemRng
from mpcsim.ids import INSTITUTION, MPC_NODES, OPERATOR
from mpcsim.service.errors import NodeFailed, Refused
from mpcsim.service.rpc import statements, wire
from mpcsim.service.rpc.activation_messages import PREPARED
from mpcsim.service.rpc.grants import Scope
from mpcsim.service.vault import ReplyKey, SecretStore
from node.errors import BadRequest, Upstream
from node.process.settings import Settings, SettingsError
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


async def test_a_key_that_may_be_recovered_at_the_other_signs_for_an_hour(house, clock, record):
    """A gateway can keep from an MPC node that what it has voted for is in force."""
    store = house.gateway.links[INSTITUTION].node.store
    known = store.find(record.key_id)
    store.prepare(replace(known, key_id="new", state=PREPARED, predecessor=record.key_id))
    store.vote("new", lambda share, head: b"a vote")
    clock.now += AN_HOUR_S - 1
    await house.sign(record, HASH, signer="institution")
    clock.now += 1
    said = await failing(Upstream, house.sign(record, HASH, signer="institution"))
    assert "the institution has voted for newer shares of this key over an hour ago" in said
    await house.sign(record, HASH, signer="operator")
    store.drop(known.user_id, known.curve, "new")
    await house.sign(record, HASH, signer="institution")


async def test_both_is_the_default_and_a_store_says_which(house, clock, record):
    assert Settings().vault_policy == "both"
    assert Settings.from_environment({"VAULT_POLICY": "signer"}).vault_policy == "signer"
    with pytest.raises(SettingsError, match="VAULT_POLICY must be both or signer"):
        Settings.from_environment({"VAULT_POLICY": "neither"})

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


# ---------------------------------------------------------------------- statements


def heard(house, said):
    """Tell the operator what the institution says, as the gateway does."""
    link = house.gateway.links[OPERATOR]
    link.node.handle("hear", link.grant(Scope("hear")), said.to_bytes())


async def test_statements_that_are_not_the_others(house, clock, record):
    link, node = house.gateway.links[INSTITUTION], house.gateway.links[INSTITUTION].node
    asked = statements.GetAttestation().to_bytes()
    reply = node.handle("attest", link.grant(Scope("attest")), asked)
    true = statements.SignedAttestation.from_bytes(reply)
    assert statements.is_signed_by(node.hello().identity, true.statement, true.signature)
    mine = house.gateway.links[OPERATOR].node._attestations.make_statement()
    forged = replace(true.statement, at_ms=true.statement.at_ms + 1)
    for bad in (
        mine,
        replace(true, signature=mine.signature),
        replace(true, statement=forged),
        replace(mine, statement=replace(mine.statement, party=INSTITUTION)),
    ):
        with pytest.raises(Refused, match="this is no statement of the institution"):
            heard(house, bad)
    of_another = replace(true.statement, party=OPERATOR)
    with pytest.raises(Refused, match="this is no statement of the institution"):
        signature = node._context.identity.sign(of_another)
        heard(house, statements.SignedAttestation(of_another, signature))
    early = replace(true.statement, at_ms=int((clock.now + statements.SKEW_S) * 1000) + 1)
    with pytest.raises(Refused, match="from the future"):
        heard(house, statements.SignedAttestation(early, node._context.identity.sign(early)))
    operator = house.gateway.links[OPERATOR].node._attestations
    with pytest.raises(NodeFailed, match="has not heard"):
        operator.check(bytes.fromhex(record.key_id))
    heard(house, true)
    operator.check(bytes.fromhex(record.key_id))
    clock.now += AN_HOUR_S
    operator.check(bytes.fromhex(record.key_id))
    clock.now += 0.001
    with pytest.raises(NodeFailed, match="has not heard"):
        operator.check(bytes.fromhex(record.key_id))


async def test_clocks_that_were_ahead(house, clock, record):
    """What was said then does not count for longer, and gives way to what is said now."""

    clock.now += 86_400
    await house.sign(record, HASH)
    await told(house)
    clock.now -= 86_400
    operator = house.gateway.links[OPERATOR].node._attestations
    with pytest.raises(NodeFailed, match="not heard from the institution within an hour"):
        operator.check(bytes.fromhex(record.key_id))
    heard(house, house.gateway.links[INSTITUTION].node._attestations.make_statement())
    operator.check(bytes.fromhex(record.key_id))


async def test_what_was_said_is_carried_while_nothing_new_can_be_said(house, clock, record):
    """The institution is there, but cannot list what is suspended."""

    await house.sign(record, HASH)
    await told(house)

    def unable():
        raise NodeFailed(503, "too many", INSTITUTION)

    house.gateway.links[INSTITUTION].node._attestations.made = unable
    house.gateway.links[OPERATOR].node.restart()
    await house.sign(record, HASH)


async def test_an_older_statement_does_not_take_the_place_of_a_newer_one(house, clock, record):
    node = house.gateway.links[INSTITUTION].node
    before = node._attestations.make_statement()
    clock.now += 10
    node.store.suspend(record.key_id, "seen cheating")
    heard(house, node._attestations.make_statement())
    heard(house, before)
    with pytest.raises(Refused, match="suspended at the institution"):
        house.gateway.links[OPERATOR].node._attestations.check(bytes.fromhex(record.key_id))


async def test_more_suspended_keys_than_a_statement_can_name(monkeypatch, house, clock):
    node = house.gateway.links[INSTITUTION].node
    records = [house.give_key("ed25519", f"user-{n}") for n in range(3)]
    for record in records:
        node.store.suspend(record.key_id, "seen cheating")
    monkeypatch.setattr("mpcsim.service.mpc_node.agreement.attestations.MAX_ATTESTED", 3)
    assert len(node._attestations.make_statement().statement.suspended) == 3
    monkeypatch.setattr("mpcsim.service.mpc_node.agreement.attestations.MAX_ATTESTED", 2)
    with pytest.raises(NodeFailed, match="more suspended keys than it can list"):
        node._attestations.make_statement()
