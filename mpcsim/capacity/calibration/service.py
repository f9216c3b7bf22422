"""Real service on this machine, in processes of its own, and their CPU time and memory."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from mpcsim.service.gateway.registry import Registry
from mpcsim.service.operations.data_folder import store_file
from mpcsim.service.operations.supervisor import (
    ProcessGroup,
    Program,
    access_token,
    backend,
    free_port,
    node_program,
    process_group,
)
from mpcsim.service.storage.roles import REGISTRY

_PROC: Final = Path("/proc")


@dataclass(frozen=True)
class ServiceProcesses:
    """Processes of a running service."""

    address: str
    """Address of its node."""
    gateway_address: str
    addresses: Mapping[str, str]
    """Addresses of all parts."""
    process_ids: Mapping[str, int]
    _credentials: tuple[str, str]

    def token(self, username: str) -> str:
        """Return an access token of a user, who is signed up first if necessary."""
        return access_token(self.gateway_address, *self._credentials, username)

    def cpu_ms(self) -> dict[str, float]:
        """Return the CPU time of each part's process so far."""
        return {name: cpu_ms(number) for name, number in self.process_ids.items()}

    def resident_mb(self) -> dict[str, float]:
        """Return the memory of each part's process."""
        return {name: resident_mb(number) for name, number in self.process_ids.items()}


@contextmanager
def run_service(
    environment: Mapping[str, str] = {}, programs: Sequence[Program] | None = None, folder: str = ""
) -> Iterator[ServiceProcesses]:
    """Run a service for the length of a block, by default in a temporary folder.

    Args:
        environment: variables of all processes, besides this one's.
        programs: all but the node; the last one is the gateway. By default both MPC nodes and the
            gateway have a process each.
        folder: of the programs that are given.

    Raises:
        UsageError: a process does not start.
    """
    with tempfile.TemporaryDirectory() as made, process_group(environment) as processes:
        yield start(processes, programs or backend(made), folder or made)


def start(
    processes: ProcessGroup, programs: Sequence[Program], folder: Path | str
) -> ServiceProcesses:
    """Start a node in front of a gateway (the last of the programs), on their data folder."""
    gateway = programs[-1]
    node = node_program(free_port(), gateway)
    processes.start(*programs, node, quiet=True)
    registry = Registry(store_file(Path(folder), REGISTRY))
    known = registry.credentials()
    registry.close()
    every = (*programs, node)
    return ServiceProcesses(
        node.address,
        gateway.address,
        {program.name: program.address for program in every},
        {program.name: processes.process_id(program.name) for program in every},
        (known.api_key, known.api_secret),
    )


def cpu_ms(process_id: int) -> float:
    """Return the CPU time of a process so far (Linux), to the nanosecond; nan elsewhere."""
    try:
        files = list((_PROC / str(process_id) / "task").iterdir())
        return sum(int((file / "schedstat").read_text().split()[0]) for file in files) / 1e6
    except (OSError, IndexError):
        return float("nan")


def resident_mb(process_id: int) -> float:
    """Return the resident memory of a process (Linux), in megabytes; nan elsewhere."""
    try:
        lines = (_PROC / str(process_id) / "status").read_text().splitlines()
    except OSError:
        return float("nan")
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS"))


def busy_ms() -> float:
    """Return how long this machine's cores have been busy, all together (Linux); nan elsewhere."""
    try:
        total = (_PROC / "stat").read_text().splitlines()[0].split()
    except OSError:
        return float("nan")
    user, nice, system, _, _, irq, softirq = map(int, total[1:8])
    return (user + nice + system + irq + softirq) * 1000 / os.sysconf("SC_CLK_TCK")


def all_processes_ms() -> float:
    """Return the CPU time of all visible processes so far."""
    numbers = [int(path.name) for path in _PROC.iterdir() if path.name.isdecimal()]
    return sum(each for number in numbers if (each := cpu_ms(number)) == each)
