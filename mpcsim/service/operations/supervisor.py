"""The whole system as processes: both MPC nodes, gateway, REST node, JupyterLab.

Each is what it is in a deployment: a program of its own that hears of the others through the
environment and HTTP. They are stopped in the opposite order of their start. None outlives the
process that started it (``mpcsim.service.process.process_lifetime``).
"""

from __future__ import annotations

import logging
import os
import secrets
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import count, islice
from pathlib import Path
from typing import Final

import httpx

from mpcsim.crypto.rng import SystemRng
from mpcsim.errors import UsageError
from mpcsim.ids import MPC_NODES, ROLES, PartyId
from mpcsim.service.operations.data_folder import prepare
from mpcsim.service.operations.defaults import HOST, METRICS_VARIABLE
from mpcsim.service.process.http_limits import listen
from mpcsim.service.process.process_lifetime import STOPPING_S, command_ending_with_parent
from mpcsim.service.rpc.wire import HELLO_PATH
from mpcsim.service.web.logs import PROBE

_LOOPBACK_OF_WILDCARD: Final = {"": HOST, "0.0.0.0": HOST, "::": "::1"}
"""Address at which a server that listens on all addresses is reached."""
STARTING_S: Final = 60.0
"""Seconds that a process may take until it answers."""
ASIDE_S: Final = 0.5
"""Seconds that a process which stops aside may still take when the others have ended."""
RESTART_PAUSES_S: Final = (0.5, 30.0)
"""The first pause before a process that has ended is started again, and the longest."""
STABLE_AFTER_S: Final = 60.0
"""Seconds after which a running process no longer counts as one that keeps ending."""
_OWN_PORTS: Final = range(20_000, 32_000)
"""Linux hands out ports from 32768 on, others from 49152 on."""
_PORT_COUNTER: Final = count(secrets.randbelow(len(_OWN_PORTS)))
"""Counter of the next port to try, modulo the range: a process chooses none twice, and each begins
somewhere else."""

LOG = logging.getLogger(__name__)


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
    metrics_port: int | None = None
    """Port of its metrics; None: it has none."""
    stops_aside: bool = False
    """Whether no other process needs it: it is stopped beside the others, and has ``ASIDE_S``."""

    @property
    def address(self) -> str:
        """Address at which it is reached from this machine."""
        return self._at(self.port)

    @property
    def metrics(self) -> str | None:
        """Address of its metrics (``/metrics``, ``/ready``), if it has any."""
        return None if self.metrics_port is None else self._at(self.metrics_port)

    def _at(self, port: int) -> str:
        host = _LOOPBACK_OF_WILDCARD.get(self.host, self.host)
        return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    @property
    def ports(self) -> dict[str, int]:
        """Ports that it listens on, by the environment variable that moves each."""
        more = {} if self.metrics_port is None else {METRICS_VARIABLE: self.metrics_port}
        return {self.port_variable: self.port, **more}


def backend(
    data: Path | str,
    options: Sequence[str] = (),
    *,
    port: int | None = None,
    mpc_node_ports: Mapping[PartyId, int] = {},
    host: str = HOST,
) -> list[Program]:
    """The operator's and the institution's MPC nodes and, last, the gateway, on a data folder that
    is made ready for them.

    Args:
        options: of the gateway, as for ``mpcsim gateway``.
        port: of the gateway; by default a free one, as for both MPC nodes.
        host: where the gateway listens; the MPC nodes listen on this machine's loopback.

    Raises:
        UsageError: the folder cannot be used, or is in use.
    """
    prepare(Path(data), SystemRng())
    nodes = [
        mpc_node_program(party, mpc_node_ports.get(party) or free_port(), data)
        for party in MPC_NODES
    ]
    return [*nodes, gateway_program(port or free_port(), data, nodes, options, host=host)]


def mpc_node_program(party: PartyId, port: int, data: Path | str) -> Program:
    """Return the program of one MPC node."""
    role = ROLES[party]
    variable = f"{role.upper()}_PORT"
    command = command_ending_with_parent("mpcsim", "mpc-node", role, "--data", str(data))
    return Program(role, command, port, variable, HELLO_PATH, {variable: str(port)})


