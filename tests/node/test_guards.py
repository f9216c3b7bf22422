"""Checks on every way in which a key share is used, whichever MPC node it is used with.

Each way has code of its own, and so each check a place in each. A new way is a line of ``ways``; a
new check, one of ``BEFORE`` or ``MEANWHILE``.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest

from mpcsim.ids import MPC_NODES, ROLES
from mpcsim.service.operations import open_gateway
from mpcsim.service.rpc import wire
from mpcsim.service.web.transport import Reply
from node.errors import ApiError
from tests.node import wallets
from tests.node.test_presignatures import sign
from tests.node.wallets import House, failing, on

SUSPENDED = "MPC session cannot begin: this key is suspended: "
ANOTHER_REQUEST = "The {} has answered another request than this one; try again"
EXPIRED = "JWT_EXPIRED"


@dataclass(frozen=True)
class Way:
    """One way in which a share is used."""

    call: Callable[[House, Any], Awaitable[object]]
    """On a house with a stored record."""
    opens: str = "open"
    """Verb of the gateway that opens the vault."""
    begins: str | None = None
    """Verb that begins a session, if there is one."""
    signer: str = ""

    @property
    def answers_only(self) -> bool:
        """Whether what is wrong with a store is an answer, and no error."""
        return self.call in (House.matches, House.opens)


async def use_presignature(house, record, signer):
    return await sign(house, record, [house.presignatures[signer].pop()], signer)


def ways():
    """Yield all of them by name."""
    for name in ("public_key", "matches", "opens"):
        yield name, Way(getattr(House, name))
    for signer in (ROLES[party] for party in MPC_NODES):

        def use(method, signer=signer):
            return lambda house, record: method(house, record, signer=signer)

        yield f"sign {signer}", Way(use(House.sign), "sign", "sign", signer)
        yield f"two steps {signer}", Way(use(House.sign), "open", "sign", signer)
        yield f"presign {signer}", Way(use(House.presign), "sign", "sign", signer)
        yield f"presigned {signer}", Way(use(use_presignature), "presigned", "presigned", signer)


WAYS = dict(ways())
SESSIONS = [name for name, way in WAYS.items() if way.begins]


@pytest.fixture(scope="module")
def stored():
    """A gateway with a key of alice, and presignatures with each MPC node."""
    gateway = open_gateway()

    async def make():
        async with House(gateway) as house:
            record = house.give_key("secp256k1")
            count, signers = len(BEFORE) + len(MEANWHILE), map(ROLES.get, MPC_NODES)
            return record, {j: await house.presign(record, count, signer=j) for j in signers}

    return gateway, *asyncio.run(make())


@pytest.fixture
def records(stored):
    return stored


async def ready(house, stored, way):
    """The record, for a house that knows the MPC nodes and uses shares in this way."""
    _, record, house.presignatures = stored
    house.wallet._signer.first_with_vault = way.opens != "open"
    await house.client.nodes()
    return record


def check_nothing_open(house):
    assert not house.gateway.gateway.sessions.open_sessions
    for link in house.gateway.links.values():
        assert not len(link.node._sessions)


# ---------------------------------------------------------------------- before anything is asked


def other_identity(party):
    """A gateway that puts itself in the place of an MPC node, after the key was made."""

    def arrange(house, record):
        known = house.client._nodes
        false = replace(known[party], identity=bytes(32), seal_key=bytes(32))
        house.client._nodes = {**known, party: false}

    return arrange


BEFORE = {
    f"another {ROLES[party]}": (
        other_identity(party),
        f"Invalid secret_store: it names another {ROLES[party]} than this node knows",
    )
    for party in MPC_NODES
} | {"suspended": (wallets.refuse, SUSPENDED)}


@pytest.mark.parametrize("check", BEFORE)
@pytest.mark.parametrize("name", WAYS)
async def test_nobody_is_asked_for_anything(name, check, house, stored, records):
    way, (arrange, said) = WAYS[name], BEFORE[check]
    async with house:
        record = await ready(house, stored, way)
        arrange(house, record)
        house.transport.seen.clear()
        if way.answers_only and check != "suspended":
            assert await way.call(house, record) is False
        else:
            assert said in await failing(ApiError, way.call(house, record))
        assert house.transport.seen == []


# ---------------------------------------------------------------------- once it is answered


def altered(way, **changes):
    return on(way.begins, wallets.altering(wire.SignReply, lambda said: replace(said, **changes)))


def after(verb, act):
    """A hook that acts when the gateway has answered."""

    async def late(name, go_on):
        reply = await go_on()
        act()
        return reply

    return on(verb, late)


def expire(house):
    house.wallet._sessions._now = lambda: house.caller().claims.expires_at


def expired(house, record, way):
    """And what has come is no answer, which is not looked at."""
    spoilt = altered(way, vault=None, messages=())
    late = after(way.begins, lambda: expire(house))
    return lambda name, go_on: late(name, lambda: spoilt(name, go_on))


MEANWHILE = {
    "suspended": (
        lambda house, record, way: after(way.opens, lambda: wallets.refuse(house, record)),
        SUSPENDED,
    ),
    "token expired": (expired, EXPIRED),
    "another request answered": (
        lambda house, record, way: altered(way, answers=bytes(32)),
        ANOTHER_REQUEST,
    ),
}


@pytest.mark.parametrize("check", MEANWHILE)
@pytest.mark.parametrize("name", SESSIONS)
async def test_an_answer_is_not_used_and_no_session_stays_open(name, check, house, stored, records):
    way, (arrange, said) = WAYS[name], MEANWHILE[check]
    async with house:
        record = await ready(house, stored, way)
        house.transport.hook = arrange(house, record, way)
        message = await failing(ApiError, way.call(house, record))
        assert said.format(way.signer) in message
        await wallets.settled(house)
        check_nothing_open(house)


MAKING = {
    "generate": lambda house: house.generate("ed25519"),
    "recover": lambda house: house.recover("secp256k1"),
}


@pytest.mark.parametrize("lost", [True, False])
@pytest.mark.parametrize("verb", MAKING)
async def test_no_session_stays_open_in_which_a_key_is_not_made(verb, lost, house, stored, records):
    """Its first answer is lost, or comes after the token's expiry and is not looked at."""
    late = after(verb, lambda: expire(house))
    async with house:
        house.transport.hook = on(verb, wallets.losing(Reply(504, b"{}"))) if lost else late
        message = await failing(ApiError, MAKING[verb](house))
        assert ("Upstream returned 504" if lost else EXPIRED) in message
        await wallets.settled(house)
        assert house.transport.seen.count("exchange") == 1  # that it is given up
        check_nothing_open(house)
