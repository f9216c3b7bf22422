"""The places, processes and threads of a deployment, as the kernel's records."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from mpcsim.capacity.kernel import records as kernel
from mpcsim.capacity.kernel.records import NONE
from mpcsim.capacity.model.costs import Costs
from mpcsim.capacity.model.parts import Model, Part
from mpcsim.capacity.simulation.shape import ROLES

THREADS: Final = 32
"""Of a process, at most."""
_ALONE: Final = Part(speed=math.inf)
"""Callers that nobody asks about: what they do takes no time."""


def threads(part: str, cores: int) -> int:
    """Threads of each of a part's processes: asyncio's own pool, or both of the node's
    (``node.process.workers``, ``node.process.argon2_queue``)."""
    return min(THREADS, cores + 1 + max(1, cores - 1) if part == "node" else cores + 4)


@dataclass(frozen=True)
class Place:
    """Something that is shared."""

    name: str
    cores: int
    """0: it is a disk, which serves everybody at once: what is written is measured with all that
    wait for it."""


@dataclass(frozen=True)
class Process:
    """One of a part's."""

    part: str
    replica: int
    worker: int

    def __str__(self) -> str:
        return f"{self.part} {self.replica + 1}.{self.worker + 1}"


@dataclass(frozen=True)
class Group:
    """The processes of a part."""

    first: int
    replicas: int
    workers: int

    @property
    def count(self) -> int:
        """All of them."""
        return self.replicas * self.workers


class Machines:
    """Who computes where."""

    def __init__(self, deployment: Model, costs: Costs) -> None:
        self.places: list[Place] = []
        self.processes: list[Process] = []
        self.groups: dict[str, Group] = {}
        self._rows: list[tuple[int, int, int, float, float, float]] = []
        """Cores, disk, threads, turn, cold, speed."""
        self._cooling_ms = costs.cooling_ms
        self._scheduling = costs.scheduling
        shared: dict[str, tuple[int, int]] = {}
        for name in ROLES:
            part = deployment.parts.get(name, _ALONE)
            self.groups[name] = Group(len(self.processes), part.replicas, part.workers)
            for replica in range(part.replicas):
                label = part.machine or f"{name} {replica + 1}"
                cores, disk = shared.get(part.machine) or (
                    self._place(f"cores of {label}", part.cores),
                    self._place(f"disk of {label}", 0),
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

    def _place(self, name: str, cores: int) -> int:
        self.places.append(Place(name, cores))
        return len(self.places) - 1

    def speeds(self, stages: NDArray[Any]) -> NDArray[np.float64]:
        """Factors of the times of stages, for each process. Faster cores make no disk faster."""
        on_disk = np.isin(stages["kind"], (kernel.LOOP_DISK, kernel.THREAD_DISK))
        factors = 1 / np.array([[speed] for *_, speed in self._rows])
        return np.where(on_disk & (factors > 0), 1.0, factors)

    def records(self) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
        """Places, processes and their runners."""
        places = np.zeros(len(self.places), kernel.PLACE)
        places["cores"] = [place.cores for place in self.places]
        for name, chance in asdict(self._scheduling).items():
            places[name] = chance
        places["first"] = places["last"] = places["over"] = NONE
        places["next"] = math.inf
        count = len(self.processes)
        processes = np.zeros(count, kernel.PROCESS)
        for name, column in zip(
            ("cores", "disk", "threads", "turn", "cold"),
            zip(*self._rows, strict=True),
            strict=False,
        ):
            processes[name] = column
        processes["cooling"] = self._cooling_ms
        processes["speeds"] = np.arange(count)
        processes["loop"] = np.arange(count) * (1 + THREADS)
        processes["first_thread"] = processes["loop"] + 1
        for chain in ("head", "tail", "thread_head", "thread_tail", "deploys"):
            processes[chain] = NONE
        runners = np.zeros(count * (1 + THREADS), kernel.RUNNER)
        runners["job"] = runners["place"] = runners["core"] = NONE
        runners["process"] = np.repeat(np.arange(count), 1 + THREADS)
        return places, processes, runners
