"""A deployment's folder at two moments and what its users hold, for tests of stores that differ."""

import asyncio
import shutil
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest

from mpcsim.ids import MPC_NODES, ROLES
from mpcsim.protocols.key_share import KeyShare
from mpcsim.service.operations.data_folder import store_file
from tests.helpers.gateway import Client, Failed, reopen

PARTS = ("gateway", *(ROLES[party] for party in MPC_NODES))
USERS = ("alice", "bob", "carol", "dave")


def alter_store(path, statement, *values):
    """Change a store while no service runs."""
    with closing(sqlite3.connect(path)) as database, database:
        database.execute(statement, values)


@dataclass(frozen=True)
class Past:
    """Copies of a folder at the moments ``old`` and ``new``, and ``foreign``: another deployment's.

    Between the two, alice's key was recovered, carol's was made, and dave came and made his.
    """

    folder: Path
    shares: dict[str, KeyShare]
    """Held by the users at the second moment."""
    ids: dict[str, str]

    def put(self, folder, *, links=True, **moments):
        """Put the stores into a folder, each as it was at a moment, with or without its links."""
        for role in PARTS:
            shutil.rmtree(folder / role, ignore_errors=True)
            moment = moments.get(role, "new")
            if moment == "missing":
                continue
            target = store_file(folder, role)
            target.parent.mkdir(parents=True)
            data = b""
            if moment != "empty":
                source = store_file(self.folder / moment.replace("truncated", "new"), role)
                data = source.read_bytes()
                for link in source.parent.glob("*.link") if links else ():
                    shutil.copy(link, target.parent)
            target.write_bytes(data[: len(data) // 2] if moment == "truncated" else data)

    async def able(self, gateway):
        """Users who can sign, with either MPC node."""
        found = set()
        for name in filter(gateway.gateway.registry.user_by_name, USERS):
            try:
                await Client.of(gateway, name).check_works(self.shares[name])
            except Failed:
                continue
            found.add(name)
        return found


@pytest.fixture(scope="session")
def past(tmp_path_factory):
    folder, now = tmp_path_factory.mktemp("past"), tmp_path_factory.mktemp("data")
    found = Past(folder, {}, {})

    async def live(place, *work):
        with closing(reopen(place)) as gateway:
            for verb, name in work:
                client = Client.of(gateway, name)
                found.ids[name] = await client.user_id()
                if verb != "sign up":
                    found.shares[name] = await getattr(client, verb)("ed25519")

    asyncio.run(live(now, ("generate", "alice"), ("generate", "bob"), ("sign up", "carol")))
    shutil.copytree(now, folder / "old")
    asyncio.run(live(now, ("recover", "alice"), ("generate", "carol"), ("generate", "dave")))
    shutil.copytree(now, folder / "new")
    asyncio.run(live(folder / "foreign", ("generate", "eve")))
    return found
