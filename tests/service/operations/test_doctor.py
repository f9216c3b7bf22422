"""What the doctor says of three stores, whatever became of them, and what a repair makes good."""

import asyncio
import re
import sqlite3
from contextlib import closing
from dataclasses import replace
from types import SimpleNamespace
from unittest.mock import create_autospec

import pytest

from mpcsim.crypto.rng import SystemRng
from mpcsim.errors import UsageError
from mpcsim.ids import OPERATOR
from mpcsim.service.gateway.registry import Registry
from mpcsim.service.mpc_node.identity import Identity
from mpcsim.service.operations import doctor as doctors
from mpcsim.service.operations.data_folder import store_file
from mpcsim.service.operations.doctor import Doctor
from mpcsim.service.operations.rotation import replace_lost_seal_key
from mpcsim.service.rpc.statements import SealKeyStatement, SignedReconciliationStatement
from mpcsim.service.storage.roles import REGISTRY
from tests.helpers.gateway import Client, nodes_alone, reopen
from tests.helpers.tiers import fast_few
from tests.service.operations.conftest import USERS, alter_store


def found(links, folder, *, user=None, names=None, repair=False):
    """What the doctor finds, by user; and what it could not ask."""

    async def work():
        await doctor.begin()
        doctor.sign_up(names or {})
        user_id = user and doctor.user_id(user)
        return [each async for each in doctor.examine(user_id, repair=repair)]

    with closing(Registry(store_file(folder, REGISTRY))) as registry:
        doctor = Doctor(registry, links, rng=SystemRng(), pause_s=0)
        looked = [each.finding for each in asyncio.run(work())]
    return {each.username or each.user_id: each for each in looked}, doctor.unavailable


def examined(links, folder, **options):
    """What the doctor says is the matter, by user."""
    findings, _ = found(links, folder, **options)
    return {name: kinds(finding.problems) for name, finding in findings.items()}


def kinds(problems):
    return [problem.kind.value for problem in problems]


# ---------------------------------------------------------------------- other troubles


@pytest.fixture
def house(tmp_path, past):
    """The later stores."""
    past.put(tmp_path)
    return tmp_path


def alone(house, user, **options):
    """What is the matter with a user's key while no gateway runs."""
    with nodes_alone(house) as links:
        findings, _ = found(links, house, user=user, **options)
    return findings[user].problems


@pytest.mark.few(2)
@pytest.mark.parametrize("place", fast_few([0.2, 0.4, 0.6, 0.8, 0.999], 2))
def test_a_damaged_record_is_repaired(house, past, place):
    """Wherever it is damaged, in what it says or in a signature; and the only one that there is."""
    store = store_file(house, "gateway")
    with closing(sqlite3.connect(store)) as database:
        (record,) = database.execute(
            "SELECT record FROM keys WHERE user_id = ?", (past.ids["bob"],)
        ).fetchone()
    at = int(place * len(record))
    damaged = record[:at] + bytes([record[at] ^ 1]) + record[at + 1 :]
    alter_store(store, "DELETE FROM keys WHERE user_id != ?", past.ids["bob"])
    alter_store(store, "UPDATE keys SET record = ?", damaged)
    assert kinds(alone(house, "bob")) == ["record-damaged"]
    assert alone(house, "bob", repair=True) == ()
    assert alone(house, "bob") == ()


def test_a_lost_seal_key_is_told_of_the_keys_from_before(house):
    alter_store(store_file(house, "operator"), "DELETE FROM secrets WHERE name = 'seal_key'")
    replace_lost_seal_key(house, OPERATOR, SystemRng())
    for user in ("alice", "bob"):
        assert kinds(alone(house, user)) == ["seal-key-lost"]


class Liar:
    """An MPC node's port that says something else."""

    def __init__(self, port, identity=None, change=None, times=10**9):
        self._port, self._identity, self._change = port, identity, change
        self._times = times

    def __getattr__(self, name):
        return getattr(self._port, name)

    async def hello(self):
        hello = await self._port.hello()
        if self._identity is None:
            return hello
        signature = self._identity.sign(
            SealKeyStatement(hello.party, hello.seal_key, hello.seal_number)
        )
        return replace(hello, identity=self._identity.public, signature=signature)

    async def handle(self, verb, grant, body):
        reply = await self._port.handle(verb, grant, body)
        if verb != "testify" or not self._times:
            return reply
        self._times -= 1
        said = SignedReconciliationStatement.from_bytes(reply)
        if self._change is not None:
            said = self._change(said)
        if self._identity is not None:
            said = replace(said, signature=self._identity.sign(said.statement))
        return said.to_bytes()


