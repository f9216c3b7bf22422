"""``mpcsim events``: the logs of two MPC nodes that have made and recovered keys."""

import asyncio
import json
import sqlite3
from contextlib import closing

import pytest

from mpcsim.cli import main
from mpcsim.service.operations.data_folder import store_file
from tests.helpers.gateway import Client, reopen

ROLES = ("operator", "institution")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A data folder that a gateway still uses."""
    folder = tmp_path_factory.mktemp("events")

    async def work(gateway):
        client = Client.of(gateway)
        await client.generate("ed25519")
        session_id, share = await client.begin_recover("ed25519")
        await client.activate(session_id, share)
        await client.post("generate", b"?")
        return share

    with closing(reopen(folder)) as gateway:
        asyncio.run(work(gateway))
        yield folder


def stores(folder, tmp_path):
    """Copies of both."""
    copies = [tmp_path / f"{role}.sqlite" for role in ROLES]
    for role, copy in zip(ROLES, copies, strict=True):
        with (
            closing(sqlite3.connect(store_file(folder, role))) as source,
            closing(sqlite3.connect(copy)) as target,
        ):
            source.backup(target)
    return copies


def told(capsys, *arguments):
    status = main(["events", *map(str, arguments)])
    return status, capsys.readouterr().out.splitlines()


@pytest.mark.parametrize("role", ROLES)
def test_a_log_tells_who_had_what_done_and_how_it_went(capsys, folder, role):
    status, lines = told(capsys, store_file(folder, role))
    assert status == 0
    assert [line.split()[2] for line in lines] == ["begun", "made", "begun", "recovered", "retired"]
    assert all(" ed25519" in line and " user " in line for line in lines)
    assert [" session " in line for line in lines] == [True] * 4 + [False]
    data = [json.loads(line) for line in told(capsys, store_file(folder, role), "--json")[1]]
    assert [each["event"] for each in data] == [line.split()[2] for line in lines]
    old = lines[1].partition("key ")[2][:64]
    new = lines[3].partition("key ")[2][:64]
    assert f"key {old} session" in lines[2], "what is recovered"
    assert lines[4].endswith(f"key {old}: replaced by {new}")


def test_a_log_that_was_cut_off(capsys, folder, tmp_path):
    cut, other = stores(folder, tmp_path)
    assert told(capsys, cut, "--verify", "--other", other)[0] == 0
    with closing(sqlite3.connect(cut)) as database, database:
        database.execute("DELETE FROM events WHERE number > 1")
    status, (line,) = told(capsys, cut, "--verify")
    assert (status, line.partition(",")[0]) == (0, "1 event")
    status, lines = told(capsys, cut, "--verify", "--other", other)
    assert status == 1
    assert lines[0].startswith("this log: it ends at event 1, but the other log has seen event 3")


@pytest.mark.parametrize("content", [None, b"", b"no database"])
def test_what_is_no_store(capsys, tmp_path, content):
    path = tmp_path / "store"
    if content is not None:
        path.write_bytes(content)
    assert main(["events", str(path)]) == 2
    assert capsys.readouterr().err.startswith(f"mpcsim events: error: {path}: ")
    assert content is None or path.read_bytes() == content
    assert content is not None or not path.exists()
