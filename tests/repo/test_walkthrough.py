"""``make up`` in a clean copy of the project, and the README's curl walk-through, word for word."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import coincurve
import pytest

from mpcsim.system import free_port
from tests.helpers.repo import ROOT, project_files

STARTING_S = 400
"""An environment is installed first."""


def shell_blocks() -> list[str]:
    return re.findall(r"```sh\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)


def copy_of_the_project(target: Path) -> None:
    for file in project_files():
        place = target / file.relative_to(ROOT)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, place)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_make_up_and_the_walk_through(tmp_path):
    copy_of_the_project(tmp_path)
    (walk,) = (block for block in shell_blocks() if "mpcsim token" in block)
    ports = {name: str(free_port()) for name in ("GATEWAY_PORT", "APP_PORT", "LAB_PORT")}
    environment = {**os.environ, **ports, "PYTHON": sys.executable}
    for name in ("VIRTUAL_ENV", "PYTHONPATH", "PYTHONOPTIMIZE"):
        environment.pop(name, None)
    log = tmp_path / "up.log"
    with log.open("wb") as out:
        up = subprocess.Popen(
            ["make", "up", f"PYTHON={sys.executable}"],
            cwd=tmp_path,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            start_new_session=True,
        )
        try:
            deadline = time.monotonic() + STARTING_S
            while "Ctrl-C stops everything" not in log.read_text():
                assert up.poll() is None, log.read_text()
                assert time.monotonic() < deadline, log.read_text()
                time.sleep(0.2)
            said = log.read_text()
            assert all(f":{port}" in said for port in ports.values())

            done = subprocess.run(
                ["bash", "-eu", "-c", walk],
                cwd=tmp_path,
                env=environment,
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
            )
            assert done.returncode == 0, done.stderr
            check_the_walk(done.stdout, json.loads((tmp_path / "share.json").read_text()))

            # The curl line that was printed, as it was printed.
            (line,) = re.findall(r"^ +curl -s .*?'$", said, re.DOTALL | re.MULTILINE)[:1]
            again = subprocess.run(
                ["bash", "-c", line], capture_output=True, text=True, timeout=60, check=True
            )
            assert json.loads(again.stdout) == {
                "error": "secp256k1 key already exists for this user"
            }
        finally:
            os.killpg(up.pid, signal.SIGINT)
            try:
                up.wait(40)
            finally:
                if up.poll() is None:
                    os.killpg(up.pid, signal.SIGKILL)
    said = log.read_text()
    assert "stopping" in said
    # The curl line shows alice's first token and a password to try; nothing else shows any.
    rest = said.replace(line, "")
    share = json.loads((tmp_path / "share.json").read_text())
    secrets = [share["encrypted_share"][:40], share["secret_store"][:40], "another horse"]
    assert not [secret for secret in [*secrets, "correct horse", "eyJ"] if secret in rest]
    for port in ports.values():
        listening = subprocess.run(
            [sys.executable, "-c", f"import socket; socket.create_server(('127.0.0.1', {port}))"],
            check=False,
            capture_output=True,
        )
        assert listening.returncode == 0, f"something still listens on {port}"


def check_the_walk(output: str, share: dict[str, str]) -> None:
    """Two signatures under the key that the wallet ends up with."""
    decoder = json.JSONDecoder()
    answers = []
    while output.strip():
        answer, end = decoder.raw_decode(output.lstrip())
        output = output.lstrip()[end:]
        answers.append(answer)
    first, second, wallet = answers
    digest = bytes.fromhex(_sha256("pay 5 to bob"))
    public_key = bytes.fromhex(share["public_key"].removeprefix("0x"))
    for answer in (first, second):
        signature = bytes.fromhex(answer["signature"])
        recoverable = signature[:64] + bytes([signature[64] - 27])
        found = coincurve.PublicKey.from_signature_and_message(recoverable, digest, hasher=None)
        assert found.format() == public_key
    (entry,) = wallet["wallets"]
    assert entry["key"]["public_key"] == share["public_key"]
    assert set(entry["address"]) == {"evm", "btc", "aptos", "tron", "xrp"}


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
