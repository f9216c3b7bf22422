"""A data folder made by the version before key records: ``earlier/`` has its three databases as
that version wrote them (in SQL), and the strings that it gave to two users. Alice's key had been
recovered once, Bob's had not."""

import asyncio
import json
import sqlite3
from contextlib import closing

import pytest

from mpcsim.ids import INSTITUTION, MPC_NODES, OPERATOR
from mpcsim.mpc_node.events import verify
from mpcsim.rpc.statements import SignedRecord
from mpcsim.vault import SecretStore
from node.models import KeyShareRecord
from node.timing import Timing
from tests.helpers.gateway import reopen, shares_of
from tests.helpers.repo import ROOT
from tests.node.wallets import PASSWORD, House, stored_share

EARLIER = ROOT / "tests/service/earlier"
STRINGS = {
    name: KeyShareRecord(**strings)
    for name, strings in json.loads((EARLIER / "strings.json").read_text()).items()
}
RECOVERED = {"alice": 1, "bob": 0}


@pytest.fixture
def folder(tmp_path):
    for path in EARLIER.glob("*.sql"):
        with closing(sqlite3.connect(tmp_path / f"{path.stem}.sqlite")) as database:
            database.executescript(path.read_text())
    return tmp_path


def use(folder, work):
    async def whole():
        async with House(reopen(folder)) as house:
            try:
                return await work(house)
            finally:
                house.gateway.close()

    return asyncio.run(whole())


def registered(house, name):
    registry = house.gateway.gateway.registry
    return registry.key(registry.user_by_name(name).user_id, "ed25519")


def events(house, party):
    return house.gateway.links[party].node._store.events()


async def check_works(house, strings, name):
    for signer in ("operator", "institution"):
        await house.sign(strings, name=name, signer=signer)
    found = await house.wallet.public_key(
        house.caller(name),
        stored_share(strings),
        password=PASSWORD,
        timing=Timing(),
    )
    assert found.public_key == strings.public_key


@pytest.mark.few(1)
@pytest.mark.parametrize("first", ["sign", "recover", "keys", "wallet_info"])
def test_keys_made_before_get_records_when_they_are_first_used(folder, first):
    async def work(house):
        for name, strings in STRINGS.items():
            assert registered(house, name).record is None
            if first == "sign":
                await house.sign(strings, name=name)
            elif first == "recover":
                await house.recover("ed25519", name)
            else:
                await getattr(house.wallet, first)(house.caller(name))
            key = registered(house, name)
            record = SignedRecord.from_bytes(key.record).record
            assert (record.key_id, record.public_key) == (key.key_id, key.public_key)
            assert "0x" + key.public_key.hex() == strings.public_key
            recoveries = RECOVERED[name] + (first == "recover")
            assert (record.number, record.predecessor is None) == (recoveries, first != "recover")
        logs = [events(house, party) for party in MPC_NODES]
        assert [event.event for event in logs[0]].count("endorsed") == 2
        assert verify(*logs) == []

    use(folder, work)


def test_their_strings_work_as_they_are_until_the_key_is_recovered(folder):
    new = {}

    async def work(house):
        for name, strings in STRINGS.items():
            assert SecretStore.from_text(strings.secret_store).version == 1
            await check_works(house, strings, name)
        new["alice"] = await house.recover("ed25519", "alice")
        assert SecretStore.from_text(new["alice"].secret_store).version == 2

    async def again(house):
        await check_works(house, new["alice"], "alice")
        await check_works(house, STRINGS["bob"], "bob")

    use(folder, work)
    for _ in range(2):
        use(folder, again)


@pytest.mark.few(1)
@pytest.mark.parametrize("parties", [(OPERATOR,), (INSTITUTION,), MPC_NODES])
def test_what_it_had_decided_and_the_mpc_nodes_had_not_heard_is_in_force(folder, parties):
    """They had voted, and the registry was written; then it was stopped."""
    for name in ("operator", "institution"):
        with closing(sqlite3.connect(folder / f"{name}.sqlite")) as database, database:
            if {"operator": OPERATOR, "institution": INSTITUTION}[name] in parties:
                database.execute("UPDATE shares SET state = 'voted' WHERE recoveries = 1")

    async def work(house):
        for name, strings in STRINGS.items():
            await check_works(house, strings, name)
        for rows in shares_of(house.gateway).values():
            assert [state for *_, state, _ in rows] == ["active"] * 2

    use(folder, work)
