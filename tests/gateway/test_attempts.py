"""Calls with an ``Idempotency-Key``, in the gateway: with a registry and without MPC nodes."""

import asyncio
from dataclasses import replace

import pytest

from mpcsim.algebra.curves import CURVES
from mpcsim.error_codes import Code
from mpcsim.gateway.attempts import Attempts
from mpcsim.gateway.registry import Attempt, Registry
from mpcsim.ids import OPERATOR
from mpcsim.rpc.errors import Refused, unreachable
from tests.helpers.key_records import said_to_be_signed

PUBLIC_KEY = CURVES["ed25519"].base(CURVES["ed25519"].scalar(7)).encode()


class Sessions:
    """Those that are open: none, unless a test says why a call has to wait."""

    def __init__(self):
        self.busy_names, self.busy_keys = set(), set()

    def check_name(self, attempt):
        if attempt.name in self.busy_names:
            raise Refused(409, "name", code=Code.IDEMPOTENCY_KEY_USED)

    def check_idle(self, user_id, curve, what):
        if (user_id, curve) in self.busy_keys:
            raise Refused(409, what, code=Code.BUSY)


@pytest.fixture
def told():
    registry, sessions = Registry(), Sessions()
    user = registry.sign_up("alice")
    named = Attempt("order 4711", user.user_id, "generate", "ed25519")
    yield Attempts(registry, sessions), registry, sessions, named
    registry.close()


def refusal(call):
    with pytest.raises(Refused) as refused:
        call()
    return refused.value


def both(attempts, attempt, key_id=b"k" * 32):
    """The two looks at a name: before anything is done, and before the MPC nodes vote."""
    return (
        lambda: attempts.check(attempt, "key generation"),
        lambda: asyncio.run(attempts.remember(attempt, key_id)),
    )


def test_a_users_name_is_bound_to_verb_and_curve(told):
    attempts, _, _, named = told
    asyncio.run(attempts.remember(named, b"k" * 32))
    said = set()
    for change in ({"verb": "recover"}, {"curve": "secp256k1"}):
        other = replace(named, **change)
        for look in both(attempts, other):
            error = refusal(look)
            said.add((error.code, str(error)))
        assert not attempts.in_force(other)
    assert said == {
        (Code.IDEMPOTENCY_KEY_USED, "This Idempotency-Key has been used for another call")
    }
    for look in both(attempts, named):
        look()


def test_a_call_that_still_runs_has_its_name_and_its_key(told):
    attempts, _, sessions, named = told
    attempts.check(named, "key generation")
    sessions.busy_keys.add((named.user_id, named.curve))
    assert str(refusal(both(attempts, named)[0])) == "key generation"
    attempts.check(replace(named, curve="secp256k1"), "key generation")
    sessions.busy_names.add(named.name)
    assert refusal(both(attempts, named)[0]).code is Code.IDEMPOTENCY_KEY_USED


def test_what_came_into_force_and_what_is_undecided(told):
    attempts, registry, _, named = told
    failure = unreachable(OPERATOR)
    assert attempts.told_instead(named, failure) is failure
    asyncio.run(attempts.remember(named, bytes.fromhex("11" * 32)))
    assert not attempts.in_force(named)
    undecided = attempts.told_instead(named, failure)
    assert undecided.code is Code.BUSY
    assert "is not decided yet: the operator's MPC node cannot be reached" in str(undecided)
    registry.put(said_to_be_signed(named.user_id, "11" * 32, "ed25519", PUBLIC_KEY, 0))
    assert attempts.in_force(named)
    assert not attempts.in_force(replace(named, name="another"))
    assert attempts.told_instead(named, failure) is failure
