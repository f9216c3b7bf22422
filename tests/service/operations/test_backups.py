"""Backups as files: consistent while others write, refused unless they are what they are to be, and
put back whole or not at all."""

import os
import shutil
import sqlite3
import stat
from contextlib import closing, contextmanager
from unittest.mock import Mock

import pytest

from mpcsim.cli import main
from mpcsim.crypto.rng import SeededRng
from mpcsim.errors import UsageError
from mpcsim.service.gateway.registry import Registry
from mpcsim.service.mpc_node.events import EMPTY
from mpcsim.service.mpc_node.store import ShareStore, StoredShare
from mpcsim.service.operations import backups
from mpcsim.service.operations.backups import back_up, inspect_backup, restore
from mpcsim.service.operations.data_folder import claim_folder, prepare, store_file
from mpcsim.service.storage.database import (
    LAYOUT,
    Database,
    Deployment,
    StoreFailed,
    StoreProblem,
)
from mpcsim.service.storage.roles import PARTS

TAKEN = "2027-01-15T08:00:00+00:00"


def now():
    return 1_800_000_000.5


def prepared(key_id, user="u", share=b"s"):
    return StoredShare(key_id, user, "ed25519", b"key", share, "prepared")


def filled(store, *key_ids):
    """Shares in force, each another user's."""
    for key_id in key_ids:
        store.prepare(prepared(key_id, user=f"user of {key_id}"))
        store.vote(key_id, lambda share, head: b"vote")
        store.activate(key_id, b"record", EMPTY)


def make(data, seed=1):
    """A data folder with three stores that have something in them; the id of its deployment."""
    prepare(data, SeededRng(seed))
    (deployment,) = {i for role in PARTS for i in backups.linked_deployments(data, role)}
    for role in PARTS:
        path = store_file(data, role)
        if role == "gateway":
            with closing(Registry(path)) as store:
                store.join(Deployment(deployment, role))
                store.sign_up("alice")
        else:
            with closing(ShareStore(path)) as store:
                store.join(Deployment(deployment, role))
                filled(store, "11", "22")
    return deployment


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A deployment with a backup of each part."""
    folder = tmp_path_factory.mktemp("made")
    deployment = make(folder / "data")
    for role in PARTS:
        back_up(folder / "data", role, folder / role, now)
    return folder, deployment


@pytest.fixture
def data(made, tmp_path):
    """A copy of the deployment's folder, with one share more at each MPC node."""
    shutil.copytree(made[0] / "data", tmp_path / "data")
    for role in PARTS[1:]:
        with closing(ShareStore(store_file(tmp_path / "data", role))) as store:
            filled(store, "33")
    return tmp_path / "data"


def contents(path):
    """Every file below a folder but what belongs to nobody."""
    return {
        str(file.relative_to(path)): file.read_bytes()
        for file in path.rglob("*")
        if file.is_file() and file.name != "lock"
    }


def key_ids(path, what="key_id FROM shares"):
    with closing(sqlite3.connect(path)) as database:
        assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        return sorted(i for (i,) in database.execute(f"SELECT {what}"))


# ---------------------------------------------------------------------- making one


@pytest.mark.parametrize("role", PARTS)
def test_a_backup_says_what_it_is(made, role):
    folder, deployment = made
    found = inspect_backup(folder / role)
    assert (found.role, found.deployment, found.taken) == (role, deployment, TAKEN)
    assert found.layout == LAYOUT
    assert stat.S_IMODE((folder / role).stat().st_mode) == 0o600
    assert {path.name for path in folder.iterdir()} == {*PARTS, "data"}


@pytest.mark.parametrize("suffix", ["", ".new", ".new-journal", ".new-wal", ".new-shm", ".part"])
def test_a_backup_touches_no_file_that_is_there(made, tmp_path, suffix):
    """Whatever the files beside it are called: a backup of another part, for example."""
    beside = tmp_path / f"b{suffix}"
    beside.write_bytes(b"precious")
    if suffix:
        back_up(made[0] / "data", "gateway", tmp_path / "b", now)
    with pytest.raises(UsageError, match="is there already"):
        back_up(made[0] / "data", "operator", beside, now)
    assert beside.read_bytes() == b"precious"
    assert {path.name for path in tmp_path.iterdir()} == {beside.name, *(["b"] if suffix else [])}


