"""Presignatures: a signature in one request, and each used at most once."""

from dataclasses import replace
from unittest.mock import Mock

import pytest

from mpcsim.crypto.rng import SystemRng
from mpcsim.errors import InvalidEncoding, UsageError
from mpcsim.ids import INSTITUTION, OPERATOR
from mpcsim.protocols.presign.presignature import Use
from mpcsim.protocols.sample_keys import presignatures
from mpcsim.service.mpc_node import boot
from mpcsim.service.rpc import wire
from mpcsim.service.vault import PresignatureHeader, SealedPresignature, WrongKey, seal_presignature
from mpcsim.service.web.transport import Reply
from node.errors import ApiError, BadRequest, Upstream
from node.process.settings import Settings
from node.process.timing import Timing
from node.signing.presigning import Presigner
from tests.node import wallets
from tests.node.wallets import House, failing, on

CURVE = "secp256k1"
HASH = bytes(range(32))
OTHER = bytes(range(1, 33))
FULL = ["sign", "exchange"]


@pytest.fixture(autouse=True)
def processes_of_their_own():
    """What one process remembers of used presignatures does not help another one."""
    Use._known.clear()
    Use._spent.clear()


async def sign(house, record, presignatures, signer=None, message=HASH):
    """What is left, and what was asked of the gateway."""
    house.transport.seen.clear()
    _, left = await house.wallet.sign(
        house.caller(),
        wallets.stored_share(record),
        message=message,
        signer=signer,
        presignatures=presignatures,
        timing=Timing(),
    )
    return left, list(house.transport.seen)


def another_process():
    processes_of_their_own.__wrapped__()


def held(house, party):
    """How many parts and allowances an MPC node keeps."""
    node = house.gateway.links[party].node
    return node._presignatures.shares._size, node._presignatures.usage_tokens._size


def altered(text, **changes):
    """A presignature with another header."""
    sealed = SealedPresignature.from_text(text)
    return replace(sealed, header=replace(sealed.header, **changes)).to_text()


# ---------------------------------------------------------------------- what it is for


@pytest.mark.parametrize("signer", ["operator", "institution"])
async def test_a_signature_takes_one_request(signer, house, record):
    made = await house.presign(record, 3, signer=signer)
    assert len(set(made)) == 3
    for n in range(3):
        made, asked = await sign(house, record, made, message=bytes([n]) * 32)
        assert (len(made), asked) == (2 - n, ["presigned"])
    assert held(house, OPERATOR) == held(house, INSTITUTION) == (0, 0)
    assert await sign(house, record, made) == ([], FULL)


async def test_those_that_were_made_before_something_failed(house, record):
    refused = wallets.answering(Reply(503, b"{}"))
    house.transport.hook = on("sign", refused, nth=2)
    assert len(await house.presign(record, wire.MAX_BATCH + 1)) == wire.MAX_BATCH
    house.transport.hook = on("sign", refused)
    with pytest.raises(Upstream):
        await house.presign(record)


async def test_those_for_another_signer_are_left_alone(house, record):
    mine = await house.presign(record, 1, signer="operator")
    others = await house.presign(record, 1, signer="institution")
    assert await sign(house, record, others + mine, "operator") == (others, ["presigned"])
    assert await sign(house, record, others, "operator") == (others, FULL)
    assert await sign(house, record, others) == ([], ["presigned"])


# ---------------------------------------------------------------------- used once


async def test_one_whose_answer_is_lost_is_gone(house, record):
    made = await house.presign(record, 1)
    house.transport.hook = on("presigned", wallets.losing(Reply(504, b"{}")))
    with pytest.raises(Upstream):
        await sign(house, record, made)
    house.transport.hook = None
    another_process()
    assert await sign(house, record, made) == ([], ["presigned", *FULL])


async def test_a_restart_voids_everything(party, house, record):
    """The node is told so, and then knows."""

    made = await house.presign(record, 3)
    house.gateway.links[party].node.restart()
    assert held(house, party) == (0, 0)
    assert await sign(house, record, made) == ([], ["presigned", "nodes", *FULL])
    assert await sign(house, record, made) == ([], FULL)


async def test_many_signatures_void_nothing(monkeypatch, house, record):
    """Else one user has everybody sign by the full protocol. Whoever knows the boot of long ago is
    told so once."""
    made = await house.presign(record, 2)
    monkeypatch.setattr(boot, "MAX_BEGUN_SESSIONS", 2)
    for _ in range(4):
        await house.sign(record)
    made, calls = await sign(house, record, made)
    assert (len(made), calls) == (1, ["presigned"])
    await house.client.nodes(fresh=True)
    assert await sign(house, record, made) == ([], ["presigned"])


# ---------------------------------------------------------------------- who is asked for what


