"""Disks that are full or fail, files that are locked, read-only or damaged: each has a sentence, at
the start and during a request, and nothing is lost."""

import logging
import shutil
import sqlite3
from contextlib import closing, contextmanager, nullcontext, suppress
from pathlib import Path

import pytest

from mpcsim.errors import UsageError
from mpcsim.ids import INSTITUTION, OPERATOR, ROLES
from mpcsim.service.errors import Refused
from mpcsim.service.gateway.activation import attestations
from mpcsim.service.mpc_node.metrics import probes
from mpcsim.service.storage import database as databases
from mpcsim.service.storage.database import Database, StoreFailed, StoreProblem
from tests.helpers.gateway import Client, Failed, reopen, shares_of, started
from tests.service.operations.conftest import PARTS, alter_store


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    monkeypatch.setattr(databases, "BUSY_S", 0.1)
    monkeypatch.setattr(attestations, "PROMPT_S", 0.01)


def database_of(gateway, name):
    nodes = {ROLES[party]: link.node.store for party, link in gateway.links.items()}
    return {"gateway": gateway.gateway.registry, **nodes}[name]._database


@contextmanager
def full(database):
    """The file may not grow."""
    writer = database._writer
    (pages,) = writer.execute("PRAGMA page_count").fetchone()
    writer.execute(f"PRAGMA max_page_count = {pages}")
    yield
    writer.execute("PRAGMA max_page_count = 1000000")


