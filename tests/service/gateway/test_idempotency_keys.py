"""Calls with an ``Idempotency-Key`` in the gateway: with a registry, mostly without MPC nodes."""

import asyncio
from dataclasses import replace

import pytest

from mpcsim.crypto.groups.curves import CURVES
from mpcsim.ids import OPERATOR
from mpcsim.service.error_codes import HEADER, Code
from mpcsim.service.errors import GENERATION, Refused, node_unreachable
from mpcsim.service.gateway.activation.idempotency import IdempotencyKeys
from mpcsim.service.gateway.registry import NamedCall, Registry
from mpcsim.service.gateway.sessions.sessions import LEASE_S
from mpcsim.service.rpc import wire
from tests.helpers.gateway import fresh_session
from tests.helpers.key_records import said_to_be_signed

PUBLIC_KEY = CURVES["ed25519"].base(CURVES["ed25519"].scalar(7)).encode()


class Sessions:
    """Those that are open: none, unless a test says why a call has to wait."""

    def __init__(self):
        self.busy_names, self.busy_keys = set(), set()

    def check_no_other_call(self, named_call):
        if named_call.name in self.busy_names:
            raise Refused(409, "name", code=Code.IDEMPOTENCY_KEY_USED)

    def check_key_is_free(self, user_id, curve, what):
        if (user_id, curve) in self.busy_keys:
            raise Refused(409, what, code=Code.BUSY)


@pytest.fixture
def told():
    registry, sessions = Registry(), Sessions()
    user = registry.sign_up("alice")
    named = NamedCall("order 4711", user.user_id, "generate", "ed25519")
    yield IdempotencyKeys(registry, sessions), registry, sessions, named
    registry.close()


def refusal(call):
    with pytest.raises(Refused) as refused:
        call()
    return refused.value


def both(idempotency_keys, named_call, key_id=b"k" * 32):
    """The two looks at a name: before anything is done, and before the MPC nodes vote."""
    return (
        lambda: idempotency_keys.check(named_call, "key generation"),
        lambda: asyncio.run(idempotency_keys.remember(named_call, key_id)),
    )


def test_a_users_name_is_bound_to_verb_and_curve(told):
    idempotency_keys, _, _, named = told
    asyncio.run(idempotency_keys.remember(named, b"k" * 32))
    said = set()
    for change in ({"verb": "recover"}, {"curve": "secp256k1"}):
        other = replace(named, **change)
        for look in both(idempotency_keys, other):
            error = refusal(look)
            said.add((error.code, str(error)))
        assert not idempotency_keys.in_force(other)
    assert said == {
        (Code.IDEMPOTENCY_KEY_USED, "This Idempotency-Key has been used for another call")
    }
    for look in both(idempotency_keys, named):
        look()


def test_a_call_that_still_runs_has_its_name_and_its_key(told):
    idempotency_keys, _, sessions, named = told
    idempotency_keys.check(named, "key generation")
    sessions.busy_keys.add((named.user_id, named.curve))
    assert str(refusal(both(idempotency_keys, named)[0])) == "key generation"
    idempotency_keys.check(replace(named, curve="secp256k1"), "key generation")
    sessions.busy_names.add(named.name)
    assert refusal(both(idempotency_keys, named)[0]).code is Code.IDEMPOTENCY_KEY_USED


def test_what_came_into_force_and_what_is_undecided(told):
    idempotency_keys, registry, _, named = told
    failure = node_unreachable(OPERATOR)
    assert idempotency_keys.failure_to_report(named, failure) is failure
    asyncio.run(idempotency_keys.remember(named, bytes.fromhex("11" * 32)))
    assert not idempotency_keys.in_force(named)
    undecided = idempotency_keys.failure_to_report(named, failure)
    assert undecided.code is Code.BUSY
    assert "is not decided yet: the operator's MPC node cannot be reached" in str(undecided)
    registry.put(said_to_be_signed(named.user_id, "11" * 32, "ed25519", PUBLIC_KEY, 0))
    assert idempotency_keys.in_force(named)
    assert not idempotency_keys.in_force(replace(named, name="another"))
    assert idempotency_keys.failure_to_report(named, failure) is failure


async def test_a_name_of_another_call_is_refused_before_anything_is_done(gateway, client):
    """A session under it would find out at its activation: too late for whoever waits."""
    headers = {"Content-Type": wire.MEDIA_TYPE, "Idempotency-Key": "order 4711"}

    async def begin(curve, session_id):
        body = wire.Generate(session_id, curve, ()).to_bytes()
        return await client.request("POST", "/mpc/v1/generate", content=body, headers=headers)

    named_call = NamedCall("order 4711", await client.user_id(), "generate", "ed25519")
    gateway.gateway.registry.put_named_call(named_call, "11" * 32)
    answer = await begin("secp256k1", fresh_session())
    assert (answer.status_code, answer.headers[HEADER]) == (400, Code.IDEMPOTENCY_KEY_USED.value)
    assert gateway.gateway.sessions.open_sessions == []
    assert (await begin("ed25519", fresh_session())).status_code == 200
    headers["Idempotency-Key"] = ""
    answer = await begin("ed25519", fresh_session())
    said = "Idempotency-Key: not 1 to 255 printable ASCII characters"
    assert (answer.status_code, answer.json()) == (400, {"error": said})


async def test_whoever_is_silent_for_the_lease_keeps_no_name_waiting(clock, gateway, client):
    await client.begin_generate("ed25519")
    sessions, user_id = gateway.gateway.sessions, await client.user_id()
    clock.now += LEASE_S - 0.1
    assert (
        refusal(lambda: sessions.check_key_is_free(user_id, "ed25519", GENERATION)).code
        is Code.BUSY
    )
    clock.now += 0.1
    sessions.check_key_is_free(user_id, "ed25519", GENERATION)
