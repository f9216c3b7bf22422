"""The served API by HTTP clients of other languages, with the settings they come with."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import coincurve
import pytest

from mpcsim.testing.backend.wallet_service import ServiceSettings, serving

CLIENTS = {"node": ["client.mjs"], "java": ["Client.java"], "go": ["run", "client.go"]}
SIGNATURES = 12

pytestmark = pytest.mark.soak  # The whole service in its processes, once.


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    data = tmp_path_factory.mktemp("service") / "data"
    with serving(data, ServiceSettings(quiet=True)) as running:
        yield running


@pytest.mark.parametrize("runtime", CLIENTS)
def test_a_wallets_first_calls(runtime, service):
    """Signed up, logged in, a key, signatures in a row and at the same time, and a wrong token."""
    if shutil.which("javac" if runtime == "java" else runtime) is None:
        pytest.skip(f"{runtime} is not installed here")
    done = subprocess.run(
        [runtime, *CLIENTS[runtime], service.gateway, service.address, runtime],
        cwd=Path(__file__).with_name("clients"),
        env={**os.environ, "WAAS_API_KEY": service.api_key, "WAAS_API_SECRET": service.api_secret},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert (len(said["signatures"]), said["refused"]) == (SIGNATURES, 401)
    for signature in map(bytes.fromhex, said["signatures"]):
        recoverable = signature[:64] + bytes([signature[64] - 27])
        found = coincurve.PublicKey.from_signature_and_message(
            recoverable, bytes.fromhex("ab" * 32), hasher=None
        )
        assert "0x" + found.format().hex() == said["public_key"]
