"""The wallet's operations over the real gateway, in this process."""

import asyncio
import threading
from dataclasses import replace

import pytest

import node.wallet.password_key
import node.wallet.wallet
from mpcsim.ids import INSTITUTION, OPERATOR
from mpcsim.protocols import ecdsa, signing
from mpcsim.protocols.sample_keys import keys
from mpcsim.protocols.signing import verifies
from mpcsim.service.error_codes import Code
from mpcsim.service.operations import open_gateway
from mpcsim.service.vault import INTERACTIVE, Argon2Cost, SecretStore
from mpcsim.service.web.transport import Reply
from node import errors
from node.process.timing import Timing
from node.wallet.wallet import Wallet
from tests.node import wallets
from tests.node.wallets import House, check_signature, failing, on, refused, settled

CURVES = ("secp256k1", "ed25519")
HASH = bytes(range(32))
TOO_SLOW = wallets.answering(errors.UpstreamTimeout())


@pytest.fixture(scope="module")
def stored():
    """A gateway with one key of alice on each curve, for tests that leave both as they are."""
    gateway = open_gateway()

    async def make():
        async with House(gateway) as house:
            return {curve: house.give_key(curve) for curve in CURVES}

    return gateway, asyncio.run(make())


@pytest.fixture
def records(stored):
    return stored[1]


# ---------------------------------------------------------------------- signing


TRIPS = [("secp256k1", ["sign", "exchange"]), ("ed25519", ["sign"])]


@pytest.mark.parametrize(("curve", "requests"), TRIPS)
async def test_round_trips(curve, requests, early, house, records):
    house.wallet._signer.first_with_vault = early
    await house.client.nodes()  # once in a node's life
    house.transport.seen.clear()
    timing = Timing()
    sealed = wallets.stored_share(records[curve])
    await house.wallet.sign(house.caller(), sealed, message=HASH, signer=None, timing=timing)
    await settled(house)
    assert house.transport.seen == ([] if early else ["open"]) + requests
    for span in ["vault", "compute", *(f"round{n}" for n in range(1, 1 + len(requests)))]:
        assert f"{span};dur=" in timing.header()


DOWN_AT = [("exchange", True), ("exchange", False), ("sign", False)]


@pytest.mark.few(2)
@pytest.mark.parametrize(("verb", "early"), DOWN_AT)
async def test_the_institution_signs_when_the_operator_is_down(verb, early, house, ec_record):
    """Once the vault is open: that takes both."""

    async def fail(name, go_on):
        house.gateway.links[OPERATOR].down = True
        return await go_on()

    house.transport.hook = on(verb, fail)
    house.transport.seen.clear()
    check_signature(ec_record.public_key, HASH, await house.sign(ec_record, HASH))
    assert house.transport.seen.count("sign") == 2

    house.gateway.links[OPERATOR].down = False
    house.transport.hook = on("sign", fail)
    said = await failing(errors.Upstream, house.sign(ec_record, signer="operator"))
    assert said == (
        "Upstream returned 503 Service Unavailable: the operator's MPC node cannot be reached"
    )


@pytest.mark.few(1)
@pytest.mark.parametrize("damage", ["blob", "another key's", "another holder's"])
async def test_nothing_signs_while_the_operators_share_is_damaged(caplog, damage, house, ec_record):
    """It is no fault of the caller's. Who asks to open a vault, the share alone can tell."""
    other = house.give_key("secp256k1", "bob")
    stores = [house.gateway.links[party].node.store for party in (OPERATOR, INSTITUTION)]
    whole = stores[0].find(ec_record.key_id)
    if damage == "blob":
        share = whole.share[:1000] + bytes([whole.share[1000] ^ 1]) + whole.share[1001:]
    elif damage == "another key's":
        share = stores[0].find(other.key_id).share
    else:
        share = stores[1].find(ec_record.key_id).share
    with stores[0]._database.transaction() as cursor:
        update = "UPDATE shares SET share = ? WHERE key_id = ?"
        cursor.execute(update, (share, ec_record.key_id))
    house.gateway.links[OPERATOR].node.restart()
    text = "503 Service Unavailable: the operator's stored share of this key is damaged"
    assert await failing(errors.Upstream, house.sign(ec_record)) == f"Upstream returned {text}"
    lines = [r.getMessage() for r in caplog.records if r.levelname == "ERROR"]
    assert lines == [
        "the operator's stored share of this key is damaged: user "
        f"{whole.user_id}, secp256k1 key {ec_record.key_id}; put a whole operator.sqlite back"
    ]
    for failed in (house.sign(ec_record, signer="institution"), house.recover("secp256k1")):
        assert await failing(errors.Upstream, failed) == f"Upstream returned {text}"
    await house.sign(other, name="bob")


