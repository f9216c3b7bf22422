"""How often a user may try passwords, recover and sign, where the gateway limits that."""

import asyncio
import math
from unittest.mock import Mock

import pytest

from mpcsim.errors import InvalidEncoding, UsageError
from mpcsim.service.errors import GUESSES, RECOVERIES, SIGNATURES, Refused, rate_exceeded
from mpcsim.service.gateway.limits import Limit, Rate
from mpcsim.service.web import user_limits
from node.local import LocalService
from node.process.settings import Settings
from tests.helpers.gateway import Clock
from tests.node.wallets import CHEAP, PASSWORD

HASH = "00" * 32


def refused(limit, user):
    """Seconds until the next one is allowed; None: this one was."""
    try:
        limit.take(user)
    except Refused as refusal:
        return refusal.retry_after_s
    return None


# ---------------------------------------------------------------------- a bucket


def test_all_at_once_and_then_evenly():
    clock = Clock()
    limit = Limit(GUESSES, Rate(3, 60), clock)
    assert [refused(limit, "alice") for _ in range(5)] == [None, None, None, 20, 20]
    assert refused(limit, "bob") is None
    clock.now += 19.5
    assert refused(limit, "alice") == 1
    clock.now += 0.5
    assert refused(limit, "alice") is None
    assert refused(limit, "alice") == 20


def test_who_waits_as_long_as_told_is_served():
    clock = Clock()
    clock.now = 1000.1
    limit = Limit(GUESSES, Rate(3, 1.0), clock)
    assert [refused(limit, "alice") for _ in range(3)] == [None] * 3  # whatever rounding does
    for _ in range(50):
        if wait_s := refused(limit, "alice"):
            clock.now += wait_s
            assert refused(limit, "alice") is None


def test_what_came_to_nothing_is_given_back():
    limit = Limit(RECOVERIES, Rate(1), Clock())
    assert refused(limit, "alice") is None
    limit.buckets.refund("alice")
    assert refused(limit, "alice") is None
    assert refused(limit, "alice") == 60
    limit.buckets.refund("nobody")


def test_only_so_many_users_are_known(monkeypatch):
    monkeypatch.setattr(user_limits, "MAX_BUCKETS", 3)
    clock = Clock()
    limit = Limit(GUESSES, Rate(1, 60), clock)
    for user in "abcd":
        assert refused(limit, user) is None
    assert len(limit.buckets) == 3
    assert refused(limit, "a") is None  # it asked longest ago, and is forgotten
    assert refused(limit, "d") == 60
    clock.now += 60
    assert refused(limit, "e") is None
    assert len(limit.buckets) == 1  # those whose buckets are full need not be known


RATES = [("5", Rate(5, 60)), ("1/0.5s", Rate(1, 0.5)), ("10/3600", Rate(10, 3600))]


@pytest.mark.parametrize(("text", "rate"), RATES)
def test_rates(text, rate):
    assert Rate.parse(text) == rate
    assert Rate.parse(str(rate)) == rate


def test_what_is_no_rate_is_refused():
    for text in ("", "0", "-1", "5/0s", "5/", "1e3", "5/1h", "٣", "5 /60s"):
        with pytest.raises(UsageError):
            Rate.parse(text)
    for values in ((0,), (1.5,), (True,), (1, math.inf), (1, math.nan)):
        with pytest.raises(UsageError):
            Rate(*values)


# ---------------------------------------------------------------------- the service


class Caller:
    """A user's calls, and the key's strings."""

    def __init__(self, service, name="alice", curve="ed25519"):
        self.api = service.user(name)
        self.share = self.ask("generate", curve=curve, password=PASSWORD)[1]

    def ask(self, what, **body):
        answer = self.api.post(f"/v3/wallet/{what}", json=body)
        self.retry_after = answer.headers.get("Retry-After")
        self.said = answer.json()
        return answer.status_code, self.said

    def with_share(self, what, **body):
        return self.ask(what, **self.share, **body)[0]

    def sign(self):
        return self.with_share("sign", message=HASH)

    def guess(self):
        return self.with_share("validate/password", password="wrong")

    def public_key(self):
        return self.with_share("publickey", password=PASSWORD)

    def validate_share(self):
        return self.with_share("validate/share")

    def recover(self):
        status, body = self.ask("recover", curve="ed25519", password=PASSWORD)
        if status == 200:
            self.share = body
        return status


def test_each_kind_is_limited_by_itself():
    rates = {"guesses": Rate(2), "recoveries": Rate(1, 600), "signatures": Rate(3)}
    with LocalService(cost=CHEAP, **{f"limit_{k}": v for k, v in rates.items()}) as service:
        alice, bob = Caller(service), Caller(service, "bob")
        assert [alice.sign() for _ in range(4)] == [200, 200, 200, 429]
        assert alice.retry_after == "20"
        assert alice.said == {"error": str(rate_exceeded(SIGNATURES, 20))}
        assert [alice.guess(), alice.public_key(), alice.guess()] == [200, 200, 429]
        assert alice.public_key() == 429
        assert [alice.validate_share() for _ in range(3)] == [200] * 3  # asks for no password
        assert [alice.recover(), alice.recover()] == [200, 429]
        assert alice.retry_after == "600"
        # What was refused has changed nothing, and others know nothing of it.
        assert [bob.sign(), bob.guess(), bob.recover()] == [200] * 3
        service.run(asyncio.sleep(60))
        assert [alice.sign(), alice.guess()] == [200, 200]
        assert alice.recover() == 429


def test_what_the_gateway_refuses_does_not_count():
    rates = {"limit_guesses": Rate(1), "limit_recoveries": Rate(1), "limit_signatures": Rate(1)}
    with LocalService(cost=CHEAP, **rates) as service:
        alice = Caller(service)
        nobody = service.user("bob")
        for _ in range(3):
            body = {"curve": "ed25519", "password": PASSWORD}
            assert nobody.post("/v3/wallet/recover", json=body).status_code == 404
            for what in ("sign", "publickey"):
                order = {"key_id": "00" * 32, "message": HASH, "password": PASSWORD}
                assert alice.ask(what, **alice.share | order)[0] in (400, 404)
        assert [alice.sign(), alice.guess(), alice.recover()] == [200] * 3


@pytest.mark.parametrize("failure", [Refused(404, "no"), InvalidEncoding("no")])
def test_what_comes_to_nothing_does_not_count(failure):
    limited, caller = Limit("x", Rate(1), Clock()).limit_verb(Mock(side_effect=failure)), Mock()
    for _ in range(2):
        with pytest.raises(type(failure), match="no"):
            asyncio.run(limited(caller, b""))


def test_a_signature_in_two_steps_is_no_guess():
    settings = Settings(early_requests=False)
    rates = {"limit_guesses": Rate(1), "limit_signatures": Rate(2)}
    with LocalService(cost=CHEAP, settings=settings, **rates) as service:
        alice = Caller(service)
        assert [alice.sign() for _ in range(3)] == [200, 200, 429]
        assert [alice.guess(), alice.guess()] == [200, 429]


def test_signatures_with_presignatures_count():
    with LocalService(cost=CHEAP, limit_signatures=Rate(3)) as service:
        alice, found = Caller(service, curve="secp256k1"), []
        alice.with_share("presign", count=3)
        for _ in range(3):
            deck = alice.said["presignatures"]
            found.append(alice.with_share("sign", message=HASH, presignatures=deck))
        assert found == [200, 200, 429]
