"""``make up`` in a clean copy of the project, and the curl lines of README and "Start"."""

import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import coincurve
import pytest

from mpcsim.service.operations.supervisor import HOST, free_port
from mpcsim.service.process.http_limits import listen
from tests.helpers.processes import PORTS, not_outliving_us
from tests.helpers.repo import ROOT, project_files

STARTING_S = 800
"""An environment is installed first."""


def shell_block(document: str, start: str) -> str:
    found = re.findall(r"```sh\n(.*?)```", (ROOT / document).read_text(), re.DOTALL)
    (block,) = (block for block in found if block.startswith(start))
    return str(block)


def copy_of_the_project(target: Path) -> None:
    for file in project_files():
        place = target / file.relative_to(ROOT)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, place)


@pytest.mark.soak
@pytest.mark.timeout(2 * STARTING_S)
def test_make_up_and_the_walk_through(tmp_path):
    project = tmp_path / "project"
    copy_of_the_project(project)
    walk, child = (shell_block("notebooks/guides/start.md", at) for at in ("TOKEN=", "wallet "))
    first_call = shell_block("README.md", "TOKEN=")
    ports = {name: str(free_port()) for name in PORTS}
    environment = {**os.environ, **ports, "PYTHON": sys.executable}
    for name in ("VIRTUAL_ENV", "PYTHONPATH", "PYTHONOPTIMIZE"):
        environment.pop(name, None)
    log = tmp_path / "up.log"
    with log.open("wb") as out:
        up = subprocess.Popen(
            ["make", "up", f"PYTHON={sys.executable}"],
            cwd=project,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            start_new_session=True,
        )
        try:
            with not_outliving_us(up):
                deadline = time.monotonic() + STARTING_S
                while "Ctrl-C stops everything" not in log.read_text():
                    assert up.poll() is None, log.read_text()
                    assert time.monotonic() < deadline, log.read_text()
                    time.sleep(0.2)
                said = log.read_text()
                assert all(f":{port}" in said for port in ports.values())

                before = {file: file.stat().st_mtime_ns for file in everything_but_data(project)}
                shares = [walk_through(walk, project, environment, tmp_path) for _ in range(2)]
                in_a_shell(walk + child, project, environment)
                said = in_a_shell(
                    first_call.replace(":9091", f":{ports['APP_PORT']}"), project, environment
                )
                assert json.loads(said)["curve"] == "secp256k1"
                assert shares[0]["public_key"] != shares[1]["public_key"]
                after = {file: file.stat().st_mtime_ns for file in everything_but_data(project)}
                assert after == before
        finally:
            os.killpg(up.pid, signal.SIGINT)
            try:
                up.wait(40)
            except subprocess.TimeoutExpired:
                left = subprocess.run(["ps", "-A", "-f"], capture_output=True, text=True)
                os.killpg(up.pid, signal.SIGKILL)
                up.wait()
                pytest.fail(f"it does not stop; it said {log.read_text()!r}, and\n{left.stdout}")
    said = log.read_text()
    secrets = [share[name][:40] for share in shares for name in ("encrypted_share", "secret_store")]
    secrets += ["another horse", "correct horse", "eyJ"]
    assert not [secret for secret in secrets if secret in said]
    for port in ports.values():
        listen(HOST, int(port)).close()  # nothing does so any more


def everything_but_data(project: Path) -> list[Path]:
    """The files of the project, without what belongs to the running system."""
    theirs = {".venv", ".mpcsim", "my_notebooks", "__pycache__", ".ipynb_checkpoints"}
    return [
        file
        for file in project.rglob("*")
        if file.is_file() and not theirs.intersection(file.relative_to(project).parts)
    ]


def in_a_shell(lines: str, project: Path, environment: dict[str, str]) -> str:
    """What it prints; nothing may fail."""
    done = subprocess.run(
        ["bash", "-eu", "-c", lines],
        cwd=project,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def walk_through(
    walk: str, project: Path, environment: dict[str, str], folder: Path
) -> dict[str, str]:
    """Paste it into a shell; the share that is left in a temporary file."""
    scratch = Path(tempfile.mkdtemp(dir=folder))
    said = in_a_shell(walk, project, {**environment, "TMPDIR": str(scratch)})
    (left,) = scratch.iterdir()
    share: dict[str, str] = json.loads(left.read_text())
    check_the_walk(said, share)
    return share


def check_the_walk(output: str, share: dict[str, str]) -> None:
    """Two signatures under the key that the wallet ends up with."""
    decoder = json.JSONDecoder()
    answers = []
    while output.strip():
        answer, end = decoder.raw_decode(output.lstrip())
        output = output.lstrip()[end:]
        answers.append(answer)
    first, second, wallet = answers
    digest = hashlib.sha256(b"pay 5 to bob").digest()
    public_key = bytes.fromhex(share["public_key"].removeprefix("0x"))
    for answer in (first, second):
        signature = bytes.fromhex(answer["signature"])
        recoverable = signature[:64] + bytes([signature[64] - 27])
        found = coincurve.PublicKey.from_signature_and_message(recoverable, digest, hasher=None)
        assert found.format() == public_key
    (entry,) = wallet["wallets"]
    assert entry["key"]["public_key"] == share["public_key"]
    assert set(entry["address"]) == {"evm", "btc", "aptos", "tron", "xrp"}
