"""An MPC node's store: the states of a share, and that nothing of a dropped one is left."""

import os
import resource
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing, contextmanager, nullcontext
from dataclasses import astuple, replace
from threading import RLock
from types import SimpleNamespace

import pytest

from mpcsim.crypto.rng import SystemRng
from mpcsim.ids import OPERATOR
from mpcsim.service.mpc_node import store as stores
from mpcsim.service.mpc_node.events import EMPTY, Kind, head_outcome
from mpcsim.service.mpc_node.sessions.expiry import SessionExpiry
from mpcsim.service.mpc_node.sessions.table import SessionTable
from mpcsim.service.rpc.activation_messages import ACTIVE, PREPARED, VOTED
from mpcsim.service.storage import database as databases
from mpcsim.service.storage.database import StoreFailed, StoreProblem


def stored(key_id, predecessor=None, user="u", **members):
    made = stores.StoredShare(key_id, user, "ed25519", b"public", b"share", PREPARED)
    return replace(made, predecessor=predecessor, **members)


def vote(store, key_id, signed=b"one vote"):
    return store.vote(key_id, lambda share, head: signed)


def put_in_force(store, key_id, predecessor=None, **members):
    store.prepare(stored(key_id, predecessor, **members))
    vote(store, key_id)
    return store.activate(key_id, b"both votes", EMPTY)


def states(store):
    return {h.key_id: h.state for h in store.share_inventory("", 100)}


@pytest.fixture
def store():
    with closing(stores.ShareStore()) as opened:
        yield opened


# ---------------------------------------------------------------------- states


def test_a_share_comes_into_force_over_the_one_that_it_replaces_and_no_other(store):
    assert put_in_force(store, "a") == []
    store.prepare(stored("b", "a"))
    store.prepare(stored("beside", "a"))
    store.prepare(stored("bystander", user="v"))
    vote(store, "b")
    assert store.activate("b", b"both votes", EMPTY) == ["a", "beside"]
    assert states(store) == {"b": ACTIVE, "bystander": PREPARED}
    assert store.active_share("u", "ed25519").record == b"both votes"
    for predecessor in (None, "a"):
        store.prepare(stored("c", predecessor))
        with pytest.raises(stores.StaleUpdate, match="that it replaces is not the active one"):
            vote(store, "c")
        store.drop_prepared("c")
    assert store.active_share("u", "ed25519").key_id == "b"


def test_without_a_vote_nothing_comes_into_force(store):
    store.prepare(stored("a"))
    for key_id in ("a", "unknown"):
        with pytest.raises(stores.StaleUpdate, match="not been voted for"):
            store.activate(key_id, b"both votes", EMPTY)
    assert states(store) == {"a": PREPARED}


def test_there_is_a_vote_for_a_prepared_share_alone(store):
    put_in_force(store, "a")
    for key_id in ("a", "unknown"):
        with pytest.raises(stores.StaleUpdate, match="there is no such share to vote for"):
            vote(store, key_id)
    assert states(store) == {"a": ACTIVE}


def test_the_predecessor_is_looked_at_again_when_the_share_comes_into_force(tmp_path):
    """Whatever the file says by then: here it was put together from copies."""
    with closing(stores.ShareStore(tmp_path / "db")) as store:
        put_in_force(store, "a")
        store.prepare(stored("b", "a"))
        vote(store, "b")
        with store._database.transaction() as cursor:
            cursor.execute("UPDATE shares SET key_id = 'other' WHERE key_id = 'a'")
        with pytest.raises(stores.StaleUpdate, match="is not the active one"):
            store.activate("b", b"both votes", EMPTY)
        assert states(store) == {"other": ACTIVE, "b": VOTED}


@pytest.mark.parametrize("predecessor", [None, "a"])
def test_one_vote_is_outstanding(store, predecessor):
    if predecessor:
        put_in_force(store, "a")
    for key_id in ("b", "c"):
        store.prepare(stored(key_id, predecessor))
    vote(store, "b")
    with pytest.raises(stores.StaleUpdate, match="another vote is outstanding: for b"):
        vote(store, "c")
    with pytest.raises(sqlite3.IntegrityError), store._database.transaction() as cursor:
        cursor.execute("UPDATE shares SET state = 'voted' WHERE key_id = 'c'")
    store.drop("u", "ed25519", "b")
    vote(store, "c")
    store.prepare(stored("other user's", user="v"))
    vote(store, "other user's")