def other_words(said):
    return replace(said, statement=replace(said.statement, restored=1))


def other_nonce(said):
    return replace(said, statement=replace(said.statement, nonce=bytes(16)))


@pytest.mark.parametrize("change", [other_words, other_nonce])
def test_what_a_node_has_not_signed_counts_for_nothing(house, party, change):
    with nodes_alone(house) as links:
        links[party].port = Liar(links[party].port, change=change)
        assert examined(links, house) == {name: ["forged"] for name in USERS}


def test_a_node_of_another_identity_is_told_and_repairs_nothing(house, past, party):
    past.put(house, gateway="old")
    with nodes_alone(house) as links:
        links[party].port = Liar(links[party].port, identity=Identity.generate(SystemRng()))
        before = examined(links, house)
        assert {*map(tuple, before.values())} == {("stranger",)}
        assert examined(links, house, repair=True) == before


def test_an_identity_counts_that_all_records_name(monkeypatch):
    named = {"a": {1: b"one", 2: b"two"}, "b": {1: b"one", 2: b"another"}}
    monkeypatch.setattr(doctors, "identities_in", named.get)
    keys = [SimpleNamespace(user_id=name, curve="") for name in named]
    registry = SimpleNamespace(all_keys=lambda: keys, key=lambda user_id, curve: user_id)
    doctor = Doctor(registry, {}, rng=SystemRng(), pause_s=0)
    doctor._registered()
    assert doctor._recorded_identities == {1: b"one"}


def test_a_user_whom_the_registry_has_lost_is_known_by_a_share():
    registry = create_autospec(Registry, instance=True)
    registry.user_by_name.return_value = registry.user.return_value = None
    doctor = Doctor(registry, {}, rng=SystemRng(), pause_s=0)
    doctor.keys = {(name, "ed25519") for name in ("one", "another")}
    assert doctor.user_id("one") == "one"
    with pytest.raises(UsageError, match="no user has the name or the identifier 'none'"):
        doctor.user_id("none")


def test_what_is_under_way_is_looked_at_again(house):
    """A first look that falls between the two votes, for one."""
    with nodes_alone(house) as links:
        links[OPERATOR].port = Liar(links[OPERATOR].port, change=other_words, times=1)
        assert examined(links, house) == {name: [] for name in USERS}


def test_what_fits_is_looked_at_once(house):
    with nodes_alone(house) as links:
        port = links[OPERATOR].port = Liar(links[OPERATOR].port, times=9)
        examined(links, house)
        assert port._times == 9 - len(USERS)


# ---------------------------------------------------------------------- users


def test_one_user_by_name_or_identifier(house, past):
    with nodes_alone(house) as links:
        for user in ("bob", past.ids["bob"]):
            assert examined(links, house, user=user) == {"bob": []}
        with pytest.raises(UsageError, match="no user has the name or the identifier 'nobody'"):
            examined(links, house, user="nobody")


def test_users_are_signed_up_again_under_their_own_name_only(house, past):
    """Beside a gateway that has them again at once."""
    past.put(house, gateway="old")
    dave = past.ids["dave"]
    refusals = [
        ({dave: "bob"}, f"the name 'bob' is that of user {past.ids['bob']}"),
        ({past.ids["bob"]: "robert"}, f"user {past.ids['bob']} is registered as 'bob'"),
        ({"0" * 32: "eve"}, f"no MPC node that was heard holds a share of user '{'0' * 32}'"),
        ({dave: ""}, "username: not 1 to 64 characters"),
    ]

    async def works(gateway):
        await Client.of(gateway, "dave").check_works(past.shares["dave"])

    with closing(reopen(house)) as gateway:
        for names, refusal in refusals:
            with pytest.raises(UsageError, match=re.escape(refusal)):
                found(gateway.links, house, names=names, repair=True)
        for _ in range(2):
            findings = examined(gateway.links, house, names={dave: "dave"}, repair=True)
            assert findings == {name: [] for name in USERS}
        asyncio.run(works(gateway))
