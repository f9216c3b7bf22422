"""An MPC node that cheats in a way that must not be tried again: the first time is the last,
whatever it waits for, and whoever is out of reach meanwhile."""

import asyncio
import gc
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

import node.signing.suspensions
from mpcsim.crypto.ot import extension as ot_extension
from mpcsim.ids import OPERATOR
from mpcsim.protocols import ecdsa, signing
from mpcsim.protocols.key_share import Guard
from mpcsim.service.gateway.activation import suspensions
from mpcsim.service.web.transport import Reply
from node.checks import SealedShare
from node.errors import ApiError, Unreachable
from node.process.timing import Timing
from tests.helpers.adversary import alter_kind
from tests.helpers.gateway import delivered
from tests.node.wallets import House, answering, failing, on, playing, stored_share

CAUGHT = "MPC session aborted in round 3 (respond): OT-extension correlation check fails; "
REFUSED = "this key is suspended: an MPC node was caught cheating with it; recover it"


def guess(message):
    """An offer that the client's check turns down: with it the operator learns of a bit of the
    client's long-lived choices whether it had guessed it."""
    t = message.offer.t
    return replace(message, offer=replace(message.offer, t=bytes([t[0] ^ 1]) + t[1:]))


@pytest.fixture(autouse=True)
def soon(monkeypatch):
    """Attempts follow each other at once."""
    for module in (suspensions, node.signing.suspensions):
        monkeypatch.setattr(module, "FIRST_RETRY_S", 0.01)
        monkeypatch.setattr(module, "LAST_RETRY_S", 0.05)


@pytest.fixture(autouse=True)
def nothing_else_is_collected():
    """What other tests have left takes half a second to look through."""
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture
def learnt(monkeypatch):
    """The operator cheats in every signature from now on; what the client's checks told it."""
    failures = []
    original = ot_extension.check

    def watched(condition, reason, *rest, **options):
        if not condition:
            failures.append(reason.name)
        original(condition, reason, *rest, **options)

    monkeypatch.setattr(ot_extension, "check", watched)
    monkeypatch.setattr(signing, "ecdsa", playing(ecdsa, OPERATOR, alter_kind("Offer", guess)))
    return failures


class Case:
    """A key of which one share is the caller's; houses come and go around it."""

    def __init__(self, folder):
        self.folder = folder

    @asynccontextmanager
    async def opened(self):
        """Gateway and node as new processes would open them."""
        Guard._known.clear()
        house = House(folder=self.folder)
        try:
            async with house:
                yield house
        finally:
            await house.gateway.gateway.suspensions.stop()
            house.gateway.close()

    async def sign(self, house):
        """What comes of a signature with the operator."""
        with pytest.raises(ApiError) as caught:
            await house.sign(self.record, signer="operator")
        return caught.value


@pytest.fixture
@asynccontextmanager
async def case(tmp_path):
    made = Case(tmp_path)
    async with made.opened() as house:
        made.record = house.give_key("secp256k1")
    yield made  # noqa: PT022 -- the event loop enters it


# ---------------------------------------------------------------------- what the caller is told


async def test_a_gateway_that_is_out_of_reach_hears_of_it_later(case, monkeypatch, learnt):
    monkeypatch.setattr(node.signing.suspensions, "REPORT_S", 0.1)
    async with case.opened() as house:
        tries = 0

        async def lost(name, go_on):
            nonlocal tries
            if name != "suspend":
                return await go_on()
            tries += 1
            if tries < 20:
                raise Unreachable
            return await go_on()

        house.transport.hook = lost
        said = (await case.sign(house)).message
        assert said == CAUGHT + (
            "party 2 (operator); recover the key before it signs again; this node refuses it "
            "until then, and tries to have it suspended"
        )
        seen = len(house.transport.seen)
        for signer in ("operator", "institution"):
            said = await failing(ApiError, house.sign(case.record, signer=signer))
            assert said == f"MPC session cannot begin: {REFUSED}"
        assert set(house.transport.seen[seen:]) <= {"suspend"}, "nobody else was asked"
        while tries < 20 or house.wallet._suspensions._refused:
            await asyncio.sleep(0.01)
        await delivered(house.gateway)
        said = (await case.sign(house)).message
        assert said == f"Upstream returned 409 Conflict: {REFUSED}"
    assert learnt == ["OT_EXTENSION_CHECK"]