async def test_the_institution_signs_when_the_operator_is_too_slow(house, records):
    house.transport.hook = on("sign", TOO_SLOW)
    await failing(
        errors.UpstreamTimeout, house.sign(records["ed25519"])
    )  # it has half of the vault
    house.wallet._signer.first_with_vault = False  # it is asked to sign once the vault is open
    house.transport.seen.clear()
    house.transport.hook = on("sign", TOO_SLOW)
    await house.sign(records["ed25519"])
    assert house.transport.seen.count("sign") == 2
    house.transport.hook = on("sign", TOO_SLOW)
    await failing(errors.UpstreamTimeout, house.sign(records["ed25519"], signer="institution"))


async def test_the_operators_trouble_is_no_reason_where_the_institution_has_its_own(house, records):
    down = Reply(503, b'{"error": "down", "party": %d}' % INSTITUTION)
    house.transport.hook = on("sign", wallets.answering(down))
    house.wallet._signer.first_with_vault = False  # so that its part of the vault is open
    await failing(errors.Upstream, house.sign(records["ed25519"]))
    assert house.transport.seen.count("sign") == 1


async def test_changed_seal_keys_are_fetched_anew(house, records):
    known = await house.client.nodes()
    same = known[OPERATOR].seal_key
    house.client._nodes = {j: replace(hello, seal_key=same) for j, hello in known.items()}
    await house.sign(records["ed25519"])
    assert house.client._nodes == known


async def test_what_does_not_verify(house, records):
    share = keys("secp256k1")[1].record
    assert not verifies(share, HASH, bytes(65))
    assert not verifies(share, HASH, b"\x01" * 64 + b"\x1b")
    assert not verifies(share, HASH, b"\x01" * 64 + b"\x00")
    assert not verifies(keys("ed25519")[1].record, HASH, bytes(64))
    signature = bytearray.fromhex(await house.sign(records["secp256k1"], HASH))
    key = ecdsa.SECP256K1.decode_point(bytes.fromhex(records["secp256k1"].public_key[2:]))
    record = replace(share, public_key=key)
    assert verifies(record, HASH, bytes(signature))
    signature[64] ^= 27 ^ 28
    assert not verifies(record, HASH, bytes(signature))


async def test_no_signature_leaves_unverified(monkeypatch, house, records):
    monkeypatch.setattr(signing, "verifies", lambda *_, **__: False)
    for record in records.values():
        said = await failing(errors.ApiError, house.sign(record))
        assert said == "MPC session ended with a signature that does not verify"


# ---------------------------------------------------------------------- what is refused


@pytest.mark.parametrize("field", ["encrypted_share", "secret_store"])
@pytest.mark.parametrize("text", ["", "AQ", "!", "AQ==", "A" * 70000, "é"])
async def test_malformed_strings(field, text, house, records):
    said = await failing(errors.BadRequest, house.sign(records["ed25519"], **{field: text}))
    assert said == f"Invalid {field}"
    assert house.transport.seen == []


async def test_strings_that_do_not_belong_together(house, records):
    one, other = records["secp256k1"], records["ed25519"]
    stores = await failing(errors.BadRequest, house.sign(one, secret_store=other.secret_store))
    assert stores == "Invalid secret_store"
    said = await failing(errors.BadRequest, house.sign(one, curve="ed25519"))
    assert said == "Invalid curve: the share is of a secp256k1 key"
    await failing(errors.BadRequest, house.sign(one, b"short"))


# ---------------------------------------------------------------------- looking into the vault

UNKNOWN_KEY = "no such key: it is unknown, or a recovery has replaced it"


@pytest.mark.parametrize("costs", [(1, 8), (4, 8), (1, 1 << 18)])
async def test_stores_may_ask_for_as_much_as_the_wallets_own_and_as_usual_ones(costs, house):
    cost, usual = Argon2Cost(*costs), (INTERACTIVE.operations, INTERACTIVE.memory_kib)
    highest = Wallet(house.client, cost=cost)._highest_cost
    assert highest == Argon2Cost(*map(max, costs, usual))


async def test_strings_of_an_unknown_key_are_not_valid(house, records):
    known = records["ed25519"]
    store = SecretStore.from_text(known.secret_store)
    unknown = known.model_copy(
        update={"secret_store": replace(store, key_id="00" * 32).to_text(), "key_id": "00" * 32}
    )
    for record, found in ((known, True), (unknown, False)):
        assert (await house.opens(record), await house.matches(record)) == (found, found)


async def test_public_keys(house, records):
    ask = house.public_key
    for record in records.values():
        found = await ask(record)
        assert (found.public_key, found.xpub) == (record.public_key, None)  # not asked for
        wrong = await refused(errors.BadRequest, ask(record, password="wrong"))
        assert (wrong.message, wrong.code) == ("Invalid password", Code.WRONG_PASSWORD)
        assert await failing(errors.NotFound, ask(record, key_id=64 * "0")) == UNKNOWN_KEY
        curve = next(c for c in CURVES if c != record.curve)
        assert (
            await failing(errors.BadRequest, ask(record, curve=curve))
            == f"Invalid curve: the share is of a {record.curve} key"
        )


# ---------------------------------------------------------------------- recovery


# ---------------------------------------------------------------------- failures in between


async def registered_key(house, name, curve):
    caller = house.caller(name)
    keys = await house.client.keys(caller.token, caller.claims.user_id)
    return next((key for key in keys if key.curve == curve), None)


