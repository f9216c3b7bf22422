"""No file in a data folder has anything of a share that was dropped, whatever has happened."""

import os
import random
import resource
import shutil
import sqlite3
from contextlib import ExitStack, contextmanager, suppress
from itertools import count

import pytest

from mpcsim.errors import MpcError
from mpcsim.service.mpc_node.events import EMPTY
from mpcsim.service.mpc_node.store import ShareStore, StoredShare
from mpcsim.service.operations.backups import back_up, restore
from mpcsim.service.operations.data_folder import claim_folder, store_file
from mpcsim.service.storage import database as databases
from mpcsim.service.storage.database import Deployment

ROLE, NOW = "operator", 1_800_000_000.0


class Killed(BaseException):
    """The process ends here."""


@contextmanager
def files_up_to(size):
    """A disk that has no room for a longer file."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


class History:
    """A store to which things happen, and every share that it was ever given."""

    def __init__(self, folder, random):
        self.random, self.names = random, count()
        self.folders = (folder / str(n) for n in count())
        self.data, self.shares, self.reader = next(self.folders), {}, None
        self._open()
        self.store.join(Deployment("d" * 32, ROLE))

    def _open(self):
        with claim_folder(self.data / ROLE):
            self.store = ShareStore(store_file(self.data, ROLE), lambda: NOW)
        self.store.drop_orphans()

    def share(self):
        return os.urandom(self.random.choice([600, 16_000, 60_000]))

    def make(self):
        key_id, active = f"{next(self.names):064x}", self.store.active_share("u", "ed25519")
        self.shares[key_id] = share = self.share()
        replaced = active and active.key_id
        made = StoredShare(key_id, "u", "ed25519", b"key", share, "prepared", predecessor=replaced)
        self.store.prepare(made)
        end = self.random.choice([self._activate, self._abort, self._drop, lambda key_id: None])
        end(key_id)

    def _activate(self, key_id):
        self.store.vote(key_id, lambda share, head: b"vote")
        self.store.activate(key_id, b"record", EMPTY)

    def _abort(self, key_id):
        self.store.abort("u", "ed25519", key_id)

    def _drop(self, key_id):
        self.store.drop("u", "ed25519", key_id)

    def suspend(self):
        if active := self.store.active_share("u", "ed25519"):
            self.shares[f"kept {next(self.names)}"] = kept = self.share()
            self.store.suspend(active.key_id, "why", kept)

    def sweep(self):
        self.store.drop_orphans()

    def full_disk(self):
        longest = max(f.stat().st_size for f in (self.data / ROLE).iterdir())
        with files_up_to(longest + self.random.randrange(40_000)):
            self.random.choice([self.make, self.suspend, self.sweep])()

    def read(self):
        self.read_no_more()
        self.reader = sqlite3.connect(store_file(self.data, ROLE))
        self.reader.execute("BEGIN")
        self.reader.execute("SELECT * FROM shares").fetchone()

    def read_no_more(self):
        if self.reader is not None:
            self.reader.close()
            self.reader = None

    def killed(self):
        """Between a change and what follows it; what it leaves is what the next start finds."""

        def end():
            raise Killed

        self.store.database.forget = end
        with suppress(Killed, MpcError):
            self.random.choice([self.make, self.suspend, self.sweep])()
        before, self.data = self.data, next(self.folders)
        shutil.copytree(before, self.data)
        self.read_no_more()
        self.store.close()
        shutil.rmtree(before)
        self._open()

    def restored(self):
        """From a backup that has no share which nobody has voted for; a first try was killed."""
        backup = self.data / "backup"
        back_up(self.data, ROLE, backup, lambda: NOW)
        prepared = [h.key_id for h in self.store.share_inventory("", 100) if h.state == "prepared"]
        assert not self.left([self.shares[key_id] for key_id in prepared], [backup])
        self.read_no_more()
        self.store.close()
        try:
            restore(self.data, ROLE, backup, lambda: NOW)
            (aside,) = (self.data / ROLE).glob("*.before-restore-*")
            aside.unlink()
            shutil.copy(backup, self.data / ROLE / f".{ROLE}.sqlite.x.part")
        finally:
            backup.unlink()
            self._open()

    def left(self, shares, files):
        """Which of some files have a piece of which shares."""
        read = {file: file.read_bytes() for file in files if file.is_file()}
        return [
            (file.name, share[:4].hex())
            for share in shares
            for at in range(0, len(share) - 15, 1000)
            for file, data in read.items()
            if share[at : at + 16] in data
        ]

    def check(self, folder):
        """After one sweep that could do what it is for."""
        self.read_no_more()
        self.store.drop_orphans()
        here = {row for (row,) in self.store.database.rows("SELECT share FROM shares")}
        gone = [share for share in self.shares.values() if share not in here]
        assert not self.left(gone, folder.rglob("*"))


@pytest.mark.few(2)
@pytest.mark.parametrize("seed", range(200))
def test_nothing_is_left_of_dropped_shares(tmp_path, monkeypatch, seed):
    monkeypatch.setattr(databases, "BUSY_S", 0.02)
    history = History(tmp_path, random.Random(seed))
    steps = [history.suspend, history.sweep, history.read, history.killed, history.restored]
    steps += [history.make] * 6 + [history.full_disk] * 3 + [history.read_no_more] * 2
    with ExitStack() as ends:
        ends.callback(lambda: history.store.close())
        for _ in range(25):
            with suppress(MpcError):
                history.random.choice(steps)()
        history.check(tmp_path)
