"""Stores: opened again they answer the same; and no column is without an answer that needs it."""

import shutil
import sqlite3
from contextlib import closing
from dataclasses import astuple, replace
from itertools import count

import pytest

from mpcsim.crypto.groups.curves import CURVES
from mpcsim.crypto.rng import SeededRng
from mpcsim.errors import UsageError
from mpcsim.ids import MPC_NODES
from mpcsim.service.gateway.registry import NamedCall, Registry
from mpcsim.service.mpc_node.events import EMPTY, LINES_AT_ONCE, Kind
from mpcsim.service.mpc_node.store import NodeStatement, ShareStore, StoredShare
from mpcsim.service.rpc.activation_messages import PREPARED
from mpcsim.service.rpc.wire import AbortedSession
from mpcsim.service.storage.database import Deployment
from tests.helpers.key_records import said_to_be_signed

CURVE = "ed25519"
POINT = CURVES[CURVE].base(CURVES[CURVE].scalar(7)).encode()
KEYS = [f"{n:064x}" for n in range(4)]
NOW = 1_800_000_000.0
AT = AbortedSession("u", b"K" * 32, b"S" * 32)

UNREAD = {"suspensions.signature": "evidence for whoever looks into the file"}
"""Columns that no answer needs."""
KNOWN = {
    ShareStore: {"_database", "_log", "_now", "keys", "_pending", "_pending_at_peer"},
    Registry: {"_database", "_rng", "_now"},
}
"""Attributes: the file and what is given; and suspensions until they can be written, which a crash
loses (``ShareStore.suspend``)."""


def hurried(store):
    """A store that does not wait for the disk."""
    store.database._writer.execute("PRAGMA synchronous = OFF")
    return store


def node_store(path):
    return hurried(ShareStore(path, lambda: NOW))


def registry(path):
    ticks = count()
    return hurried(Registry(path, rng=SeededRng("columns"), now=lambda: NOW + next(ticks) / 1000))


def fill_node_store(store):
    store.join(Deployment("d", "operator"))
    store.keys.seal_key(SeededRng("seal"))
    store.keys.identity(SeededRng("identity"))
    share = StoredShare("in force", "u", CURVE, b"public", b"share", PREPARED, recoveries=3)
    store.prepare(share)
    store.vote("in force", lambda *_: b"one vote")
    store.activate("in force", b"both votes", EMPTY, "a session")
    store.keys.pin(bytes(32))
    with store.database.transaction() as cursor:
        cursor.execute("DELETE FROM secrets WHERE name = 'seal_key'")
    store.keys.replace_seal_key(SeededRng("seal again"))
    store.suspend("in force", "caught")
    store.mark_suspended_at_peer(["in force"])
    for _ in range(LINES_AT_ONCE + 1):
        store.log_event(Kind.REFUSED, "u", CURVE, "in force", "a session")
    store.mark_restored("yesterday", both=False)
    for key_id in ("voted", "aborted", "entered"):
        store.enter_epoch(key_id, "u", CURVE)
    store.prepare(replace(share, key_id="voted", predecessor="in force"))
    store.vote("voted", lambda *_: b"one vote")
    store.prepare(replace(share, key_id="aborted", predecessor="in force"))
    store.abort("u", CURVE, "aborted")


def fill_registry(store):
    store.join(Deployment("d", "gateway"))
    store.set_token_lifetime(600)
    store.rotate_signing_key()
    user, _ = store.sign_up("alice", "u"), store.sign_up("bob", "v")
    store.put(said_to_be_signed("v", KEYS[3], CURVE, POINT, 3))
    with store.database.transaction() as cursor:
        cursor.execute("UPDATE keys SET record = x'00'")
    store.put(said_to_be_signed("u", KEYS[1], CURVE, POINT, 3))
    store.put_named_call(NamedCall("n", user.user_id, "recover", CURVE), KEYS[2])
    store.suspend(AT, dict.fromkeys(MPC_NODES, b"notice"))
    first, _ = store.suspension_notices()
    store.acknowledge(replace(first, opened=1), b"signature")


def said(ask):
    try:
        return ask()
    except Exception as error:
        return repr(error)