def test_doing_it_twice_is_doing_it_once(store):
    store.prepare(stored("a"))
    assert vote(store, "a", b"first") == vote(store, "a", b"second") == b"first"
    store.activate("a", b"both votes", EMPTY, "session")
    assert store.activate("a", b"both votes", EMPTY) == []
    assert store.abort("u", "ed25519", "x", voted_for=True) is None
    assert store.abort("u", "ed25519", "x") is None
    store.drop("u", "ed25519", "x")
    (event,) = store.events()
    seen = head_outcome(EMPTY)
    assert (event.event, event.session, event.outcome) == ("made", "session", seen)


def test_a_vote_or_an_abort_and_never_both(tmp_path):
    path = tmp_path / "db"
    with closing(stores.ShareStore(path)) as store:
        store.prepare(stored("a"))
        assert store.abort("u", "ed25519", "a") is None
        assert states(store) == {}
        store.prepare(stored("a"))  # made once more, however that may be
        with pytest.raises(stores.StaleUpdate, match="signed for this epoch is the abort"):
            vote(store, "a")
        store.prepare(stored("b"))
        vote(store, "b")
        assert store.abort("u", "ed25519", "b").record == b"one vote"
        assert states(store)["b"] == VOTED
        store.drop("u", "ed25519", "b")
    with closing(stores.ShareStore(path)) as store:
        with pytest.raises(stores.StaleUpdate, match="signed for this epoch is the vote"):
            store.abort("u", "ed25519", "b")
        store.prepare(stored("b"))
        assert vote(store, "b") == b"one vote"


def test_when_a_vote_was_given_is_known_as_long_as_it_is_outstanding(tmp_path):
    path = tmp_path / "db"
    with closing(stores.ShareStore(path, lambda: 7.0)) as store:
        put_in_force(store, "a")
        assert store.voted_since("u", "ed25519") is None
        store.prepare(stored("b", "a"))
        vote(store, "b")
    with closing(stores.ShareStore(path, lambda: 9.0)) as store:
        at = [store.voted_since(*each) for each in (("u", "ed25519"), ("u", "p"), ("v", "ed25519"))]
        assert at == [7.0, None, None]
        store.drop("u", "ed25519", "b")
        assert store.voted_since("u", "ed25519") is None
        store.enter_epoch("b", "u", "ed25519")
        store.prepare(stored("b", "a"))
        vote(store, "b", b"second")
        assert store._database.rows("SELECT * FROM outstanding") == [("b", 9.0)]
        assert store._database.rows("SELECT * FROM entered") == []  # its session gives no more
        with store._database.transaction() as cursor:
            cursor.execute("DELETE FROM outstanding")
        assert store.voted_since("u", "ed25519") == 0.0


def test_so_much_of_what_is_signed_for_a_user_and_curve_is_remembered(store):
    """Whoever has keys made, recovered and cut off again and again does not fill the disk."""
    store.prepare(stored("other", user="v"))
    vote(store, "other")
    keys, ended, dropped = ([f"{what}{n}" for n in range(stores.SIGNED + 3)] for what in "ked")
    put_in_force(store, "first")
    for key_id in ended:
        store.prepare(stored(key_id, "first"))
        store.abort("u", "ed25519", key_id)
    for key_id in dropped:
        store.prepare(stored(key_id, "first"))
        vote(store, key_id)
        store.drop("u", "ed25519", key_id)
    assert store.abort("u", "ed25519", "first").record == b"both votes"
    for old, new in zip(["first", *keys], keys, strict=False):
        put_in_force(store, new, old)
    query = "SELECT what, count(*) FROM signed WHERE user_id = 'u' GROUP BY what ORDER BY what"
    assert store.database.rows(query) == [("abort", stores.SIGNED), ("vote", stores.SIGNED)]
    assert store.abort("v", "ed25519", "other").record == b"one vote"
    for remembered in (keys[3], keys[-2]):
        with pytest.raises(stores.StaleUpdate, match="signed for this epoch is the vote"):
            store.abort("u", "ed25519", remembered, voted_for=True)
    store.prepare(stored(ended[3], keys[-1]))
    with pytest.raises(stores.StaleUpdate, match="signed for this epoch is the abort"):
        vote(store, ended[3])


def test_nothing_is_signed_for_what_neither_node_holds(store):
    with pytest.raises(stores.StaleUpdate, match="neither node has such a share"):
        store.abort("u", "ed25519", "x")
    assert store._database.rows("SELECT * FROM signed") == []


