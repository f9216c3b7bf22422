"""Both images, built and run by a container engine as ``compose.yml`` says.

An engine's own commands start the containers, from the fields of ``compose.yml``: it need not bring
a compose command. ``ENGINE``, ``BASE`` and ``BUILD_ARGS`` are those of ``make images``.
"""

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
from contextlib import suppress

import httpx
import pytest
import yaml

from mpcsim.service.operations.supervisor import HOST, free_port
from mpcsim.service.smart_account.endpoints import Endpoint
from mpcsim.testing.backend.target import gateway_tokens
from tests.helpers.processes import until
from tests.helpers.repo import ROOT
from tests.node.wallets import check_signature
from tests.soak.__main__ import container_engine

LONG_S = 1800
CREDENTIALS = ("mpcsim", "credentials", "--data", "data", "--format", "env")
HASH = "5c" * 32
ENGINE_FILES = re.compile(
    r"/(dev|proc|sys|run|etc|etc/(hosts|hostname|resolv.conf|mtab)|run/\.containerenv"
    r"|run/secrets|\.dockerenv|service|service/data)(/(gateway|operator|institution))?"
)
"""What engines put into a container themselves, and the places of volumes."""

pytestmark = [pytest.mark.soak, pytest.mark.timeout(LONG_S)]


class Deployment:
    """The services of ``compose.yml``, with names, ports and volumes of their own."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.prefix = f"mpcsim-test-{os.getpid()}-"
        self.ports = {"APP_PORT": free_port(), "GATEWAY_PORT": free_port()}
        text = re.sub(
            r"\$\{(\w+):-([^}]*)\}",
            lambda found: str(self.ports.get(found[1], found[2])),
            (ROOT / "compose.yml").read_text(),
        )
        self.services = yaml.safe_load(text)["services"]
        self.volumes = yaml.safe_load(text)["volumes"]
        self.lasting = [name for name in self.services if not name.startswith("link-")]
        self.node, self.gateway = (f"http://{HOST}:{port}" for port in self.ports.values())

    def engine(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Carry out a command of the engine."""
        ran = subprocess.run([self.name, *arguments], capture_output=True, text=True, check=False)
        assert not check or ran.returncode == 0, ran.stderr
        return ran

    def run(self, name: str, *changes: str, command: tuple[str, ...] = ()):
        """Run a service's container; one that ends is waited for, and removed."""
        service = self.services[name]
        network = service.get("network_mode", f"{self.prefix}net")
        lasts = name in self.lasting and not changes
        options = ["--read-only", "--no-healthcheck", "--network", network]
        if self.name == "podman":  # it would make folders for temporary files
            options.append("--read-only-tmpfs=false")
        if lasts:
            options += ["--detach", "--name", self.prefix + name, "--network-alias", name]
            options += ["--restart", service["restart"]]
            options += [part for port in service.get("ports", ()) for part in ("-p", port)]
        else:
            options.append("--rm")
        options += [f"--cap-drop={each}" for each in service["cap_drop"]]
        options += [
            f"--security-opt={each.removesuffix(':true')}" for each in service["security_opt"]
        ]
        options += [f"--volume={self.prefix}{each}" for each in service.get("volumes", ())]
        options += [f"--env={k}={v or ''}" for k, v in service.get("environment", {}).items()]
        command = command or tuple(service.get("command", ()))
        return self.engine("run", *options, *changes, service["image"], *command, check=not changes)

    def start(self) -> None:
        self.engine("network", "create", f"{self.prefix}net")
        for name in self.services:  # in an order in which each finds what it depends on
            self.run(name)
        for name in self.lasting:
            self.wait_for(name)

    def wait_for(self, name: str) -> None:
        """Wait until a service's health check succeeds."""
        _, *probe = self.services[name]["healthcheck"]["test"]
        until(lambda: self.execute(name, *probe, check=False).returncode == 0, 120)

    def execute(self, name: str, *command: str, check: bool = True):
        return self.engine("exec", self.prefix + name, *command, check=check)

    def state(self, name: str):
        return json.loads(self.engine("inspect", self.prefix + name).stdout)[0]["State"]

    def crash(self, name: str) -> None:
        """Kill a service's process; its engine, or we, start it again."""
        before = self.state(name)["Pid"]
        with suppress(PermissionError, ProcessLookupError):
            os.kill(before, signal.SIGKILL)
            until(lambda: self.state(name)["Running"] and self.state(name)["Pid"] != before, 60)
            return
        self.engine("kill", self.prefix + name)
        self.engine("start", self.prefix + name)

    def remove(self) -> None:
        for name in self.lasting:
            self.engine("rm", "--force", "--volumes", self.prefix + name, check=False)
        for volume in self.volumes:
            self.engine("volume", "rm", "--force", self.prefix + volume, check=False)
        self.engine("network", "rm", f"{self.prefix}net", check=False)

    def token(self, user: str) -> str:
        return gateway_tokens(self.gateway, *self.credentials.values())(user)

    @property
    def credentials(self) -> dict[str, str]:
        said = self.execute("gateway", *CREDENTIALS)
        return dict(line.split("=", 1) for line in said.stdout.split())