def answers_of_node_store(store):
    stated = NodeStatement("u", CURVE, None, "in force", "entered", frozenset(), False)
    return [
        said(ask)
        for ask in (
            store.deployment,
            lambda: store.share_inventory("", 9),
            lambda: store.of_key("u", CURVE),
            lambda: store.voted_since("u", CURVE),
            lambda: store.suspended_key_ids(9),
            store.count_by_state,
            lambda: store.both_restored,
            lambda: store.keys.identity(SeededRng("x")).public,
            lambda: store.keys.seal_key(SeededRng("x")).public,
            store.keys.peer_identity,
            store.keys.seal_number,
            lambda: store.keys.sealed_to_lost_key("in force"),
            lambda: store.log_event(Kind.REFUSED, "u", CURVE, "", ""),
            lambda: store.log_event(Kind.BEGUN, "u", CURVE, "", ""),
            store.events,
            lambda: store.merge(stated, lambda _: None),
            lambda: store.of_key("u", CURVE),
            lambda: store.abort("u", CURVE, "aborted"),
            lambda: store.abort("u", CURVE, "entered", voted_for=True),
            lambda: store.drop_prepared("entered"),
            lambda: store.database.rows("SELECT * FROM entered"),
        )
    ]


def answers_of_registry(store):
    call = NamedCall("n", "u", "recover", CURVE)
    return [
        said(ask)
        for ask in (
            store.deployment,
            store.user_ids,
            lambda: store.user("u"),
            lambda: store.user_by_name("alice"),
            lambda: [astuple(key) for user in "uv" for key in store.keys(user)],
            store.all_keys,
            store.suspension_notices,
            store.suspension_key,
            store.signing_keys,
            store.credentials,
            store.sweep,
            lambda: store.is_named_call_in_force(call),
            lambda: store.check_named_call(call),
            lambda: store.put(said_to_be_signed("u", KEYS[2], CURVE, POINT, 4)),
            lambda: store.is_named_call_in_force(call),
            lambda: store.rotate_signing_key(),
        )
    ]


STORES = {
    "node": (node_store, fill_node_store, answers_of_node_store),
    "registry": (registry, fill_registry, answers_of_registry),
}


def columns(path):
    with closing(sqlite3.connect(path)) as database:
        tables = database.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        return [
            (table, column)
            for (table,) in tables
            for (column,) in database.execute("SELECT name FROM pragma_table_info(?)", (table,))
        ]


def with_other_value(path, table, column, to):
    """A copy of a store in which each value of a column is another."""
    shutil.copy(path, to)
    with closing(sqlite3.connect(to, isolation_level=None)) as database:
        database.execute("PRAGMA synchronous = OFF")
        database.execute("PRAGMA ignore_check_constraints = 1")
        rows = database.execute(f"SELECT rowid, {column} FROM {table}").fetchall()
        for rowid, value in rows:
            other = {str: lambda v: f"{v}x", bytes: lambda v: v + b"x", type(None): lambda _: "x"}
            changed = other.get(type(value), lambda v: v - 1e7)(value)
            database.execute(f"UPDATE {table} SET {column} = ? WHERE rowid = ?", (changed, rowid))
    assert rows, f"{table} is empty"
    return to


@pytest.mark.soak  # it opens a store for each column
@pytest.mark.parametrize("name", STORES)
def test_every_column_is_kept_for_an_answer(tmp_path, name):
    opened, fill, answers = STORES[name]
    file = tmp_path / "db"
    with closing(opened(file)) as store:
        fill(store)
        assert vars(store).keys() == KNOWN[type(store)]
        shutil.copy(file, tmp_path / "copy")
    expected = []
    for _ in range(2):
        with closing(opened(shutil.copy(file, tmp_path / "same"))) as store:
            expected.append(answers(store))
    assert expected[0] == expected[1]
    without = set()
    for number, (table, column) in enumerate(columns(file)):
        lost = with_other_value(file, table, column, tmp_path / f"{number}")
        try:
            with closing(opened(lost)) as store:
                found = answers(store)
        except UsageError as refused:  # the whole file
            found = [repr(refused)]
        if found == expected[0]:
            without.add(f"{table}.{column}")
    assert without == UNREAD.keys() & {f"{t}.{c}" for t, c in columns(file)}