@pytest.mark.parametrize("suffix", ["-wal", "-shm", "-journal", "-reserve"])
def test_no_backup_is_called_like_what_is_kept_beside_a_store(made, data, suffix):
    """It would be written to, or deleted."""
    there = store_file(data, "operator").with_name(f"operator.sqlite{suffix}")
    there.unlink(missing_ok=True)
    with pytest.raises(UsageError, match="files of their own"):
        back_up(data, "operator", there, now)
    with pytest.raises(UsageError, match="folder is its own"):
        back_up(data, "operator", data / "gateway/new", now)
    shutil.copy(made[0] / "operator", there)
    with pytest.raises(UsageError, match="files of their own"):
        restore(data, "operator", there, now)
    assert there.read_bytes() == (made[0] / "operator").read_bytes()


def test_what_a_killed_restore_left_goes_with_the_next_one(made, data):
    """It has every share of the backup in it."""
    store = store_file(data, "operator")
    for end in ("", "-journal"):
        (store.parent / f".{store.name}.abc.part{end}").write_bytes(b"shares")
    restore(data, "operator", made[0] / "operator", now)
    assert not list(store.parent.glob(".*"))


def test_what_a_killed_restore_left_goes_at_the_next_start_which_says_so(data, caplog):
    left = [data / "operator" / f".operator.sqlite.{name}.part" for name in "abcd"]
    for each in left:
        each.write_bytes(b"shares")
    with claim_folder(data / "operator"):
        assert not any(each.exists() for each in left)
    said = [f"{each}: a restore was killed" for each in left]
    assert [text.partition(" and had")[0] for text in caplog.messages] == said


def test_a_backup_has_no_share_that_nobody_has_voted_for(made, data, tmp_path):
    """Its session may be called off later: then nobody knows of this copy."""
    share = os.urandom(16_000)
    with closing(ShareStore(store_file(data, "operator"))) as store:
        store.prepare(StoredShare("a", "u", "ed25519", b"public", share, "prepared"))
        back_up(data, "operator", tmp_path / "copy", now)
        assert store.find("a")
    assert share[:1000] not in (tmp_path / "copy").read_bytes()
    assert share[-1000:] not in (tmp_path / "copy").read_bytes()
    restore(data, "operator", tmp_path / "copy", now)


def test_what_cannot_be_backed_up(made, tmp_path, monkeypatch):
    data, target = tmp_path / "data", tmp_path / "copy"
    shutil.copytree(made[0] / "data", data)

    def refused(text, role="operator"):
        with pytest.raises(UsageError, match=text):
            back_up(data, role, target, now)
        assert not list(tmp_path.glob(".copy.*"))

    target.write_bytes(b"something")
    refused("copy is there already: backups are not overwritten")
    assert target.read_bytes() == b"something"
    target.unlink()
    shutil.copy(store_file(data, "operator"), store_file(data, "institution"))
    refused("no institution has kept its data in it", "institution")
    store_file(data, "gateway").unlink()
    refused("there is no such store", "gateway")
    with closing(sqlite3.connect(store_file(data, "operator"))) as database:
        database.execute(f"PRAGMA user_version = {LAYOUT + 1}")
    refused("another version of mpcsim")
    store_file(data, "operator").write_bytes(b"?" * 4096)
    refused("operator.sqlite: file is not a database")
    assert not target.exists()

    def full(descriptor):
        raise OSError(28, "No space left on device")

    shutil.copy(store_file(made[0] / "data", "operator"), store_file(data, "operator"))
    monkeypatch.setattr(os, "fsync", full)
    refused("No space left on device")
    assert not target.exists()


# ---------------------------------------------------------------------- what is refused