def gateway_program(
    port: int,
    data: Path | str,
    mpc_nodes: Sequence[Program] = (),
    options: Sequence[str] = (),
    *,
    host: str = HOST,
) -> Program:
    """The gateway in front of both MPC nodes; without any, they are in its own process."""
    own = () if mpc_nodes else ("--with-mpc-nodes",)
    arguments = ("gateway", "--host", host, "--data", str(data), *own, *options)
    addresses = {f"{node.name.upper()}_URL": node.address for node in mpc_nodes}
    return Program(
        "gateway",
        command_ending_with_parent("mpcsim", *arguments),
        port,
        "GATEWAY_PORT",
        "/.well-known/jwks.json",
        {"GATEWAY_PORT": str(port), **addresses},
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
    return Program(name, command_ending_with_parent("node"), port, "APP_PORT", "/", own)


def check_ports(programs: Iterable[Program]) -> None:
    """Check that the ports of programs are free.

    Raises:
        UsageError: some are taken: names all of them, and the variables that pick others.
    """
    taken = []
    for program in programs:
        for variable, port in program.ports.items():
            try:
                listen(program.host, port).close()
            except UsageError as error:
                taken.append(f"{program.name}: {error}; {variable}=... picks another port")
    if taken:
        raise UsageError("\n".join(taken))


class ProcessGroup:
    """Processes under way, in the order of their start."""

    def __init__(self, environment: Mapping[str, str] = {}) -> None:
        """
        Args:
            environment: variables of all of them, besides this process's.
        """
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._control_lines: dict[str, socket.socket] = {}
        self._aside: set[str] = set()
        self._environment = dict(environment)
        self.first_line: Callable[[str], bytes] = lambda name: b""
        """Function from a process's name to the bytes it is sent first over its control line."""

    def start(self, *programs: Program, quiet: bool = False) -> None:
        """Start processes, and wait until all of them answer.

        Args:
            quiet: drop what they write.

        Raises:
            UsageError: a port is taken, or one ended or stayed silent.
        """
        for program in programs:
            self.launch(program, quiet=quiet)
        self._wait_until_ready(programs)

    def launch(self, program: Program, *, quiet: bool = False) -> None:
        """Start a process, and do not wait for it. One of its name that has ended makes way.

        Raises:
            UsageError: its port is taken.
        """
        check_ports([program])
        if program.name in self:  # it keeps its place in the order
            self._end(program.name)
        if program.stops_aside:
            self._aside.add(program.name)
        output = subprocess.DEVNULL if quiet else None
        line, its_end = socket.socketpair()
        with its_end:
            self._processes[program.name] = subprocess.Popen(
                program.command,
                env={
                    **os.environ,
                    METRICS_VARIABLE: str(program.metrics_port or ""),  # each has its own, or none
                    **self._environment,
                    **program.environment,
                },
                # It ends when this process does.
                stdin=its_end.fileno(),
                stdout=output,
                stderr=output,
                # Ctrl-C reaches this process alone, which then stops the others in order.
                start_new_session=True,
            )
        self._control_lines[program.name] = line
        if greeting := self.first_line(program.name):
            with suppress(OSError):  # it has ended already, which others notice
                line.sendall(greeting)

    def __contains__(self, name: str) -> bool:
        """Return whether it was started, and not killed on purpose."""
        return name in self._processes

    def control_line(self, name: str) -> socket.socket:
        """To a process's standard input, and back if it answers there."""
        return self._control_lines[name]

    def process_id(self, name: str) -> int:
        """Return the process id of a running process."""
        return self._processes[name].pid

    def find_ended(self, besides: Collection[str] = ()) -> str | None:
        """Name of a process that is no longer running, if any, other than these."""
        names = (name for name in self._processes if name not in besides)
        return next((name for name in names if self.status(name) is not None), None)

    def status(self, name: str) -> int | None:
        """Return the exit status of a process, or the negative number of the signal that ended it;
        None while it runs."""
        return self._processes[name].poll()

    def kill(self, name: str) -> None:
        """Kill one at once, as a crash would, if it was started."""
        if name in self:
            self._end(name)
            del self._processes[name], self._control_lines[name]

    def stop(self) -> None:
        """Stop all, the last one started first; each may finish what it is doing.

        An exception meanwhile, such as KeyboardInterrupt, stops those that are left at once.
        """
        try:
            aside = [self._processes[name] for name in self._aside if name in self]
            for process in aside:
                process.terminate()
            for process in reversed(self._processes.values()):
                if process not in aside:
                    process.terminate()
                    _end_within(process, STOPPING_S)
            for process in aside:
                _end_within(process, ASIDE_S)
        finally:
            while self._processes:
                self.kill(next(reversed(self._processes)))

    def _end(self, name: str) -> None:
        _kill(self._processes[name])
        self._control_lines[name].close()

    def _wait_until_ready(self, programs: Iterable[Program]) -> None:
        deadline = time.monotonic() + STARTING_S
        waiting = list(programs)
        while waiting:
            program = waiting.pop(0)
            if (status := self.status(program.name)) is not None:
                raise UsageError(f"{program.name} ended with status {status}")
            with suppress(httpx.TransportError):
                at, agent = program.address + program.ready, {"User-Agent": PROBE}
                answer = httpx.get(at, headers=agent, timeout=2, trust_env=False)
                if answer.status_code == 200:
                    continue
            if time.monotonic() > deadline:
                raise UsageError(f"{program.name} does not answer at {program.address}")
            waiting.append(program)
            time.sleep(0.05 / len(waiting))


class RestartPolicy:
    """Starts programs again that end: soon, and later and later while they keep ending."""

    def __init__(
        self,
        processes: ProcessGroup,
        programs: Iterable[Program],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """
        Args:
            programs: that have been started.
            clock: seconds.
        """
        self._processes = processes
        self._programs = {program.name: program for program in programs}
        self._clock = clock
        self._pauses_s = dict.fromkeys(self._programs, RESTART_PAUSES_S[0])
        self._began = dict.fromkeys(self._programs, clock())
        self._due: dict[str, float] = {}
        """Time of the next start, of those that do not run."""

    @property
    def names(self) -> Collection[str]:
        return self._programs.keys()

    def restart_due(self) -> None:
        """Schedule a restart of every process that has ended, and restart those that are due.

        A process that was killed on purpose stays away.
        """
        for name, program in self._programs.items():
            status = self._processes.status(name) if name in self._processes else None
            if status is None:
                self._due.pop(name, None)  # somebody else sees to it, or has
            elif name not in self._due:
                self._schedule(name, _describe_end(status))
            elif self._clock() >= self._due[name]:
                self._start(program)

    def _start(self, program: Program) -> None:
        del self._due[program.name]
        self._began[program.name] = self._clock()
        try:
            self._processes.launch(program)
        except UsageError as error:
            self._schedule(program.name, str(error))

    def _schedule(self, name: str, why: str) -> None:
        shortest, longest = RESTART_PAUSES_S
        if self._clock() - self._began[name] > STABLE_AFTER_S:
            self._pauses_s[name] = shortest
        pause = self._pauses_s[name]
        self._pauses_s[name] = min(2 * pause, longest)
        self._due[name] = self._clock() + pause
        LOG.error("%s: %s; it is started again in %.1f s, and the others go on", name, why, pause)


def _describe_end(status: int) -> str:
    if status >= 0:
        return f"ended with status {status}"
    with suppress(ValueError):
        return f"ended by {signal.Signals(-status).name}"
    return f"ended by signal {-status}"


def _end_within(process: subprocess.Popen[bytes], patience_s: float) -> None:
    """Wait for a process to end, and kill it if it does not."""
    with suppress(subprocess.TimeoutExpired):
        process.wait(patience_s)
    _kill(process)


def _kill(process: subprocess.Popen[bytes]) -> None:
    """End a process and those of its group, if it has not ended."""
    if process.poll() is None:
        with suppress(ProcessLookupError, PermissionError):  # it has ended this instant
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@contextmanager
def process_group(environment: Mapping[str, str] = {}) -> Iterator[ProcessGroup]:
    """Processes that are stopped when the block is left, however it is left.

    Args:
        environment: variables of all of them, besides this process's.
    """
    processes = ProcessGroup(environment)
    try:
        yield processes
    finally:
        processes.stop()


def free_port() -> int:
    """A port that nobody listens on just now.

    From below those that systems hand out by themselves: of these, any other program's next
    connection may take one before whom it was chosen for listens there.

    Raises:
        UsageError: none is free.
    """
    for place in islice(_PORT_COUNTER, 100):
        port = _OWN_PORTS[place % len(_OWN_PORTS)]
        with suppress(UsageError):
            listen(HOST, port).close()
            return port
    raise UsageError(f"no port is free on {HOST}")


def access_token(gateway_address: str, api_key: str, api_secret: str, username: str) -> str:
    """An access token for a user, who is signed up first if need be.

    Raises:
        UsageError: the gateway cannot be reached, or refuses.
    """
    try:
        with httpx.Client(base_url=gateway_address, timeout=10, trust_env=False) as http:
            http.auth = (api_key, api_secret)
            signed_up = http.post("/member/user-management/v3/signup", json={"username": username})
            if signed_up.status_code not in (201, 401, 409):
                raise UsageError(f"sign-up: {_describe(signed_up)}")
            login = http.post(
                "/auth/auth-service/v3/login",
                data={"grant_type": "client_credentials", "username": username},
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
        raise UsageError(f"login: {_describe(login)}")
    return str(login.json()["access_token"])


def _describe(answer: httpx.Response) -> str:
    """Return what an answer says, or its status where it says nothing."""
    return answer.text or f"{answer.status_code} {answer.reason_phrase}"
