"""The whole system as processes: gateway with both MPC nodes, REST node, JupyterLab.

Each is what it is in a deployment: a program of its own that hears of the others through the
environment and HTTP. They are started in order, each when the one before answers, and all of them
are stopped when one ends. None outlives the process that started it (``mpcsim.lifetime``).
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import httpx

from mpcsim.errors import UsageError
from mpcsim.lifetime import STOPPING_S, ending_with_its_starter
from mpcsim.listening import listen

HOST: Final = "127.0.0.1"
_EVERYWHERE: Final = {"": HOST, "0.0.0.0": HOST, "::": "::1"}
"""Where whoever listens at all addresses is reached."""
STARTING_S: Final = 60.0
"""How long a process may take until it answers."""
DATA_FOLDER: Final = Path(".mpcsim")
"""Where the served gateway keeps its databases."""


@dataclass(frozen=True)
class Program:
    """A process to run."""

    name: str
    command: Sequence[str]
    port: int
    port_variable: str
    """Environment variable that moves the port."""
    ready: str
    """Path that answers 200 once it runs."""
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    host: str = HOST
    """Address it listens at."""

    @property
    def address(self) -> str:
        """Where it is reached from this machine."""
        host = _EVERYWHERE.get(self.host, self.host)
        return f"http://[{host}]:{self.port}" if ":" in host else f"http://{host}:{self.port}"


def gateway_program(port: int, options: Sequence[str] = (), *, host: str = HOST) -> Program:
    """The gateway; further options as for ``mpcsim serve``."""
    arguments = ("serve", "--gateway-only", "--host", host, *options)
    return Program(
        "gateway",
        ending_with_its_starter("mpcsim", *arguments),
        port,
        "GATEWAY_PORT",
        "/.well-known/jwks.json",
        {"GATEWAY_PORT": str(port)},
        host,
    )


def node_program(
    port: int,
    gateway: Program | str,
    environment: Mapping[str, str] = {},
    *,
    name: str = "node",
) -> Program:
    """The REST node in front of a gateway, given as a program or by its address.

    Args:
        environment: further settings of the node's.
        name: of the process; each has its own.
    """
    address = gateway if isinstance(gateway, str) else gateway.address
    own = {"APP_PORT": str(port), "WAAS_API_URL": address, **environment}
    return Program(name, ending_with_its_starter("node"), port, "APP_PORT", "/", own)


class Running:
    """Processes under way, in the order of their start."""

    def __init__(self) -> None:
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, program: Program, *, quiet: bool = False) -> None:
        """Start a process and wait until it answers.

        Args:
            quiet: drop what it writes.

        Raises:
            UsageError: its port is taken, or it ended or stayed silent.
        """
        try:
            listen(program.host, program.port).close()
        except UsageError as error:
            raise UsageError(
                f"{program.name}: {error}; {program.port_variable}=... picks another port"
            ) from None
        output = subprocess.DEVNULL if quiet else None
        process = subprocess.Popen(
            program.command,
            env={**os.environ, **program.environment},
            # Never written to: it ends when this process does.
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            # Ctrl-C reaches this process alone, which then stops the others in order.
            start_new_session=True,
        )
        self._processes[program.name] = process
        self._wait_until_ready(program, process)

    def process_id(self, name: str) -> int:
        """Of a running process."""
        return self._processes[name].pid

    def ended(self) -> str | None:
        """Name of a process that is no longer running, if any."""
        return next((n for n, p in self._processes.items() if p.poll() is not None), None)

    def kill(self, name: str) -> None:
        """Kill one at once, as a crash would."""
        _kill(self._processes.pop(name))

    def stop(self) -> None:
        """Stop all, the last one started first; each may finish what it is doing.

        An exception meanwhile, such as KeyboardInterrupt, stops those that are left at once.
        """
        try:
            for process in reversed(self._processes.values()):
                process.terminate()
                with suppress(subprocess.TimeoutExpired):
                    process.wait(STOPPING_S)
                _kill(process)
        finally:
            while self._processes:
                _kill(self._processes.popitem()[1])

    def _wait_until_ready(self, program: Program, process: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + STARTING_S
        while time.monotonic() < deadline:
            if process.poll() is not None:
                raise UsageError(f"{program.name} ended with status {process.returncode}")
            with suppress(httpx.TransportError):
                answer = httpx.get(program.address + program.ready, timeout=2, trust_env=False)
                if answer.status_code == 200:
                    return
            time.sleep(0.05)
        raise UsageError(f"{program.name} does not answer at {program.address}")


def _kill(process: subprocess.Popen[bytes]) -> None:
    """End a process and those of its group, if it has not ended."""
    if process.poll() is None:
        with suppress(ProcessLookupError, PermissionError):  # it has ended this instant
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    assert process.stdin is not None
    process.stdin.close()


@contextmanager
def running() -> Iterator[Running]:
    """Processes that are stopped when the block is left, however it is left."""
    processes = Running()
    try:
        yield processes
    finally:
        processes.stop()


def free_port() -> int:
    """A port that nobody listens on just now."""
    with listen(HOST, 0) as probe:
        port: int = probe.getsockname()[1]
        return port


def access_token(gateway_address: str, api_key: str, api_secret: str, username: str) -> str:
    """An access token for a user, who is signed up first if need be.

    Raises:
        UsageError: the gateway cannot be reached, or refuses.
    """
    try:
        with httpx.Client(base_url=gateway_address, timeout=10, trust_env=False) as http:
            signed_up = http.post("/member/user-management/v3/signup", json={"username": username})
            if signed_up.status_code not in (201, 409):
                raise UsageError(f"sign-up: {signed_up.text}")
            login = http.post(
                "/auth/auth-service/v3/login",
                data={"grant_type": "client_credentials", "username": username},
                auth=(api_key, api_secret),
            )
    except httpx.ConnectError as error:
        raise UsageError(
            f"gateway at {gateway_address}: {error}; does it run, and is this its address?"
        ) from None
    except httpx.TransportError as error:
        raise UsageError(f"gateway at {gateway_address}: {error}") from None
    if login.status_code == 401:
        raise UsageError(
            f"login: the gateway at {gateway_address} has another API key and secret: those in its"
            " own data folder, which --data or MPCSIM_DATA names (WAAS_API_KEY and"
            " WAAS_API_SECRET, if set, come first)"
        )
    if login.status_code != 200:
        raise UsageError(f"login: {login.text}")
    return str(login.json()["access_token"])