@pytest.mark.few(2)
@pytest.mark.parametrize("change", ["allowance", "message", "rho", "id", "index"])
async def test_a_gateway_that_has_another_one_used(change, house, record):
    """Nothing is used up by that at the MPC node that notices."""

    made = await house.presign(record, 2)
    name = {"message": "message_hash", "id": "presignature"}.get(change, change)

    def another(body):
        asked = wire.Presigned.from_bytes(body)
        other = 1 if change == "index" else bytes(len(getattr(asked.using, name)))
        return replace(asked, using=replace(asked.using, **{name: other})).to_bytes()

    wallets.meddling(house, "presigned", another)
    assert await failing(BadRequest, sign(house, record, made)) == "Invalid secret_store"
    assert held(house, OPERATOR) == (2, 0)
    assert held(house, INSTITUTION) == (0, 2)


# ---------------------------------------------------------------------- what callers send


SPOILT = [
    lambda text: "",
    lambda text: "A",
    lambda text: text[:-1],
    lambda text: text[: len(text) // 2],
    lambda text: "B" + text[1:],
    lambda text: altered(text, key_id=bytes(32)),
    lambda text: altered(text, signer=1),
    lambda text: altered(text, boots={}),
    lambda text: altered(text, boots={OPERATOR: bytes(16), INSTITUTION: bytes(16)}),
]


@pytest.mark.parametrize("spoil", SPOILT)
@pytest.mark.few(3)
async def test_damaged_and_foreign_ones_are_dropped_unasked(spoil, house, record):
    made = await house.presign(record, 2)
    assert await sign(house, record, [spoil(made[0])]) == ([], FULL)
    assert await sign(house, record, [spoil(made[0]), made[1]]) == ([], ["presigned"])


@pytest.mark.parametrize("flip", [-1, -30])
async def test_one_that_does_not_open_is_used_up_and_another_way_is_gone(flip, house, record):
    made = await house.presign(record, 1)
    sealed = SealedPresignature.from_text(made[0])
    data = bytearray(sealed.ciphertext)
    data[flip] ^= 1
    bad = replace(sealed, ciphertext=bytes(data)).to_text()
    assert await sign(house, record, [bad]) == ([], ["presigned", *FULL])
    assert await sign(house, record, made) == ([], ["presigned", *FULL])


@pytest.mark.parametrize("why", [WrongKey, InvalidEncoding, UsageError])
async def test_one_that_is_of_no_use_is_used_up(why, monkeypatch, house, record):
    made = await house.presign(record, 1)
    monkeypatch.setattr(Presigner, "open_part", Mock(side_effect=why("no")))
    assert await sign(house, record, made) == ([], ["presigned", *FULL])


async def test_what_presignatures_are_not_for(house):
    record = house.give_key("ed25519")
    assert await failing(BadRequest, house.presign(record)) == (
        "Invalid curve: presignatures are for secp256k1"
    )
    whole = house.give_key("secp256k1")
    assert await sign(house, record, (await house.presign(whole, 1))) == ([], ["sign"])


async def test_nor_with_a_vault_that_one_mpc_node_opens():
    """Nobody would see to it that they are used once."""
    async with House(settings=Settings(vault_policy="signer")) as house:
        record = house.give_key("secp256k1")
        said = await failing(BadRequest, house.presign(record))
        assert said.startswith("Invalid secret_store: with vault policy signer nobody")
        assert "sign" not in house.transport.seen


# ---------------------------------------------------------------------- what is believed


async def test_presigning_that_comes_to_nothing_leaves_nothing_open(house, record):
    """The next call finds the key free."""

    damaged = wallets.altering(wire.SignReply, lambda said: replace(said, vault=None))
    house.transport.hook = on("sign", damaged)
    await failing(ApiError, house.presign(record))
    assert not house.gateway.links[OPERATOR].node._sessions
    assert not house.gateway.gateway.sessions._sessions
    await house.presign(record)


async def test_a_gateway_that_says_nothing_of_an_allowance(house, record):
    house.transport.hook = on("sign", wallets.altering_vault(allowance=None))
    said = await failing(ApiError, house.presign(record))
    assert said == "The MPC nodes do not agree on the presignatures"


@pytest.mark.parametrize("name", ["id", "key_id", "signer", "holder"])
def test_what_is_sealed_under_another_header(name):
    """By whoever has the share's key: the client alone, which does not do such things."""
    key, (made, others) = bytes(32), [of[0] for of in presignatures(2, 3, (1, 2)).values()]
    allowance, boots = bytes(16), {OPERATOR: bytes(16), INSTITUTION: bytes(16)}
    true = PresignatureHeader(made.id, made.epoch, OPERATOR, boots, allowance, 0)

    def sealed(what, header):
        return seal_presignature(what.to_bytes(), header, key, "alice", SystemRng())

    part, good = Presigner.open_part, sealed(made, true)
    assert part(good, key, "alice") == made
    if name == "holder":
        bad = sealed(others, true)
    else:
        other = INSTITUTION if name == "signer" else bytes(32)
        bad = sealed(made, replace(true, **{name: other}))
    with pytest.raises(UsageError, match="another presignature than its header says"):
        part(bad, key, "alice")
    with pytest.raises(WrongKey):
        part(good, key, "bob")
