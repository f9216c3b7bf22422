"""Any one store put back as it was at any earlier moment: nothing retired or suspended signs again,
whoever can be helped is helped, whoever cannot is told so, and no key is lost.

Random histories of a whole service with files, beside a model that counts: for each key, which of
the shares ever handed out may be in force, and which are suspended.
"""

import asyncio
import os
import random
import time
from collections import namedtuple
from contextlib import closing, suppress
from copy import deepcopy
from dataclasses import dataclass, field

import pytest

from mpcsim.crypto.rng import SystemRng
from mpcsim.ids import MPC_NODES, ROLES
from mpcsim.service.errors import Refused, node_unreachable
from mpcsim.service.gateway.activation import suspensions
from mpcsim.service.gateway.registry import Registry
from mpcsim.service.operations.backups import back_up, restore
from mpcsim.service.operations.data_folder import store_file
from mpcsim.service.operations.doctor import Doctor
from mpcsim.service.storage.database import Database
from mpcsim.service.storage.roles import PARTS, REGISTRY
from tests.helpers.gateway import Client, Failed, Stuck, ask_node, delivered, nodes_alone, reopen

NEW = "dave", "ed25519"
"""Nobody has it before a store was put back for good."""
KEYS = (("alice", "ed25519"), ("bob", "ed25519"), ("carol", "ed25519"), ("carol", "secp256k1"))
STEPS = 16
"""Of a history, about."""
FEW, MANY = 5, 50
STUCK = {"store-older", "at-odds", "unmerged"}
"""What keeps a key from signing."""


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """What is written survives the end of a process; only a power cut would be another matter."""
    original = Database.__init__

    def opened(database, *arguments):
        original(database, *arguments)
        database._writer.execute("PRAGMA synchronous = OFF")

    monkeypatch.setattr(Database, "__init__", opened)
    monkeypatch.setattr(suspensions, "FIRST_RETRY_S", 0.01)


# ---------------------------------------------------------------------- the model


@dataclass
class Key:
    """What must be true of a user's key on a curve. Shares are numbered as they are handed out."""

    handed: int = 0
    possible: set = field(default_factory=lambda: {None})
    """Which may be in force; None: none. More than one after something was cut off."""
    suspended: set = field(default_factory=set)

    def made(self, number):
        self.possible = {number}

    def cut_off(self, number):
        self.possible |= {number}

    @property
    def present(self):
        """The one that must be in force, if it is certain which."""
        (one, *others) = self.possible
        return None if others else one

    @property
    def forbidden(self):
        """Those that must never sign."""
        return {n for n in range(self.handed) if n not in self.possible} | self.suspended

    def same_since(self, then):
        """Whether nothing has come into force since then, for certain."""
        return len(self.possible) == 1 and then is not None and then.possible == self.possible

    def gone_since(self, then):
        """Whether something has come into force that was not there then, for certain."""
        before = {None} if then is None else then.possible
        return self.present is not None and self.present not in before


# ---------------------------------------------------------------------- the service


Backup = namedtuple("Backup", "part path keys")
"""``keys``: the model, as it was."""


