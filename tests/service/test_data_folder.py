"""The data folder: stores of earlier versions move to their places, and links are made once."""

import asyncio
import logging
import os
import shutil
import stat
from contextlib import closing

import pytest

from mpcsim.errors import UsageError
from mpcsim.ids import INSTITUTION, MPC_NODES, OPERATOR, ROLES
from mpcsim.rng import SystemRng
from mpcsim.rpc.database import REGISTRY, file_of
from mpcsim.service import data_folder
from mpcsim.service.data_folder import claimed, link_file, prepare, read_link
from tests.helpers.gateway import Client, reopen

SERVICES = ("gateway", "operator", "institution")
LINKS = [(REGISTRY, party) for party in MPC_NODES] + [(ROLES[party], party) for party in MPC_NODES]


def links(folder):
    return {at: read_link(folder, *at) for at in LINKS}


@pytest.fixture(scope="module")
def earlier(tmp_path_factory):
    """A folder as earlier versions left it when they were killed, and a share of its user's."""
    folder, old = tmp_path_factory.mktemp("data"), tmp_path_factory.mktemp("earlier")

    async def work():
        with closing(reopen(folder)) as gateway:
            share = await Client.of(gateway).generate("ed25519")
            for name in SERVICES:  # the logs of writes are not empty
                for path in (folder / name).glob(f"{file_of(name)}*"):
                    shutil.copy(path, old)
            return share

    share = asyncio.run(work())
    assert (old / "gateway.sqlite-wal").stat().st_size
    return old, share


def check(folder, share):
    async def work():
        with closing(reopen(folder)) as gateway:
            await Client.of(gateway).check_works(share)

    asyncio.run(work())


# ---------------------------------------------------------------------- stores of earlier versions


def test_stores_of_an_earlier_version_move(tmp_path, earlier, caplog):
    caplog.set_level(logging.INFO)
    data = tmp_path / "data"
    shutil.copytree(earlier[0], data)
    for _ in range(2):
        check(data, earlier[1])
    assert not list(data.glob("*.sqlite*"))
    (line,) = [r.getMessage() for r in caplog.records if r.name == data_folder.__name__]
    assert line == (
        f"moved in {data}: gateway.sqlite to gateway/, operator.sqlite to operator/, "
        "institution.sqlite to institution/"
    )


def test_a_move_that_is_cut_off_anywhere_is_gone_on_with(tmp_path, earlier, monkeypatch):
    """Whatever has been renamed when the process is gone: nothing is lost."""
    rename, left = os.rename, 0

    def renaming(old, new):
        nonlocal left
        if not left:
            raise KeyboardInterrupt
        left -= 1
        rename(old, new)

    monkeypatch.setattr(data_folder.os, "rename", renaming)
    for moves in range(20):
        data, left = tmp_path / str(moves), moves
        shutil.copytree(earlier[0], data)
        try:
            prepare(data, SystemRng())
        except KeyboardInterrupt:
            left = 1000
            check(data, earlier[1])
            assert len({secret.deployment for secret in links(data).values()}) == 1
        else:
            break
    assert moves > 9  # three files each, and the links


def test_two_stores_for_one_place_are_refused(tmp_path, earlier):
    shutil.copytree(earlier[0], tmp_path, dirs_exist_ok=True)
    (tmp_path / "operator").mkdir()
    shutil.copy(earlier[0] / "operator.sqlite", tmp_path / "operator")
    said = r"operator.sqlite and .*operator/operator.sqlite: remove the one that is not to be used$"
    with pytest.raises(UsageError, match=said):
        reopen(tmp_path)
    assert (tmp_path / "gateway.sqlite").exists()
    (tmp_path / "operator" / "operator.sqlite").unlink()
    check(tmp_path, earlier[1])


def test_stores_that_an_earlier_version_uses_stay_where_they_are(tmp_path, earlier):
    shutil.copytree(earlier[0], tmp_path, dirs_exist_ok=True)
    with claimed(tmp_path), pytest.raises(UsageError, match=f"its data in {tmp_path}: process"):
        reopen(tmp_path)
    assert (tmp_path / "gateway.sqlite").exists()


# ---------------------------------------------------------------------- links


def test_links_are_made_once_and_are_their_owners_alone(tmp_path):
    reopen(tmp_path).close()
    made = links(tmp_path)
    assert len({secret.deployment for secret in made.values()}) == 1
    assert len({secret.keys.key for secret in made.values()}) == 2
    for party in MPC_NODES:
        assert made[REGISTRY, party] == made[ROLES[party], party]
        assert made[REGISTRY, party].keys.key.hex() not in repr(made)
    for at in LINKS:
        assert stat.S_IMODE(link_file(tmp_path, *at).stat().st_mode) == 0o600
    reopen(tmp_path).close()
    assert links(tmp_path) == made


def test_the_links_can_be_made_one_after_the_other(tmp_path):
    """As where the three services have no folder in common."""
    prepare(tmp_path, SystemRng(), [INSTITUTION])
    assert not (tmp_path / "operator").exists()
    with pytest.raises(UsageError, match=rf"mpcsim link operator --data {tmp_path} makes it"):
        read_link(tmp_path, REGISTRY, OPERATOR)
    (tmp_path / "institution").rename(tmp_path / "elsewhere")
    prepare(tmp_path, SystemRng(), [OPERATOR])
    (tmp_path / "elsewhere").rename(tmp_path / "institution")
    before = links(tmp_path)
    reopen(tmp_path).close()
    assert links(tmp_path) == before


@pytest.mark.parametrize("role", SERVICES)
def test_a_folder_that_is_lost_gets_its_links_again(tmp_path, role):
    reopen(tmp_path).close()
    before = links(tmp_path)
    shutil.rmtree(tmp_path / role)
    reopen(tmp_path).close()
    assert links(tmp_path) == before


@pytest.mark.parametrize("role", SERVICES)
def test_a_folder_of_another_deployment_is_refused(tmp_path, role):
    data, other = tmp_path / "data", tmp_path / "other"
    for folder in (data, other):
        reopen(folder).close()
    shutil.rmtree(data / role)
    shutil.copytree(other / role, data / role)
    with pytest.raises(UsageError, match=r"\.link .*: put back folders that belong together$"):
        reopen(data)


@pytest.mark.few(6)
@pytest.mark.parametrize("at", LINKS)
@pytest.mark.parametrize("content", ["", "ab cd\n", "00" * 16, "00" * 16 + " " + "zz" * 32, "é"])
def test_a_damaged_link_is_said_to_be_so(tmp_path, at, content):
    reopen(tmp_path).close()
    path = link_file(tmp_path, *at)
    kept = path.read_bytes()
    path.write_text(content)
    with pytest.raises(UsageError, match=f"{path}: it is damaged; put a whole one back$"):
        reopen(tmp_path)
    path.write_bytes(kept)
    reopen(tmp_path).close()
