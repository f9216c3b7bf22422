"""Bytes of a store are altered while nothing runs: the gateway says so, and whoever puts the file
back has lost nothing."""

import asyncio
import re
import shutil
import sqlite3
from contextlib import contextmanager

import pytest

from tests.campaign.callers import crowd
from tests.campaign.model import Violation
from tests.campaign.service import BACKEND, Unclean, seeded, service

pytestmark = [pytest.mark.soak, pytest.mark.timeout(1200)]

PAGE = 4096
COLUMNS = 5
"""Of a store, with their values altered."""
WRONG = "NOT AS IT SHOULD BE: "
STORES = [f"{name}/{name}.sqlite" for name in ("gateway", "operator", "institution")]


def altered(data, rng, begin, length):
    """Other bytes in one place."""
    part = bytes(byte ^ rng.randrange(1, 256) for byte in data[begin : begin + length])
    return data[:begin] + part + data[begin + length :]


def damages(store, rng):
    """Ways to damage a file, with their names."""
    data = store.read_bytes()
    yield "empty", b""
    yield "half of it", data[: len(data) // 2]
    yield "a page less", data[:-PAGE]
    yield "a byte less", data[:-1]
    yield "its head", altered(data, rng, 0, 100)
    for length in (1, 100, PAGE):
        begin = rng.randrange(len(data) - length)
        yield f"{length} bytes at {begin}", altered(data, rng, begin, length)
    known = list(values(store))
    for what, value in rng.sample(known, min(COLUMNS, len(known))):
        end = data.rindex(value) + len(value)
        yield f"a bit of {what}", data[: end - 1] + bytes([data[end - 1] ^ 1]) + data[end:]


def values(store):
    """How the last value of every column begins: 16 bytes are in one piece."""
    database = sqlite3.connect(store)
    tables = database.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall()
    for (table,) in tables:
        found = database.execute(f"SELECT * FROM {table} ORDER BY rowid DESC LIMIT 1")
        for row in found:
            for (column, *_), value in zip(found.description, row, strict=True):
                if isinstance(value, str | bytes):
                    raw = value if isinstance(value, bytes) else value.encode()
                    yield f"{table}.{column}", raw[:16]
    database.close()


@pytest.mark.parametrize("store", STORES)
def test_damaged(tmp_path, store):
    rng = seeded(store)

    async def campaign():
        async with crowd(served, rng) as people:
            await settle_in(people)
            for each in STORES:
                write_out(served.data / each)
            shutil.copytree(served.data, kept)
            for what, data in damages(kept / store, rng):
                (served.data / store).write_bytes(data)
                report(what, await with_damage(people, kept, store))
            served.start(*BACKEND)
            await people.check(anew=True)

    kept = tmp_path / "kept"
    with service(tmp_path) as served, reports() as report:
        asyncio.run(campaign())


@contextmanager
def reports():
    """Takes what came of each damage; in the end, none may have gone wrong."""
    wrong = []

    def report(damage, outcome):
        print(f"{damage}: {outcome}")
        if outcome.startswith(WRONG):
            wrong.append(f"{damage}: {outcome}")

    yield report
    assert not wrong, "\n".join(wrong)


async def settle_in(people):
    """Keys on both curves, recovered; and nothing runs that writes."""
    people.join("ed25519", 2)
    people.join("secp256k1", 1)
    await people.check()
    await people.check(anew=True)
    people.service.kill(*BACKEND)


async def with_damage(people, kept, store):
    """Its service refuses to start, or says what is wrong; or nothing is. Then the store is put
    back, and nothing is lost."""
    service, owner = people.service, store.partition("/")[0]
    place = BACKEND.index(owner)
    before = {name: len(service.log(name)) for name in BACKEND}
    service.start(*BACKEND[:place])
    try:
        refusal = service.refusal(owner)
    except Unclean as unclean:
        refusal = f"{WRONG}{unclean}"
    outcome = refusal or ""
    if refusal is None:
        service.start(*BACKEND[place + 1 :])
        whole = await asyncio.gather(*map(intact, people.callers))
        broken = [c.key.user for c, well in zip(people.callers, whole, strict=True) if not well]
        service.kill(*BACKEND)
        said = "".join(service.log(name)[before[name] :] for name in BACKEND)
        errors = re.findall(r"^[\d:]+ ERROR .*", said, re.MULTILINE)
        outcome = f"works, {len(errors)} errors logged"
        if broken:
            outcome = f"broken for {broken}: {errors[0]}" if errors else f"{WRONG}{broken} broken"
        put_back(service.data, kept, store)
        service.start(*BACKEND)
        await people.check()
        service.kill(*BACKEND)
    else:
        service.kill(*BACKEND[:place])
    put_back(service.data, kept, store)
    return outcome


async def intact(caller):
    """Whether a key is registered as it was, and signs; if it signs, then rightly."""
    *_, share = caller.key.shares.values()
    answer = await caller.call("GET", "/key")
    assert answer is not None
    try:
        known = answer.is_success and caller.key.registered(caller.of_curve(answer)) == share
    except Violation:
        known = False
    signed = [await caller.sign(share, signer) for signer in ("operator", "institution")]
    assert None not in signed
    return known and all(answer.is_success for answer in signed)


def write_out(store):
    """Nothing is left in its log."""
    database = sqlite3.connect(store)
    database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    database.close()


def put_back(folder, kept, store):
    """A store as it was."""
    for file in folder.glob(store + "*"):
        file.unlink()
    for file in kept.glob(store + "*"):
        shutil.copy(file, folder / file.parent.name)