class History:
    """A service that lives, is cut off, is backed up and put back."""

    def __init__(self, folder, seed):
        self.random = random.Random(f"histories {seed}")
        self.weights = (6, 6, 6, 0 if seed < FEW else 1)
        """Of the keys: with one of them, everything takes longer."""
        self.folder, self.data = folder, folder / "data"
        self.keys = {}
        self.shares = {}
        """Share ``number`` of a key."""
        self.backups = []
        self.said = []
        """What happened, for whoever reads a failure."""
        self.user_ids = {}
        """By name."""
        self.gateway = reopen(self.data)

    async def stop(self):
        await self.gateway.gateway.suspensions.stop()
        self.gateway.close()

    async def restart(self):
        await self.stop()
        self.gateway = reopen(self.data)

    def client(self, name):
        return Client.of(self.gateway, name)

    def backup(self, part):
        """A copy of a store while it is used."""
        path = self.folder / f"backup {len(self.backups)}"
        back_up(self.data, part, path, time.time)
        self.said.append(f"backup {len(self.backups)} of the {part}")
        self.backups.append(Backup(part, path, deepcopy(self.keys)))

    # ------------------------------------------------------------------ what happens

    async def step(self):
        name, curve = self.random.choices(KEYS, self.weights)[0]
        if name not in self.user_ids:
            self.user_ids[name] = await self.client(name).user_id()
        at = name, curve
        key = self.keys.setdefault(at, Key())
        what = self.random.choices(
            ["make", "cut", "sign", "suspend", "restart", "backup"], [4, 4, 1, 3, 2, 4]
        )[0]
        self.said.append(f"{what} {name}")
        if what == "make":
            await self.make(at, key)
        elif what == "cut":
            await self.make_and_be_cut_off(at, key)
        elif what == "sign" and key.present is not None:
            await self.check_signs(at, key.present, key.present not in key.suspended)
        elif what == "suspend" and key.present is not None and not key.suspended:
            await self.suspend(at, key)
        elif what == "restart":
            await self.restart()
        elif what == "backup":
            self.backup(self.random.choice(PARTS))

    async def make(self, at, key):
        """A key, or a recovery of it; which is possible whatever happened before."""
        name, curve = at
        client = self.client(name)
        if curve not in await client.key_ids():
            with suppress(Failed, Stuck):
                self.take(at, key, await client.generate(curve))
                key.made(key.handed - 1)
                return
            await self.restart()
        if curve not in await self.client(name).key_ids():
            share = await self.client(name).generate(curve)
        else:
            try:
                share = await self.client(name).recover(curve)
            except (Failed, Stuck):  # what was cut off before keeps it busy
                await self.restart()
                share = await self.client(name).recover(curve)
        self.take(at, key, share)
        key.made(key.handed - 1)

    def take(self, at, key, share):
        self.shares[at, key.handed] = share
        key.handed += 1

    async def make_and_be_cut_off(self, at, key):
        """After a random number of requests that MPC nodes answer, all others are lost; and there
        may be a backup at that moment."""
        name, curve = at
        client, left = self.client(name), self.random.randrange(16)
        part = self.random.choice([*PARTS, None])
        originals = {party: link.port.handle for party, link in self.gateway.links.items()}

        def losing(party):
            async def handle(verb, *rest):
                nonlocal left, part
                if verb in ("standing", "testify"):
                    return await originals[party](verb, *rest)
                left -= 1
                if left < 0:
                    if part is not None:
                        self.backup(part)
                    part = None
                    raise node_unreachable(party)
                return await originals[party](verb, *rest)

            return handle

        for party, link in self.gateway.links.items():
            link.port.handle = losing(party)
        begin = client.begin_recover if curve in await client.key_ids() else client.begin_generate
        try:
            session_id, share = await begin(curve)
            self.take(at, key, share)
            key.cut_off(key.handed - 1)  # before it is asked for: a backup may fall between
            await client.activate(session_id, share)
            key.made(key.handed - 1)
        except (Failed, Stuck):
            self.said.append("it was cut off")
        finally:
            for party, link in self.gateway.links.items():
                link.port.handle = originals[party]
        if self.random.random() < 0.5:
            await self.restart()

    async def suspend(self, at, key):
        name, _ = at
        share = self.shares[at, key.present]
        body = await self.client(name).suspension(share)
        await self.client(name).ask("suspend", body)
        await delivered(self.gateway)
        key.suspended.add(key.present)

    async def put_back(self, part, path):
        """Restore a backup; where the store is that was there."""
        clients = {name: self.client(name) for name, _ in dict(self.known())}
        await self.stop()
        aside = restore(self.data, part, path, time.time).aside
        with nodes_alone(self.data) as links:  # before a gateway has seen to anything
            for at, key in self.keys.items():
                if at[0] in clients:
                    await self.check_nodes_refuse(at, key, links, clients[at[0]])
        self.gateway = reopen(self.data)
        return aside

    async def put_aside_back(self, part, aside):
        """The store that had been put aside, just as it was."""
        await self.stop()
        os.replace(aside, store_file(self.data, part))
        self.gateway = reopen(self.data)

    # ------------------------------------------------------------------ what must be true

    async def able(self, at, number):
        """With which MPC nodes a share signs."""
        found = set()
        for party in MPC_NODES:
            with suppress(Failed):
                await self.client(at[0]).sign(self.shares[at, number], signer=party)
                found.add(party)
        return found

    async def check_signs(self, at, number, hoped=True):
        assert await self.able(at, number) == (set(MPC_NODES) if hoped else set()), number

    async def check_forbidden(self, at, key):
        """What is retired or suspended signs neither through the gateway nor at MPC nodes that are
        asked as by a gateway that looks at nothing."""
        client = self.client(at[0])
        for number in key.forbidden:
            await self.check_signs(at, number, hoped=False)
        await self.check_nodes_refuse(at, key, self.gateway.links, client)

    async def check_nodes_refuse(self, at, key, links, client):
        hellos = {party: await link.hello(fresh=True) for party, link in links.items()}
        client.hellos = lambda: hellos
        for number in key.forbidden:
            for party, link in links.items():
                _, request = client.begin_sign(self.shares[at, number], signer=party)
                with pytest.raises(Refused):
                    ask_node(link, "sign", self.user_ids[at[0]], request)

    async def check_open(self, at, key):
        """Where it is not certain what is in force: one thing is."""
        able = [await self.able(at, number) for number in key.possible - {None}]
        signing = [parties for parties in able if parties]
        assert signing in ([], [set(MPC_NODES)]), signing
        if None not in key.possible and not key.suspended:
            assert signing

    async def doctor(self, repair=False):
        """What is the matter with each key, by user and curve."""
        names = {user_id: name for name, user_id in self.user_ids.items()}
        with closing(Registry(store_file(self.data, REGISTRY))) as registry:
            doctor = Doctor(registry, self.gateway.links, rng=SystemRng(), pause_s=0)
            await doctor.begin()
            if repair:
                held = {user_id for user_id, _ in doctor.keys}
                doctor.sign_up({user_id: names[user_id] for user_id in held})
            found = [each.finding async for each in doctor.examine(repair=repair)]
        return {
            (names[finding.user_id], finding.curve): {t.kind.value for t in finding.problems}
            for finding in found
        }

    async def end(self):
        """One store is put back as it was at an earlier moment; then as it was last."""
        then = self.random.choice(self.backups)
        newest = self.folder / "newest"
        back_up(self.data, then.part, newest, time.time)
        self.said.append(f"backup {self.backups.index(then)} of the {then.part} is put back")
        aside = await self.put_back(then.part, then.path)
        await self.doctor()
        told = await self.doctor(repair=True)
        assert await self.doctor() == told
        for at, key in self.known():
            await self.check_forbidden(at, key)
            await self.check_helped_or_told(at, key, then, told.get(at, set()))

        for restoring in (False, True):
            if restoring:
                self.said.append("the newest is put back")
                await self.put_back(then.part, newest)
            else:
                self.said.append("what was aside is put back")
                await self.put_aside_back(then.part, aside)
            told = await self.doctor(repair=True)
            for at, key in self.known():
                await self.check_forbidden(at, key)
                await self.check_whole(at, key, told.get(at, set()), restoring)
        await self.end_in_a_restored_one()

    async def end_in_a_restored_one(self):
        """No key is blocked for ever, whatever is cut off now."""
        self.user_ids[NEW[0]] = await self.client(NEW[0]).user_id()
        self.keys[NEW] = Key()
        for at, key in list(self.known()):
            before = key.present
            for _ in range(self.random.randrange(3)):
                await self.make_and_be_cut_off(at, key)
            await self.make(at, key)
            await self.check_signs(at, key.present)
            await self.check_forbidden(at, key)
            if before is not None:
                assert self.shares[at, before].public_key == self.shares[at, key.present].public_key

    async def check_whole(self, at, key, told, restored):
        """Everything signs again. Only a store that may have forgotten votes, as far as it can
        tell, leaves what was cut off to a recovery."""
        if key.present is not None:
            suspended = key.present in key.suspended
            assert told == ({"suspended"} if suspended else set())
            await self.check_signs(at, key.present, not suspended)
        elif not (restored and "unmerged" in told):
            assert not told & STUCK
            await self.check_open(at, key)

    def known(self):
        """Keys of users whom the gateway knows."""
        registry = self.gateway.gateway.registry
        for at, key in self.keys.items():
            if registry.user_by_name(at[0]) is not None:
                yield at, key
            else:
                assert None in key.possible, "the user was not signed up again"

    async def check_helped_or_told(self, at, key, then, told):
        """Whoever can be helped has been helped, whoever cannot is told so."""
        if key.present is None:
            if not told & STUCK:
                await self.check_open(at, key)
            return
        suspended = key.present in key.suspended
        was = then.keys.get(at)
        if then.part == REGISTRY or key.same_since(was):
            assert told == ({"suspended"} if suspended else set())
        elif key.gone_since(was):
            assert "store-older" in told
        if told & STUCK:
            parties = {party for party in MPC_NODES if ROLES[party] == then.part}
            assert not await self.able(at, key.present) & parties
        else:
            await self.check_signs(at, key.present, hoped=not suspended)


def play(folder, seed):
    async def whole():
        history = History(folder, seed)
        try:
            while len(history.said) < STEPS or not history.backups:
                await history.step()
            await history.end()
        except BaseException as error:
            error.add_note("\n".join(history.said))
            raise
        finally:
            await history.stop()

    asyncio.run(whole())


@pytest.mark.few(2)
@pytest.mark.parametrize("seed", range(FEW))
def test_a_few_histories(tmp_path, seed):
    play(tmp_path, seed)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(FEW, MANY))
def test_many_histories(tmp_path, seed):
    play(tmp_path, seed)
