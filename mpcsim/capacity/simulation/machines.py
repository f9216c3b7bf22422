"""Resources, processes and threads of a deployment, as the kernel's records."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from mpcsim.capacity.kernel import records as kernel
from mpcsim.capacity.kernel.records import NONE
from mpcsim.capacity.model.costs import Costs
from mpcsim.capacity.model.parts import Model, Part
from mpcsim.capacity.simulation.call_graph import ROLES

THREADS: Final = 32
"""Threads of a process at most."""
_ALONE: Final = Part(speed=math.inf)
"""Part for callers whose own costs are not modelled: infinitely fast."""


def threads(part: str, cores: int) -> int:
    """Return the pool threads of each process of a part: asyncio's own pool, or both of the node's
    (``node.process.workers``, ``node.process.argon2_queue``)."""
    return min(THREADS, cores + 1 + max(1, cores - 1) if part == "node" else cores + 4)


@dataclass(frozen=True)
class Resource:
    """Cores of a machine, or its disk."""

    name: str
    cores: int
    """Number of cores; 0: a disk, which serves all at once (its times were measured with their
    queueing)."""


@dataclass(frozen=True)
class Process:
    """Process of a part."""

    part: str
    replica: int
    worker: int

    def __str__(self) -> str:
        return f"{self.part} {self.replica + 1}.{self.worker + 1}"


@dataclass(frozen=True)
class Group:
    """Processes of a part."""

    first: int
    replicas: int
    workers: int

    @property
    def count(self) -> int:
        """Number of processes."""
        return self.replicas * self.workers


class Machines:
    """Assignment of processes to resources."""

    def __init__(self, deployment: Model, costs: Costs) -> None:
        self.resources: list[Resource] = []
        self.processes: list[Process] = []
        self.groups: dict[str, Group] = {}
        self._rows: list[tuple[int, int, int, float, float, float]] = []
        """Resources (cores, disk), threads, costs of an iteration and of a cold one, speed."""
        self._cooling_ms = costs.cooling_ms
        self._scheduling = costs.scheduling
        shared: dict[str, tuple[int, int]] = {}
        for name in ROLES:
            part = deployment.parts.get(name, _ALONE)
            self.groups[name] = Group(len(self.processes), part.replicas, part.workers)
            for replica in range(part.replicas):
                label = part.machine or f"{name} {replica + 1}"
                cores, disk = shared.get(part.machine) or (
                    self._add_resource(f"cores of {label}", part.cores),
                    self._add_resource(f"disk of {label}", 0),
                )
                if part.machine:
                    shared[part.machine] = cores, disk
                for worker in range(part.workers):
                    self.processes.append(Process(name, replica, worker))
                    turn = costs.turn_ms.get(name, 0.0) / part.speed
                    cold = costs.cold_ms.get(name, 0.0) / part.speed
                    self._rows.append(
                        (cores, disk, threads(name, part.cores), turn, cold, part.speed)
                    )

    def _add_resource(self, name: str, cores: int) -> int:
        self.resources.append(Resource(name, cores))
        return len(self.resources) - 1

    def speeds(self, stages: NDArray[Any]) -> NDArray[np.float64]:
        """Return the factors of the times of stages, by process; faster cores make no disk
        faster."""
        on_disk = np.isin(stages["kind"], (kernel.LOOP_DISK, kernel.THREAD_DISK))
        factors = 1 / np.array([[speed] for *_, speed in self._rows])
        return np.where(on_disk & (factors > 0), 1.0, factors)

    def records(self) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
        """Return the records of resources, processes and runners."""
        resources = np.zeros(len(self.resources), kernel.RESOURCE)
        resources["cores"] = [each.cores for each in self.resources]
        chances = self._scheduling
        resources["wake_affine"], resources["preempt"] = chances.together, chances.ahead
        resources["steal"], resources["migration_cost_ms"] = chances.takes, chances.hot_ms
        resources["first"] = resources["last"] = resources["finishing"] = NONE
        resources["next_at"] = math.inf
        count = len(self.processes)
        processes = np.zeros(count, kernel.PROCESS)
        for name, column in zip(
            ("cpu", "disk", "threads", "iteration_ms", "cold_ms"),
            zip(*self._rows, strict=True),
            strict=False,
        ):
            processes[name] = column
        processes["cooling_ms"] = self._cooling_ms
        processes["speeds"] = np.arange(count)
        processes["loop"] = np.arange(count) * (1 + THREADS)
        processes["first_thread"] = processes["loop"] + 1
        for chain in ("head", "tail", "thread_head", "thread_tail", "restarted_by"):
            processes[chain] = NONE
        runners = np.zeros(count * (1 + THREADS), kernel.RUNNER)
        runners["job"] = runners["resource"] = runners["core"] = NONE
        runners["process"] = np.repeat(np.arange(count), 1 + THREADS)
        return resources, processes, runners
