"""A deployment and its operations, written down for the kernel."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from mpcsim.capacity.kernel import records as kernel
from mpcsim.capacity.kernel.records import NONE
from mpcsim.capacity.model.costs import Costs
from mpcsim.capacity.model.limits import Limit
from mpcsim.capacity.model.operations import Operation
from mpcsim.capacity.model.parts import Model
from mpcsim.capacity.model.workload import Client
from mpcsim.capacity.simulation.latencies import Latencies
from mpcsim.capacity.simulation.machines import Machines
from mpcsim.capacity.simulation.shape import (
    GATE,
    INSTITUTION_ROLE,
    NODE,
    OPERATOR_ROLE,
    ROLES,
    Shape,
)
from mpcsim.capacity.simulation.writing import Links, written
from mpcsim.errors import UsageError, unknown
from mpcsim.service.web.transport import MAX_CONNECTIONS
from mpcsim.sim.network import traffic
from mpcsim.sim.network.topology import Network
from mpcsim.sim.streams import stream_key

ROOM: Final = 256
"""Records to begin with, of whatever grows."""
ROWS: Final = 1 << 14
KEPT: Final = 512
"""Slow calls that are kept, at most; half of them at least, if there were so many."""
CONNECTIONS: Final = 6_000
"""Records of connections to begin with, at most. Each is 156 kB, but the machine gives memory only
for those that are used."""
RECOVERS: Final = (math.inf, 1 << 30, 1000.0, 1.0, 1.0)
"""How the one behaves who recovers all keys: it waits for ever, and tries again within a second."""
LIMITS: Final = 32
"""At most."""


class Layout:
    """The kernel's records, and what they are of."""

    def __init__(
        self,
        deployment: Model,
        operations: Sequence[Operation],
        costs: Costs,
        client: Client,
        users: int,
        seed: int,
        *,
        limits: Sequence[Limit] = (),
        room: int = ROOM,
    ) -> None:
        """
        Args:
            room: records to begin with, of whatever grows.

        Raises:
            UsageError: nothing is known about what a message costs; a limit of an
                operation that there is not, or of messages that it has not.
        """
        self.model = deployment.network
        self.operations = tuple(operation.name for operation in operations)
        turns: dict[str, int] = {}
        self.shapes = [Shape(operation, turns) for operation in operations]
        self.links = Links(self.model)
        self.users = users
        self.limits = tuple(limits)
        if len(limits) > LIMITS:
            raise UsageError(f"limits are {len(limits)}: {LIMITS} at most")
        for number, limit in enumerate(limits):
            for name in limit.operations:
                self.shapes[self.operation(name)].limit(number, limit)
        machines = Machines(deployment, costs)
        self.places, self.processes, self.groups = (
            machines.places,
            machines.processes,
            machines.groups,
        )
        texts = written(self.shapes, costs, self.model, self.links)
        self.service = kernel.Service(
            *machines.records(),
            texts.stages,
            texts.tables,
            texts.levels,
            texts.evens,
            machines.speeds(texts.stages),
            chained(kernel.JOB, room),
        )
        most = self._most_connections(texts.messages)
        self.network = traffic.traffic_records(
            self.model, min(most, CONNECTIONS), traffic.idle_transfers(room)
        )
        self.network.links["pool"] = MAX_CONNECTIONS  # as services have it
        self.latencies = Latencies(self.model, seed)
        drawn = stream_key(seed, "calls of clients") >> 64
        callers = np.zeros(2, kernel.CLIENT)
        times = client.timeout_s * 1000, client.attempts, client.pause_s * 1000
        callers[0] = (drawn, *times, client.factor, client.jitter, 0.0)
        callers[1] = (drawn, *RECOVERS, 0.0)
        steps, messages, exchanges = (
            int(texts.operations[name].max()) for name in ("steps", "messages", "exchanges")
        )
        keys = np.zeros(users, kernel.KEY)
        keys["head"] = keys["tail"] = NONE
        state = np.zeros(1, kernel.STATE)
        state["first_given"] = state["last_given"] = NONE
        state["spare_jobs"] = state["spare_transfers"] = room
        self.calls = kernel.Calls(
            operations=texts.operations,
            steps=texts.steps,
            messages=texts.messages,
            lists=texts.lists,
            roles=self._roles(),
            ways=_ways(self.model),
            latencies=self.latencies.first(),
            client=callers,
            incidents=np.zeros(0, kernel.INCIDENT),
            calls=chained(kernel.CALL, room),
            orders=chained(kernel.ORDER, room),
            missing=np.zeros((room, steps), np.int16),
            at=np.zeros((room, messages, kernel.MOMENTS)),
            carrier=np.zeros((room, max(1, exchanges)), np.int64),
            flights=chained(kernel.FLIGHT, room),
            lines=_lines(len(self.model.links) * len(self.processes)),
            limits=_lines(len(limits), limits),
            keys=keys,
            events=np.zeros(4 * room, kernel.EVENT),
            arrivals=np.zeros(0, kernel.ARRIVAL),
            rows=np.zeros((ROWS, kernel.COLUMNS)),
            kept=np.zeros((KEPT, kernel.KEPT_COLUMNS + messages * kernel.MOMENTS)),
            state=state,
        )

    def operation(self, name: str) -> int:
        """Number of an operation.

        Raises:
            UsageError: there is none of that name.
        """
        if name not in self.operations:
            raise UsageError(unknown("operation", name, self.operations))
        return self.operations.index(name)

    def _roles(self) -> NDArray[Any]:
        roles = np.zeros(len(ROLES), kernel.ROLE)
        roles["way"] = roles["further"] = NONE
        for role, group in zip(roles, self.groups.values(), strict=True):
            role["first"], role["replicas"] = group.first, group.replicas
            role["workers"] = group.workers
        for number, further in ((GATE, NODE), (OPERATOR_ROLE, GATE), (INSTITUTION_ROLE, GATE)):
            link, side, _ = self.links.between(number, further)
            roles["way"][number] = NONE if link == NONE else 2 * link + side
            roles["further"][number] = further
        return roles

    def _most_connections(self, messages: NDArray[Any]) -> int:
        """That there can be: each process has a pool over each link that it opens."""
        asks = messages[(messages["link"] != NONE) & (messages["answers"] == 0)]
        pools = {(int(message["link"]), int(message["source"])) for message in asks}
        each = 1 if self.model.connection.http == "2" else MAX_CONNECTIONS
        most = sum(each * self.groups[ROLES[source]].count for _, source in pools)
        return most + kernel.MARGIN


def _lines(count: int, limits: Sequence[Limit] = ()) -> NDArray[Any]:
    lines = np.zeros(count, kernel.LINE)
    lines["head"] = lines["tail"] = NONE
    for line, limit in zip(lines, limits, strict=False):
        line["free"] = limit.at_once
        line["room"] = min(limit.waiting, 1 << 60)
    return lines


def _ways(network: Network) -> NDArray[Any]:
    made = np.zeros(2 * len(network.links), kernel.WAY)
    made["slow"] = 1.0
    made["lossy"] = [
        link.direction(end).is_lossy for link in network.links for end in (link.a, link.b)
    ]
    return made


def chained(dtype: np.dtype[Any], count: int, first: int = 0) -> NDArray[Any]:
    """Free records, each with the number of the next one."""
    made = np.zeros(count, dtype)
    made["following"] = np.arange(first + 1, first + count + 1)
    made["following"][-1] = NONE
    for name in {"number", "call"} & set(dtype.names or ()):
        made[name] = NONE
    return made
