"""The data folder: links are made once, and belong together."""

import os
import shutil
import stat

import pytest

from mpcsim.crypto.rng import SystemRng
from mpcsim.errors import UsageError
from mpcsim.ids import INSTITUTION, MPC_NODES, OPERATOR, ROLES
from mpcsim.service.operations.data_folder import (
    claim_folder,
    link_file,
    linked_deployments,
    prepare,
    read_link,
)
from mpcsim.service.storage.roles import REGISTRY
from tests.helpers.gateway import reopen
from tests.service.operations.conftest import PARTS

LINKS = [(REGISTRY, party) for party in MPC_NODES] + [(ROLES[party], party) for party in MPC_NODES]


def links(folder):
    return {at: read_link(folder, *at) for at in LINKS}


# ---------------------------------------------------------------------- links


def test_links_are_made_once_and_are_their_owners_alone(tmp_path):
    reopen(tmp_path).close()
    made = links(tmp_path)
    assert len({secret.deployment for secret in made.values()}) == 1
    assert len({secret.keys.key for secret in made.values()}) == 2
    for party in MPC_NODES:
        assert made[REGISTRY, party] == made[ROLES[party], party]
        assert made[REGISTRY, party].keys.key.hex() not in repr(made)
    for role in PARTS:
        assert linked_deployments(tmp_path, role) == {made[LINKS[0]].deployment}
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


def test_a_folder_is_made_with_those_above_it_for_its_owner_alone(tmp_path):
    folder = tmp_path / "new" / "data" / "operator"
    for _ in range(2):
        with claim_folder(folder):
            modes = {stat.S_IMODE(each.stat().st_mode) for each in (folder, folder.parent)}
    assert modes == {0o700}


def test_a_folder_of_another_user_is_named_with_its_owner(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "open", lambda *_: (_ for _ in ()).throw(PermissionError(13, "denied")))
    monkeypatch.setattr(os, "geteuid", lambda: 10_001)
    owner = tmp_path.stat().st_uid
    said = f"{tmp_path} belongs to user {owner}, and this process is user 10001's; run it as user"
    with pytest.raises(UsageError, match=said), claim_folder(tmp_path):
        pass


@pytest.mark.parametrize("role", PARTS)
def test_a_folder_that_is_lost_gets_its_links_again(tmp_path, role):
    reopen(tmp_path).close()
    before = links(tmp_path)
    shutil.rmtree(tmp_path / role)
    reopen(tmp_path).close()
    assert links(tmp_path) == before


@pytest.mark.parametrize("role", PARTS)
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