def test_what_is_signed_for_one_user_and_curve_is_nothing_to_the_others(store):
    """Else somebody who has an epoch aborted keeps it from whoever makes it."""
    for user, curve in [("v", "ed25519"), ("u", "secp256k1")]:
        store.abort(user, curve, "a", voted_for=True)
    assert put_in_force(store, "a") == []


def test_a_share_in_force_is_neither_aborted_nor_dropped(store):
    put_in_force(store, "a")
    assert store.abort("u", "ed25519", "a").state == ACTIVE
    with pytest.raises(stores.StaleUpdate, match="in force"):
        store.drop("u", "ed25519", "a")
    for user, curve in [("v", "ed25519"), ("u", "secp256k1")]:
        with pytest.raises(stores.StaleUpdate, match="neither node has such a share"):
            store.abort(user, curve, "a")
        with pytest.raises(stores.StaleUpdate, match="another user or curve"):
            store.drop(user, curve, "a")
    assert states(store) == {"a": ACTIVE}


def test_a_vote_for_another_users_epoch_can_be_ended_and_leaves_the_share_alone(store):
    """One session that a gateway has passed off as one user's here and another's there."""
    put_in_force(store, "a")
    for user, curve in [("v", "ed25519"), ("u", "secp256k1")]:
        assert store.abort(user, curve, "a", voted_for=True) is None
    assert states(store) == {"a": ACTIVE}


def test_shares_of_sessions_that_are_no_more_go(store):
    put_in_force(store, "a")
    for key_id in ("live", "dead", "voted"):
        store.prepare(stored(key_id, "a"))
    vote(store, "voted")
    store.drop_orphans(["live"])
    assert states(store) == {"a": ACTIVE, "live": PREPARED, "voted": VOTED}
    store.drop_orphans()
    store.drop_prepared("voted")
    assert states(store) == {"a": ACTIVE, "voted": VOTED}


def test_holdings_come_in_pages(store):
    for n in range(5):
        store.prepare(stored(str(n), user=str(n)))
    pages, after = [], ""
    while page := store.share_inventory(after, 2):
        pages.append([h.key_id for h in page])
        after = page[-1].key_id
    assert pages == [["0", "1"], ["2", "3"], ["4"]]


def test_what_a_share_says_of_itself(store):
    put_in_force(store, "a")
    store.suspend("a", "why", b"less")
    found = store.find("a")
    assert (found.suspended, found.share) == ("why", b"less")
    assert "less" not in repr(found)


def test_suspensions_that_cannot_be_written_are_listed_and_owed(store):
    for key_id in ("a", "b"):
        put_in_force(store, key_id, user=key_id)
    store.suspend("b", "why")
    store.database._writer.execute("PRAGMA query_only = ON")
    for suspend in (
        lambda: store.suspend("a", "why", b"less"),
        lambda: store.suspend("a", "why"),
        lambda: store.mark_suspended_at_peer({"b"}),
    ):
        with pytest.raises(StoreFailed):
            suspend()
    for owed in (2, 0):
        assert store.pending_suspensions == owed
        a, b = map(store.find, "ab")
        assert (a.share, a.suspended_there, b.suspended_there) == (b"less", 0, 1)
        assert [store.suspended_key_ids(n) for n in (9, 1)] == [["a", "b"], ["a"]]
        store.database._writer.execute("PRAGMA query_only = OFF")
        store.write_pending()


def test_seal_keys_that_are_lost_are_counted_and_what_was_sealed_to_them_is_known(store):
    put_in_force(store, "a")
    store.prepare(stored("b", "a"))
    vote(store, "b")
    for number in (1, 2):
        with store.database.transaction() as cursor:
            cursor.execute("DELETE FROM secrets WHERE name = 'seal_key'")
        assert store.keys.replace_seal_key(SystemRng()) == 2
        assert store.keys.seal_number() == number
    assert all(map(store.keys.sealed_to_lost_key, "ab"))


@pytest.mark.parametrize("number", [0, 1 << 32])
def test_so_many_seal_keys_cannot_have_come_before(store, number):
    with store.database.transaction() as cursor:
        cursor.execute("INSERT INTO secrets VALUES ('seal_number', ?)", (number,))
    with pytest.raises(StoreFailed, match="number of its seal key is none"):
        store.keys.seal_number()