async def breaking(house, work, at, how):
    """Do some work and break off at the nth request; whether it came that far."""
    count = 0
    reached = asyncio.Event()

    async def hook(name, go_on):
        nonlocal count
        count += 1
        if count != at:
            return await go_on()
        reached.set()
        if how == "lost request":
            raise errors.UpstreamTimeout
        reply = await go_on()
        if how == "lost reply":
            raise errors.UpstreamTimeout
        await asyncio.sleep(60)  # the caller goes away now
        return reply

    house.transport.hook = hook
    task = asyncio.ensure_future(work)
    if how == "caller gone":
        waiting = asyncio.ensure_future(reached.wait())
        await asyncio.wait([task, waiting], return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        await asyncio.sleep(0.05)
        task.cancel()
    await asyncio.wait([task])
    house.transport.hook = None
    await settled(house)
    if task.cancelled() or isinstance(task.exception(), errors.ApiError):
        return True
    task.result()
    return reached.is_set()


HOW = ["lost request", "lost reply", "caller gone"]


@pytest.mark.few(1)
@pytest.mark.parametrize("how", HOW)
async def test_a_broken_recovery_leaves_the_old_share_or_the_new(how, house):
    at, broken = 0, True
    while broken:
        at += 1
        name = f"user-{at}"
        old = house.give_key("ed25519", name)
        broken = await breaking(house, house.recover("ed25519", name), at, how)
        registered = await registered_key(house, name, "ed25519")
        assert registered is not None
        assert registered.public_key == old.public_key
        if registered.key_id == old.key_id:
            check_signature(old.public_key, HASH, await house.sign(old, HASH, name))
        new = await house.recover("ed25519", name)
        check_signature(old.public_key, HASH, await house.sign(new, HASH, name))
    assert at > 5


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("curve", CURVES)
async def test_a_broken_signature_is_no_hindrance(curve, how, house, records):
    at, record = 0, records[curve]
    while await breaking(house, house.sign(record, signer="operator"), (at := at + 1), how):
        check_signature(record.public_key, HASH, await house.sign(record, HASH))
    assert at > (2 if curve == "secp256k1" else 1)


ACTIVATIONS = [
    (Reply(502, b"<html>a proxy</html>"), errors.OutcomeUnknown),
    (Reply(503, b'{"error": "the disk failed", "undecided": true}'), errors.OutcomeUnknown),
    (Reply(504, b'{"error": "the MPC nodes\' votes came too late"}'), errors.Upstream),
    (Reply(410, b'{"error": "no such session, or it has expired"}'), errors.Upstream),
    (Reply(409, b'{"error": "the key has been recovered meanwhile"}'), errors.Upstream),
]


@pytest.mark.parametrize(("reply", "error"), ACTIVATIONS)
async def test_only_the_gateways_own_refusal_says_that_nothing_happened(reply, error, house):
    house.transport.hook = on("activate", wallets.answering(reply))
    said = await failing(error, house.generate("ed25519"))
    assert ("outcome is unknown" in said) == (error is errors.OutcomeUnknown)


@pytest.mark.parametrize("failure", [errors.UpstreamTimeout(), errors.Unreachable()])
async def test_after_a_lost_answer_the_registry_tells(failure, house):
    """It is asked then, and not otherwise."""

    lost = wallets.losing(failure)
    deny = wallets.altering_json(lambda document: document.update(keys=[]))

    async def lose_and_deny(name, go_on):
        acts = {"activate": lost, "/wallet/v1/keys": deny}
        return await (acts[name](name, go_on) if name in acts else go_on())

    await house.generate("ed25519", "a")
    assert "/wallet/v1/keys" not in house.transport.seen
    house.transport.hook = on("activate", lost)
    await house.generate("ed25519", "b")
    assert "/wallet/v1/keys" in house.transport.seen
    house.transport.hook = lose_and_deny
    await failing(errors.OutcomeUnknown, house.generate("ed25519", "c"))
    house.transport.hook = on("/wallet/v1/keys", TOO_SLOW)
    await house.generate("ed25519", "d")


# ---------------------------------------------------------------------- secrets


@pytest.mark.parametrize("ending", ["well", "badly", "early"])
async def test_the_stretched_password_is_overwritten(ending, monkeypatch, house):
    made = []
    go_on = threading.Event()

    def password_key(*arguments):
        if ending == "early":
            go_on.wait(10)
        made.append(bytearray(b"k" * 32))
        return made[0]

    monkeypatch.setattr(node.wallet.password_key, "password_key", password_key)

    if ending != "well":
        house.transport.hook = on("activate" if ending == "badly" else "exchange", TOO_SLOW)
        await failing(errors.OutcomeUnknown, house.generate("ed25519"))
    if ending == "early":
        assert not made
        go_on.set()
        async with asyncio.timeout(20):
            while not made or any(made[0]):
                await asyncio.sleep(0.01)
    elif ending == "well":
        await house.generate("ed25519")
    assert made == [bytearray(32)]