def altered(source, target, change):
    """A copy that says another thing, with a digest that fits."""
    shutil.copy(source, target)
    with closing(sqlite3.connect(target, isolation_level=None)) as copy:
        copy.executescript(change)


def cut(source, target):
    target.write_bytes(source.read_bytes()[: source.stat().st_size // 2])


def flipped(source, target):
    data = bytearray(source.read_bytes())
    data[data.index(b"user of 11") + 8] ^= 1
    target.write_bytes(data)


DAMAGED = "is damaged, or has not been copied whole"
BAD = {
    "nothing": (lambda s, t: None, "there is no such file or folder"),
    "a folder": (lambda s, t: t.mkdir(), "Is a directory"),
    "empty": (lambda s, t: t.touch(), "is no backup$"),
    "text": (lambda s, t: t.write_text("no backup"), "is no backup$"),
    "a store": (
        lambda s, t: shutil.copy(store_file(s.parent / "data", "operator"), t),
        "is no backup: mpcsim backup makes one",
    ),
    "half of one": (cut, DAMAGED),
    "a letter is another": (flipped, DAMAGED),
    "a row is missing": (lambda s, t: altered(s, t, "DELETE FROM events"), DAMAGED),
    "a table is too much": (lambda s, t: altered(s, t, "CREATE TABLE more (at)"), DAMAGED),
    "a column": (lambda s, t: altered(s, t, "ALTER TABLE events RENAME curve TO c"), DAMAGED),
    "its layout is another": (
        lambda s, t: altered(s, t, f"PRAGMA user_version = {LAYOUT + 1}"),
        DAMAGED,
    ),
    "it says nothing": (lambda s, t: altered(s, t, "DELETE FROM backup"), DAMAGED),
    "another part's": (
        lambda s, t: shutil.copy(s.parent / "institution", t),
        "is a backup of the institution's store, not the operator's",
    ),
    "a newer version's": (
        lambda s, t: altered(s, t, f"UPDATE backup SET layout = {LAYOUT + 1}"),
        "was made by another version of mpcsim, which alone can read it",
    ),
    "another deployment's": (
        lambda s, t: altered(s, t, "UPDATE backup SET deployment = 'another'"),
        "is of another deployment than what is in .*operator: put back files that belong together",
    ),
}


@pytest.mark.parametrize("what", BAD)
def test_what_is_not_put_back(made, data, tmp_path, what):
    make_it, text = BAD[what]
    make_it(made[0] / "operator", tmp_path / "file")
    before = contents(data)
    with pytest.raises(UsageError, match=text):
        restore(data, "operator", tmp_path / "file", now)
    assert contents(data) == before


def test_the_present_store_alone_says_of_which_deployment_it_is(made, data, tmp_path):
    """Its link may be gone."""
    (data / "operator/gateway.link").unlink()
    make(tmp_path / "other", seed=2)
    back_up(tmp_path / "other", "operator", tmp_path / "file", now)
    with pytest.raises(UsageError, match="is of another deployment"):
        restore(data, "operator", tmp_path / "file", now)
    restore(data, "operator", made[0] / "operator", now)


def test_on_the_command_line(made, data, tmp_path, capsys):
    file, at = tmp_path / "operator.backup", ["--data", str(data)]
    assert main(["backup", "--part", "operator", str(file), *at]) == 0
    said = capsys.readouterr().out
    assert said.startswith(f"{file}: the operator's store as of 20")
    assert said.endswith("; keep it as secret as that\n")
    assert main(["restore", "--part", "operator", str(file), *at]) == 0
    first, second, third = capsys.readouterr().out.splitlines()
    assert first.startswith("the operator's store is that of 20")
    assert second.endswith(": delete it once all is well, it holds secrets")
    assert third == "each key is served again once the institution has been heard about it"
    gateway = made[0] / "gateway"
    assert main(["restore", "--part", "gateway", str(gateway), *at]) == 0
    assert "institution" not in capsys.readouterr().out
    for arguments, text in (
        (["operator", str(gateway)], f"{gateway} is a backup of the gateway's store, "),
        (["gateway", str(gateway), "--other-restored-too"], "--other-restored-too is "),
    ):
        assert main(["restore", "--part", *arguments, *at]) == 2
        assert capsys.readouterr().err.startswith(f"mpcsim restore: error: {text}")


def test_a_service_that_runs_is_left_alone(made, data):
    before = contents(data)
    with (
        claim_folder(data / "operator"),
        pytest.raises(UsageError, match="another service keeps its data in"),
    ):
        restore(data, "operator", made[0] / "operator", now)
    assert contents(data) == before


@pytest.mark.parametrize(
    ("layout", "said"),
    [(LAYOUT + 1, "it was written by another version of mpcsim"), (0, "not a store of this kind")],
)
def test_a_store_of_another_version_is_not_opened(tmp_path, layout, said):
    Database(tmp_path / "db", "").close()
    with closing(sqlite3.connect(tmp_path / "db")) as database:
        assert database.execute("PRAGMA user_version").fetchone() == (LAYOUT,)
        database.execute(f"PRAGMA user_version = {layout}")
    with pytest.raises(UsageError, match=said):
        ShareStore(tmp_path / "db")


# ---------------------------------------------------------------------- putting it back


def test_the_store_that_was_there_stays_beside_it(made, data):
    store = store_file(data, "operator")
    first = restore(data, "operator", made[0] / "operator", now)
    assert first.aside == store.with_name("operator.sqlite.before-restore-20270115T080000Z")
    assert key_ids(store) == ["11", "22"]
    assert key_ids(first.aside) == ["11", "22", "33"]
    second = restore(data, "operator", made[0] / "operator", now)
    assert second.aside == first.aside.with_name(f"{first.aside.name}-2")
    for path in (store, first.aside, second.aside):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with closing(sqlite3.connect(store)) as database:
        assert not database.execute("SELECT 1 FROM sqlite_master WHERE name = 'backup'").fetchall()
        assert database.execute("SELECT DISTINCT unmerged FROM shares").fetchall() == [(1,)]
        kinds = [k for (k,) in database.execute("SELECT event FROM events ORDER BY number")]
        assert kinds == ["made", "made", "restored"]


def test_it_is_put_back_where_nothing_is(made, data):
    shutil.rmtree(data / "operator")
    shutil.copy(data / "gateway/operator.link", data / "link")
    assert restore(data, "operator", made[0] / "operator", now).aside is None
    assert key_ids(store_file(data, "operator")) == ["11", "22"]


@pytest.mark.parametrize("log", [b"", b"not a log of writes"])
def test_a_damaged_store_makes_room(made, data, log):
    store = store_file(data, "operator")
    store.write_bytes(b"SQLite format 3\0" + bytes(5000))
    store.with_name("operator.sqlite-wal").write_bytes(log)
    aside = restore(data, "operator", made[0] / "operator", now).aside
    assert key_ids(store) == ["11", "22"]
    assert aside.read_bytes().startswith(b"SQLite format 3\0\0\0")
    kept = aside.with_name(f"{aside.name}-wal")
    assert (kept.read_bytes() if kept.exists() else b"") == log


@contextmanager
def suspending(data):
    """A service that has just suspended a key, while it runs: its log of writes says so alone."""
    store = store_file(data, "operator")
    with closing(ShareStore(store)) as running:
        filled(running, "44")
        with running._database.transaction() as cursor:
            cursor.execute("UPDATE shares SET suspended = 'caught' WHERE key_id = '44'")
        yield store


def test_what_a_killed_service_had_written_last_is_kept(made, data):
    """It is in the log of writes alone, and must neither be lost nor get into what is put back."""
    with suspending(data):
        shutil.copytree(data, data.with_name("killed"))
    data = data.with_name("killed")
    assert (data / "operator/operator.sqlite-wal").stat().st_size
    aside = restore(data, "operator", made[0] / "operator", now).aside
    assert key_ids(store_file(data, "operator")) == ["11", "22"]
    with closing(sqlite3.connect(aside)) as database:
        rows = database.execute("SELECT suspended FROM shares WHERE key_id = '44'").fetchall()
    assert rows == [("caught",)]


def test_a_log_of_writes_that_has_lost_its_store_is_not_taken_for_the_new_ones(made, data):
    with suspending(data) as store:
        log = store.with_name("operator.sqlite-wal").read_bytes()
    assert log
    store.unlink()
    store.with_name("operator.sqlite-wal").write_bytes(log)
    assert restore(data, "operator", made[0] / "operator", now).aside is None
    assert key_ids(store) == ["11", "22"]


def test_a_store_that_somebody_reads_stays(made, data):
    """What it has not written into the file itself yet would be lost."""
    store = store_file(data, "operator")
    with closing(sqlite3.connect(store, isolation_level=None)) as reading:
        reading.execute("BEGIN")
        reading.execute("SELECT * FROM shares").fetchall()
        with closing(sqlite3.connect(store)) as writing:
            writing.execute("UPDATE shares SET suspended = 'caught'")
            writing.commit()
            before = {path.name for path in store.parent.iterdir()}
            with pytest.raises(UsageError, match="another process reads it"):
                restore(data, "operator", made[0] / "operator", now)
            assert {path.name for path in store.parent.iterdir()} == before
    assert set(key_ids(store, "suspended FROM shares")) == {"caught"}


def test_tokens_of_before_hold_no_more(made, data):
    """The backup's key may be one that has leaked since."""
    store = store_file(data, "gateway")
    with closing(Registry(store)) as registry:
        key = registry.signing_key()
    restore(data, "gateway", made[0] / "gateway", now)
    with closing(Registry(store)) as registry:
        assert registry.signing_key() != key
    assert key.encode() not in store.read_bytes()


STEPS = [(os, "link"), (os, "rename"), (os, "fsync"), (os, "unlink"), (shutil, "copyfileobj")]


def killed_at(n, work):
    """Do something in a process that is gone at its n-th step, before or after it; whether it was
    through by then."""
    if child := os.fork():
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        assert status in (0, 9)
        return status == 0
    steps, status = 0, 1

    def counted(original):
        def step(*arguments, **options):
            nonlocal steps
            steps += 1
            if steps == n:
                os._exit(9)
            return original(*arguments, **options)

        return step

    try:
        for module, name in STEPS:
            setattr(module, name, counted(getattr(module, name)))
        work()
        status = 0
    finally:
        os._exit(status)


@pytest.mark.soak
def test_a_crash_at_any_point_leaves_the_old_or_the_new_whole(made, data):
    """And the next attempt puts it back."""
    there, outcomes = data.with_name("crashed"), []
    path = store_file(there, "operator")

    def work():
        restore(there, "operator", made[0] / "operator", now)

    for n in range(1, 100):
        shutil.copytree(data, there)
        through = killed_at(n, work)
        restored = "restored" in key_ids(path, "event FROM events")
        assert key_ids(path) == (["11", "22"] if restored else ["11", "22", "33"])
        outcomes.append(restored)
        work()
        assert key_ids(path) == ["11", "22"]
        shutil.rmtree(there)
        if through:
            break
    assert outcomes == sorted(outcomes)  # first the old one, then the new one
    assert set(outcomes) == {False, True}
    assert len(outcomes) > 5


WRONG = "Input/output error"
FAILING = [
    *((os, name, OSError(5, WRONG)) for name in ("link", "rename", "fsync")),
    (backups, "_empty_log", sqlite3.OperationalError(WRONG)),
    (backups.ShareStore, "mark_restored", StoreFailed("it", StoreProblem.OUT_OF_REACH, WRONG)),
]


@pytest.mark.parametrize(("where", "name", "failure"), FAILING)
def test_a_disk_that_fails_leaves_everything_as_it_was(
    made, data, monkeypatch, where, name, failure
):
    before = contents(data)
    with monkeypatch.context() as patch:
        patch.setattr(where, name, Mock(side_effect=failure))
        with pytest.raises(UsageError, match=WRONG):
            restore(data, "operator", made[0] / "operator", now)
    assert contents(data) == before