# ---------------------------------------------------------------------- nothing is left behind


def secret():
    """Long enough for pages of its own, and short: both kinds are stored differently."""
    return [os.urandom(600), os.urandom(16_000)]


def found(path, share):
    """The files that have a piece of a share in them: any of 79 bytes has one of these in it."""
    pieces = [share[at : at + 16] for at in range(0, len(share) - 15, 64)]
    files = {file.name: file.read_bytes() for file in path.parent.glob(f"{path.name}*")}
    return [name for name, data in files.items() if any(piece in data for piece in pieces)]


@contextmanager
def crowded(path):
    """A store with shares of others, and a key in force."""
    with closing(stores.ShareStore(path)) as store:
        marks = ", ".join("?" * len(astuple(stored("any"))))
        with store._database.transaction() as cursor:
            for n in range(10):
                other = stored(f"other {n}", user=f"other {n}", share=os.urandom(1000 * n))
                cursor.execute(f"INSERT INTO shares VALUES ({marks})", astuple(other))
        yield store


@contextmanager
def read(path):
    """Another process reads the file all the time."""
    with closing(sqlite3.connect(path)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM shares").fetchone()
        yield


def by_activation(store, old, new):
    put_in_force(store, "old", share=old)
    store.prepare(stored("beside", "old", share=new))
    put_in_force(store, "new", "old", share=b"kept")


def by_abort(store, old, new):
    for key_id, share in [("old", old), ("new", new)]:
        store.prepare(stored(key_id, share=share))
        store.abort("u", "ed25519", key_id)


def by_the_other_nodes_abort(store, old, new):
    for key_id, share in [("old", old), ("new", new)]:
        store.prepare(stored(key_id, share=share))
        vote(store, key_id)
        store.drop("u", "ed25519", key_id)


def by_the_end_of_its_session(store, old, new):
    store.prepare(stored("old", share=old))
    store.prepare(stored("new", share=new))
    store.drop_prepared("new")
    store.drop_orphans()


def by_discarding_what_is_in_it(store, old, new):
    put_in_force(store, "old", share=old)
    store.suspend("old", "why", b"less")


WAYS_TO_DROP = [
    by_activation,
    by_abort,
    by_the_other_nodes_abort,
    by_the_end_of_its_session,
    by_discarding_what_is_in_it,
]


@pytest.mark.parametrize("size", [0, 1])
@pytest.mark.parametrize("drop", WAYS_TO_DROP)
def test_no_file_has_anything_of_a_dropped_share(tmp_path, drop, size):
    """As soon as the method has returned, with the store still open."""
    path, old, new = tmp_path / "db", secret()[size], secret()[size]
    with crowded(path) as store:
        store.prepare(stored("here", user="w", share=old[::-1]))
        assert found(path, old[::-1]), "what is there is found"
        drop(store, old, new)
        assert found(path, old) == found(path, new) == []


def test_what_a_killed_process_has_deleted_goes_at_the_next_start(tmp_path):
    """It was killed between the change and the emptying of the log."""
    path, share = tmp_path / "db", os.urandom(600)
    with crowded(path) as store:
        store._database.forget = lambda: None
        store.prepare(stored("a", share=share))
        store.drop_prepared("a")
        (tmp_path / "killed").mkdir()
        copies = [shutil.copy(file, tmp_path / "killed") for file in tmp_path.glob("db*")]
    path = tmp_path / "killed" / "db"
    assert len(copies) > 1
    assert found(path, share)
    with closing(stores.ShareStore(path)):
        assert found(path, share) == []


NOTHING = stores.NodeStatement("u", "ed25519", None, None, None, frozenset(), restored=False)
FORGETTING = [
    lambda store: store.activate("new", b"both votes", EMPTY),  # the same request again
    lambda store: store.drop_orphans(),
    lambda store: store.merge(NOTHING, lambda share: None),
]


@pytest.mark.parametrize("do", FORGETTING)
def test_what_could_not_be_forgotten_is_not_answered_as_done_and_is_forgotten_later(
    tmp_path, monkeypatch, do
):
    """The log of writes could not be emptied: another process was reading."""
    monkeypatch.setattr(databases, "BUSY_S", 0.1)
    path, share = tmp_path / "db", os.urandom(600)
    with crowded(path) as store:
        put_in_force(store, "old", share=share)
        store.prepare(stored("new", "old"))
        vote(store, "new")
        with read(path), pytest.raises(StoreFailed, match="another process keeps it locked"):
            store.activate("new", b"both votes", EMPTY)
        assert store.active_share("u", "ed25519").key_id == "new"
        assert found(path, share)
        do(store)
        assert not found(path, share)


@contextmanager
def nearly_full(path, room):
    """The files may get this much longer than the longest is now."""
    size = max(file.stat().st_size for file in path.parent.glob(f"{path.name}*"))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + room, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("reader", [False, True])
def test_what_a_full_disk_has_taken_of_a_share_does_not_stay(tmp_path, monkeypatch, reader):
    """Pieces of it are in the log of writes, as far as there was room."""
    monkeypatch.setattr(databases, "BUSY_S", 0.1)
    path, share = tmp_path / "db", os.urandom(300_000)
    with crowded(path) as store:
        store.database.forget()
        put_in_force(store, "before")
        store.log_event(Kind.BEGUN, "u", "ed25519", "", "")
        with read(path) if reader else nullcontext():
            # SQLite tells a full disk from a failing one, which this limit is to it.
            monkeypatch.setattr(databases, "_may_be_written", lambda error: False)
            with nearly_full(path, 20_000), pytest.raises(StoreFailed):
                store.prepare(stored("a", share=share))
            assert "a" not in states(store)
            assert bool(found(path, share)) == reader == store.database.needs_emptying
        store.drop_orphans()
        assert not found(path, share)


def test_a_start_that_could_not_empty_the_log_leaves_it_to_the_sweep(tmp_path, monkeypatch):
    monkeypatch.setattr(databases, "BUSY_S", 0.1)
    path, share = tmp_path / "db", os.urandom(600)
    with crowded(path) as store:
        monkeypatch.setattr(store.database, "forget", lambda: None)
        put_in_force(store, "a", share=share)
        put_in_force(store, "b", "a")
        with read(path):
            started = stores.ShareStore(path)
            with pytest.raises(StoreFailed, match="another process keeps it locked"):
                started.drop_orphans()
        with closing(started):
            started.drop_orphans()
            assert not found(path, share)


def test_a_sweep_goes_on_if_a_suspension_cannot_be_written(store):
    def full():
        raise StoreFailed("db", StoreProblem.FULL)

    dropped = []
    writing = SimpleNamespace(write_pending=full, drop_orphans=dropped.append)
    context = SimpleNamespace(me=OPERATOR, store=writing, lock=RLock(), share_changes=RLock())
    SessionExpiry(context, SessionTable(float, context.lock)).sweep()
    assert dropped == [[]]


def test_sorting_leaves_nothing_in_another_folder(tmp_path):
    with closing(stores.ShareStore(tmp_path / "db")) as store:
        for connection in (store.database._reader, store.database._writer):
            assert connection.execute("PRAGMA temp_store").fetchone() == (2,)


MOVES_THE_LOG = """
import fcntl, sys, time
with open(sys.argv[1], "r+b") as index:
    fcntl.lockf(index, fcntl.LOCK_EX, 1, 121)
    print(flush=True)
    time.sleep(0.3)
"""
"""Holds SQLite's lock of who moves the log, the second in its index (sqlite.org/walformat.html)."""


def test_forgetting_waits_for_another_process_that_moves_the_log(tmp_path):
    """A service that runs does so every thousand pages. For that, SQLite itself does not wait."""
    path, share = tmp_path / "db", os.urandom(600)
    with crowded(path) as store:
        store.prepare(stored("new", share=share))
        command = [sys.executable, "-c", MOVES_THE_LOG, f"{path}-shm"]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as other:
            other.stdout.readline()
            store.drop_prepared("new")
        assert other.returncode == 0
        assert not found(path, share)


# ---------------------------------------------------------------------- after a restore


def test_a_suspension_heard_before_the_share_came_into_force_is_one_when_merged(store):
    """The other node says which keys are suspended there before anybody asks about this one."""
    store.prepare(stored("a"))
    vote(store, "a")
    store.mark_restored("yesterday", both=False)
    store.mark_suspended_at_peer({"a"})
    store.activate("a", b"both votes", EMPTY)
    said = stores.NodeStatement("u", "ed25519", None, "a", None, frozenset({"a"}), restored=False)
    for _ in range(2):
        assert store.merge(said, lambda share: None) is None
        assert store.find("a").suspended == "the other MPC node says that it is suspended"
        assert store.suspended_key_ids(10) == ["a"]
