"""The gateway's process is told to stop: it finishes, and leaves everything in its three files."""

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import time

import httpx
import pytest

from mpcsim.cli.token import fresh
from mpcsim.service.data_folder import store_file
from mpcsim.stories.lines import requests
from mpcsim.system import HOST, backend, free_port, running
from tests.helpers.gateway import Client
from tests.helpers.processes import PATIENCE_S, Begun, until

pytestmark = pytest.mark.soak  # Processes are started and stopped: seconds each.

SERVICES = ("gateway", "operator", "institution")
SIGN_UP = "/member/user-management/v3/signup"
CURVE = "ed25519"


def call(address, token, work):
    """``work(client)``, with one user's client."""

    async def whole():
        async with httpx.AsyncClient(base_url=address, trust_env=False, timeout=30) as http:
            return await work(Client(http, token))

    return asyncio.run(whole())


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_copy_of_the_three_files_is_the_whole_gateway(tmp_path, number):
    data, copy, port = tmp_path / "data", tmp_path / "copy", free_port()
    address = f"http://{HOST}:{port}"
    command = [sys.executable, "-m", "mpcsim", "serve", "--gateway-only", "--data", str(data)]
    ports = {name: str(free_port()) for name in ("OPERATOR_PORT", "INSTITUTION_PORT")}
    with subprocess.Popen(
        command,
        env={**os.environ, **ports, "GATEWAY_PORT": str(port)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    ) as process:
        try:
            until(lambda: answers(address))
            token = fresh("alice", address, data)
            share = call(address, token, lambda client: client.generate(CURVE))
            # Somebody signs up just when the gateway is to stop.
            begun = Begun(address, SIGN_UP, {"username": "bob"})
            process.send_signal(number)
            time.sleep(0.5)
            assert begun.finish()[0] == 201
            assert process.wait(PATIENCE_S) == 0
            assert process.stdout is not None
            said = process.stdout.read().decode().splitlines()
            (names,) = (line for line in said if "MPC_NODE_KEYS=operator=" in line)
            said.remove(names)
            *banner, last, stopping = filter(None, said)
            told = ["operator", "institution", "gateway", "network"]
            assert [line.split()[0] for line in banner] == told
            assert (last, stopping) == ("Ctrl-C stops everything.", "stopping")
        finally:
            process.kill()
    logs = {path.stem for path in (data / "logs").glob("*.jsonl")}
    assert logs == {"supervisor", *SERVICES}
    signed_up = [each for each in requests([data / "logs"]).lines if each.path == SIGN_UP]
    assert signed_up[-1].status == 201  # what was finished at the last moment is there, too
    beside = [*data.glob("*/*-wal"), *data.glob("*/*-shm")]
    assert not [file for file in beside if file.stat().st_size]

    for name in SERVICES:
        (copy / name).mkdir(parents=True)
        shutil.copy(store_file(data, name), copy / name)
    *mpc_nodes, program = backend(copy)
    with running() as processes:
        processes.start(*mpc_nodes, program, quiet=True)
        call(program.address, token, lambda client: client.check_works(share))
        again = httpx.post(program.address + SIGN_UP, json={"username": "bob"}, trust_env=False)
        assert again.status_code == 409


def answers(address):
    try:
        return httpx.get(address + "/mpc/v1/nodes", trust_env=False).status_code == 200
    except httpx.TransportError:
        return False