@contextmanager
def locked(database):
    with closing(sqlite3.connect(database._path, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        yield


@contextmanager
def read_only(database):
    database._writer.execute("PRAGMA query_only = ON")
    yield
    database._writer.execute("PRAGMA query_only = OFF")


TROUBLES = {locked: StoreProblem.LOCKED, read_only: StoreProblem.READ_ONLY}


async def test_a_verdict_that_cannot_be_written_counts_and_is_owed(tmp_path, gateway, client):
    share = client.give_key("ed25519")
    node, key_id = gateway.links[OPERATOR].node, share.record.epoch.hex()
    ready = probes(node)[0]
    for bad in (True, False):
        with read_only(node.store.database) if bad else nullcontext():
            if bad:
                with pytest.raises(StoreFailed):
                    node.store.suspend(key_id, "cheated", b"what is kept")
            with suppress(StoreFailed):
                node.sweep()
            assert node.store.pending_suspensions == bad
            found = node.store.find(key_id)
            assert (found.suspended, found.share) == ("cheated", b"what is kept")
            assert node.store.suspended_key_ids(9) == [key_id]
            assert bool((await ready.look())["store"]) == bad
            with pytest.raises(Refused, match="suspended at the operator: cheated"):
                node._shares.usable_share(found.user_id, key_id)
    assert shares_of(gateway)[OPERATOR][0][-1] == "cheated"


def test_room_is_kept_for_what_must_be_written(tmp_path):
    database, tried = Database(tmp_path / "x.sqlite", ""), []

    def change():
        tried.append(reserve.exists())
        if reserve.exists() or len(tried) > 2:
            raise StoreFailed(reserve, StoreProblem.FULL)

    with closing(database):
        reserve = tmp_path / "x.sqlite-reserve"
        database.hold_reserve()
        assert reserve.stat().st_blocks * 512 >= databases.RESERVE
        database.write_urgently(change)
        assert tried == [True, False]
        with pytest.raises(StoreFailed):
            database.write_urgently(change)


@pytest.mark.few(2)
@pytest.mark.parametrize("trouble", TROUBLES, ids=lambda trouble: trouble.__name__)
@pytest.mark.parametrize("name", PARTS)
async def test_what_cannot_be_written_loses_nothing(
    tmp_path, caplog, name, trouble, gateway, client
):
    """Signing goes on; what makes or replaces a key says why not, and works again afterwards."""

    bob, share = Client.of(gateway, "bob"), client.give_key("ed25519")
    before = shares_of(gateway)
    with trouble(database_of(gateway, name)):
        for making in (bob.generate("ed25519"), client.recover("ed25519")):
            with pytest.raises(Failed) as failed:
                await making
            assert failed.value.status == 503
            assert failed.value.error == f"{name}.sqlite: {TROUBLES[trouble].value}"
            party = failed.value.response.json().get("party")
            assert party == {"operator": 2, "institution": 3}.get(name)
        await client.check_works(share)
    assert all(set(rows) <= set(shares_of(gateway)[i]) for i, rows in before.items())
    await client.check_consistent("ed25519", share.public_key.encode())
    await bob.check_consistent("ed25519")
    errors = [r.getMessage() for r in caplog.records if r.levelno == logging.ERROR]
    assert errors
    assert all(f"{tmp_path}/{name}/{name}.sqlite: {TROUBLES[trouble].value}" in e for e in errors)


async def test_a_registry_without_space_signs_nobody_up(tmp_path, caplog, gateway, client):
    names = (f"{n:064}" for n in range(1000))

    async def sign_up():
        path = "/member/user-management/v3/signup"
        known = (gateway.credentials.api_key, gateway.credentials.api_secret)
        return await client.http.post(path, json={"username": next(names)}, auth=known)

    with full(database_of(gateway, "gateway")):
        while (response := await sign_up()).is_success:
            pass
        assert response.status_code == 503
        assert response.json() == {"error": f"gateway.sqlite: {StoreProblem.FULL.value}"}
    assert (await sign_up()).status_code == 201
    assert f"v3/signup: {tmp_path}/gateway/gateway.sqlite: {StoreProblem.FULL.value}" in caplog.text


async def test_a_damaged_file_is_said_to_be_so_while_it_is_used(tmp_path, caplog, gateway, client):
    store = tmp_path / "operator/operator.sqlite"

    share = client.give_key("ed25519")
    database = database_of(gateway, "operator")
    database.forget()
    store.write_bytes(store.read_bytes()[:4096] + b"\x55" * (store.stat().st_size - 4096))
    database._reader.close()  # what it remembers is whole
    database._reader = databases._connect(store)
    with pytest.raises(Failed) as failed:
        await client.sign(share)
    said = {"error": f"operator.sqlite: {StoreProblem.DAMAGED.value}", "party": OPERATOR}
    assert (failed.value.status, failed.value.response.json()) == (503, said)
    await client.sign(share, signer=INSTITUTION)
    assert f"operator sign: {tmp_path}/operator/operator.sqlite: it is damaged" in caplog.text


# ---------------------------------------------------------------------- at the start


@pytest.mark.parametrize("name", PARTS)
def test_a_locked_file_at_the_start(tmp_path, name):
    reopen(tmp_path).close()
    store = tmp_path / f"{name}/{name}.sqlite"
    with closing(sqlite3.connect(store, isolation_level=None)) as other:
        other.execute("PRAGMA locking_mode = EXCLUSIVE")
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(UsageError, match=f"{name}.sqlite: another process keeps it locked$"):
            reopen(tmp_path)
    reopen(tmp_path).close()


async def generate(folder):
    with started(folder) as (_, client):
        return client.give_key("ed25519")


LOST = dict(
    line.split(" -> ")
    for line in Path(__file__).with_name("lost_secrets.txt").read_text("utf-8").splitlines()
)
"""What is said of a store, and what has become of it."""


@pytest.mark.parametrize("what", LOST)
@pytest.mark.few(3)
async def test_a_store_without_its_own_secret_is_damaged(tmp_path, what):
    name, _, said = what.partition(": ")
    share, store = await generate(tmp_path), tmp_path / f"{name}/{name}.sqlite"
    shutil.copy(store, tmp_path / "kept")
    alter_store(store, LOST[what])
    damaged, lost = rf"it is damaged.*\({said}\)$", f"{said}: .*; put back a backup of this store"
    with pytest.raises(UsageError, match=rf"{name}\.sqlite: ({damaged}|{lost})"):
        reopen(tmp_path)
    shutil.copy(tmp_path / "kept", store)
    with started(tmp_path) as (_, client):
        await client.check_works(share)


async def test_an_index_that_does_not_fit_its_table_is_damage(tmp_path):
    """One bit of a name in the table, none in the index."""
    await generate(tmp_path)
    store = tmp_path / "operator/operator.sqlite"
    with closing(sqlite3.connect(store)) as database:
        ((key_id, user_id, public_key),) = database.execute(
            "SELECT key_id, user_id, public_key FROM shares"
        ).fetchall()
    data = store.read_bytes()
    at = data.index(f"{key_id}{user_id}ed25519".encode() + public_key)
    store.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
    with pytest.raises(UsageError, match=r"operator.sqlite: it is damaged"):
        reopen(tmp_path)


def test_what_is_no_trouble_of_the_file_is_raised_as_it_is(tmp_path):
    with closing(Database(tmp_path / "db", "CREATE TABLE t (x INTEGER PRIMARY KEY)")) as database:
        with database.transaction() as cursor:
            cursor.execute("INSERT INTO t VALUES (1)")
        with pytest.raises(sqlite3.IntegrityError), database.transaction() as cursor:
            cursor.execute("INSERT INTO t VALUES (1)")
        with pytest.raises(sqlite3.OperationalError, match="no such column"):
            database.rows("SELECT y FROM t")


def test_a_locked_file_is_waited_for_as_long_as_there_is_patience():
    for patience_s, ms in ((None, 100), (0.25, 250)):
        with closing(databases._connect(":memory:", patience_s)) as made:
            assert made.execute("PRAGMA busy_timeout").fetchone() == (ms,)