@pytest.fixture(scope="module")
def deployment():
    """Both images, built, and all services, running."""
    if (name := container_engine()) is None:
        pytest.skip("no container engine works here")
    subprocess.run(["make", "images", f"ENGINE={name}"], cwd=ROOT, check=True)
    running = Deployment(name)
    try:
        running.start()
        yield running
    finally:
        running.remove()


def test_the_api_is_as_specified(deployment):
    """The test kit's suite, by the published ports of node and gateway."""
    command = [sys.executable, "-m", "pytest", "-q", "-n0", "-p", "mpcsim.testing.plugin"]
    command += ["--pyargs", "mpcsim.testing.suite", "--wallet-target", deployment.node]
    command += ["--wallet-gateway", deployment.gateway]
    subprocess.run(command, cwd=ROOT, env={**os.environ, **deployment.credentials}, check=True)


def test_smart_accounts_are_reached_by_the_gateways_port(deployment):
    headers = {"Authorization": f"Bearer {deployment.token('dora')}"}
    path = Endpoint.NONCE.path.format(address="0x" + 20 * "11")
    answer = httpx.get(deployment.gateway + path, headers=headers, timeout=60, trust_env=False)
    assert answer.json() == {"nonce": "0x0"}


def test_each_container_is_killed_while_signatures_run(deployment):
    """No signature is wrong, and all go on once the container is there again."""
    headers = {"Authorization": f"Bearer {deployment.token('carol')}"}

    async def killed() -> None:
        async with httpx.AsyncClient(
            base_url=f"{deployment.node}/v3/wallet", headers=headers, timeout=60, trust_env=False
        ) as http:
            new = {"curve": "secp256k1", "password": "correct horse"}
            record = (await http.post("/generate", json=new)).raise_for_status().json()
            done = 0

            async def sign() -> None:
                nonlocal done
                while True:
                    with suppress(httpx.TransportError):
                        answer = await http.post("/sign", json={**record, "message": HASH})
                        if answer.status_code == 200:
                            signature = answer.json()["signature"]
                            check_signature(record["public_key"], bytes.fromhex(HASH), signature)
                            done += 1
                    await asyncio.sleep(0)

            async def until_more() -> None:
                before = done
                while done < before + 3:
                    assert not signing.done(), signing.exception()
                    await asyncio.sleep(0.01)

            signing = asyncio.create_task(sign())
            async with asyncio.timeout(600):
                for name in deployment.lasting:
                    await until_more()
                    await asyncio.to_thread(deployment.crash, name)
                    await asyncio.to_thread(deployment.wait_for, name)
                await until_more()
            signing.cancel()

    asyncio.run(killed())


def test_a_process_has_no_rights(deployment):
    for name in deployment.lasting:
        status = deployment.execute(name, "cat", "/proc/1/status").stdout
        found = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
        assert set(found["Uid"].split() + found["Gid"].split()) == {"10001"}
        assert {int(found[f"Cap{kind}"], 16) for kind in ("Inh", "Prm", "Eff", "Bnd")} == {0}
        assert found["NoNewPrivs"] == "1"


@pytest.mark.parametrize("command", ["gateway", "link operator"])
def test_a_volume_of_another_user_is_named(command, deployment):
    ran = deployment.run(
        "link-operator",
        "--user=10002:10002",
        command=("mpcsim", *command.split(), "--data", "data"),
    )
    assert ran.returncode == 2
    line = ran.stderr.strip()  # podman may add lines
    assert "belongs to user 10001, and this process is user 10002's" in line


def test_all_stop_in_time_and_have_written_to_volumes_alone(deployment):
    for name in reversed(deployment.lasting):
        changed = [
            line.split(maxsplit=1)[1]
            for line in deployment.engine("diff", deployment.prefix + name).stdout.splitlines()
        ]
        assert [path for path in changed if not ENGINE_FILES.fullmatch(path)] == []
        grace = deployment.services[name]["stop_grace_period"].removesuffix("s")
        deployment.engine("stop", "-t", grace, deployment.prefix + name)
        assert deployment.state(name)["ExitCode"] in (0, 128 + signal.SIGTERM)