async def test_a_gateway_that_will_not_hear_of_it(case, monkeypatch, learnt, caplog):
    """This node refuses the key all the same, for as long as it runs."""

    async with case.opened() as house:
        house.transport.hook = on("suspend", answering(Reply(403, b'{"error": "no"}')))
        await case.sign(house)
        for _ in range(3):
            assert (await case.sign(house)).message.endswith(REFUSED)
        assert house.transport.seen.count("suspend") == 1
    assert learnt == ["OT_EXTENSION_CHECK"]
    (said,) = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert said == (
        f"key {case.record.key_id} is refused by this process, but could not be suspended: "
        "Upstream returned 403 Forbidden: no"
    )


@pytest.mark.few(1)
@pytest.mark.parametrize("recoveries", [2, 0, 1])
async def test_only_a_record_of_later_shares_ends_a_report(case, monkeypatch, learnt, recoveries):
    """Neither that there is no such key, nor the record of these shares, of older ones or of
    another key, however often that was recovered. One of later shares does, after one recovery or
    several of which the node has not heard."""
    monkeypatch.setattr(node.signing.suspensions, "REPORT_S", 0.01)
    async with case.opened() as house:
        registry, alice = house.gateway.gateway.registry, house.caller().claims.user_id

        async def recovered(curve):
            """The record by which it is."""
            made = await House(house.gateway).recover(curve)
            if curve == "secp256k1":
                case.record = made
            key = registry.key(alice, curve)
            assert key is not None
            return key.record or b""

        wrong = [key.record or b"" for key in registry.all_keys()]
        wrong.append(await recovered("secp256k1"))
        house.give_key("ed25519")
        wrong += [await recovered("ed25519"), await recovered("ed25519")]
        answers = [Reply(200, record) for record in wrong]
        answers.append(Reply(404, b'{"error": "no such key"}'))
        caught, left = case.record, recoveries

        async def lie(name, go_on):
            nonlocal left
            if name != "suspend":
                return await go_on()
            if answers:
                return answers.pop()
            while left:
                left -= 1
                await recovered("secp256k1")
            return await go_on()

        house.transport.hook = lie
        await case.sign(house)
        while house.wallet._suspensions._refused:
            await asyncio.sleep(0.01)
        assert not answers
        assert (case.record == caught) == (recoveries == 0)
        assert bool(registry.suspension_notices()) == (recoveries == 0)
        await delivered(house.gateway)


async def test_a_node_that_ends_makes_a_last_attempt_and_waits_no_longer(case, learnt, monkeypatch):
    monkeypatch.setattr(node.signing.suspensions, "REPORT_S", 0.1)
    monkeypatch.setattr(node.signing.suspensions, "FIRST_RETRY_S", 3600.0)
    async with case.opened() as house:
        house.transport.hook = on("suspend", answering(Unreachable()))
        await case.sign(house)
        async with asyncio.timeout(4):
            await house.wallet.close()
        assert house.transport.seen.count("suspend") == 2
        assert house.gateway.gateway.registry.suspension_notices()


async def test_a_share_whose_multiplication_state_was_discarded_begins_nothing(case, early):
    """In this process, after an attack."""

    async with case.opened() as house:
        sealed = SealedShare.parse(stored_share(case.record))
        vaults = house.wallet._vaults
        opened = await vaults.open_share(house.caller(), sealed, OPERATOR, Timing())
        opened.share.guard.discard(OPERATOR)
        house.wallet._signer.first_with_vault = early
        assert (await case.sign(house)).message.startswith(
            "MPC session cannot begin: the multiplication state with party 2 was discarded"
        )


@pytest.mark.few(1)
async def test_keys_beyond_the_bound_are_refused_and_told_once(case, learnt, caplog, monkeypatch):
    monkeypatch.setattr(node.signing.suspensions, "MAX_REPORTS", 2)
    monkeypatch.setattr(node.signing.suspensions, "REPORT_S", 0.01)
    async with case.opened() as house:
        records = {n: house.give_key("secp256k1", f"user-{n}") for n in range(3)}

        async def lost(name, go_on):
            if name == "suspend":
                raise Unreachable
            return await go_on()

        house.transport.hook = lost
        for n, record in records.items():
            with pytest.raises(ApiError, match="OT-extension"):
                await house.sign(record, name=f"user-{n}", signer="operator")
        assert len(house.wallet._suspensions._refused) == 3
        (said,) = [r.getMessage() for r in caplog.records if r.levelname == "ERROR"]
        assert f"key {records[2].key_id} is refused by this process, but" in said
