"""Layout: the kernel's arrays for a deployment, its operations and its callers."""

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
from mpcsim.capacity.simulation.call_graph import (
    GATE,
    INSTITUTION_ROLE,
    NODE,
    OPERATOR_ROLE,
    ROLES,
    CallGraph,
)
from mpcsim.capacity.simulation.compilation import Links, compile_operations
from mpcsim.capacity.simulation.latencies import Latencies
from mpcsim.capacity.simulation.machines import Machines
from mpcsim.errors import UsageError, unknown
from mpcsim.service.web.transport import MAX_CONNECTIONS
from mpcsim.sim.network import traffic
from mpcsim.sim.network.topology import Network
from mpcsim.sim.streams import stream_key

ROOM: Final = 256
"""Initial number of records of arrays that grow."""
ROWS: Final = 1 << 14
KEPT: Final = 512
"""Slow calls kept at most; after the first so many, at least half."""
CONNECTIONS: Final = 6_000
"""Initial records of connections at most. Each is 156 kB, but memory is used only when written."""
RECOVERS: Final = (math.inf, 1 << 30, 1000.0, 1.0, 1.0)
"""Retry policy of a bulk resharing: no time-out, and a retry within a second."""
LIMITS: Final = 32
"""Limits at most."""


class Layout:
    """Arrays of the kernel, and what their records are of."""

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
            room: initial number of records of arrays that grow.

        Raises:
            UsageError: costs of a message are not known; a limit of an operation or of messages
                that do not exist.
        """
        self.model = deployment.network
        self.operations = tuple(operation.name for operation in operations)
        lock_bits: dict[str, int] = {}
        self.shapes = [CallGraph(operation, lock_bits) for operation in operations]
        self.links = Links(self.model)
        self.users = users
        self.limits = tuple(limits)
        if len(limits) > LIMITS:
            raise UsageError(f"limits are {len(limits)}: {LIMITS} at most")
        for number, limit in enumerate(limits):
            for name in limit.operations:
                self.shapes[self.operation(name)].add_limit(number, limit)
        machines = Machines(deployment, costs)
        self.resources, self.processes, self.groups = (
            machines.resources,
            machines.processes,
            machines.groups,
        )
        compiled = compile_operations(self.shapes, costs, self.model, self.links)
        self.service = kernel.ServiceRecords(
            *machines.records(),
            compiled.stages,
            compiled.tables,
            compiled.levels,
            compiled.evens,
            machines.speeds(compiled.stages),
            free_chain(kernel.JOB, room),
        )
        most = self._most_connections(compiled.messages)
        self.network = traffic.traffic_records(
            self.model, min(most, CONNECTIONS), traffic.idle_transfers(room)
        )
        self.network.links["pool"] = MAX_CONNECTIONS  # as in the service's HTTP clients
        self.latencies = Latencies(self.model, seed)
        draw_times = stream_key(seed, "calls of clients") >> 64
        callers = np.zeros(2, kernel.CLIENT)
        times = client.timeout_s * 1000, client.attempts, client.pause_s * 1000
        callers[0] = (draw_times, *times, client.factor, client.jitter, 0.0)
        callers[1] = (draw_times, *RECOVERS, 0.0)
        steps, messages, exchanges = (
            int(compiled.operations[name].max()) for name in ("steps", "messages", "exchanges")
        )
        keys = np.zeros(users, kernel.KEY)
        keys["head"] = keys["tail"] = NONE
        state = np.zeros(1, kernel.STATE)
        state["first_handed"] = state["last_handed"] = NONE
        state["spare_jobs"] = state["spare_transfers"] = room
        self.calls = kernel.CallRecords(
            operations=compiled.operations,
            steps=compiled.steps,
            messages=compiled.messages,
            lists=compiled.lists,
            roles=self._role_records(),
            directions=_directions(self.model),
            latencies=self.latencies.first(),
            clients=callers,
            incidents=np.zeros(0, kernel.INCIDENT),
            calls=free_chain(kernel.CALL, room),
            orders=free_chain(kernel.ORDER, room),
            unmet_needs=np.zeros((room, steps), np.int16),
            moments=np.zeros((room, messages, kernel.MOMENTS)),
            connection=np.zeros((room, max(1, exchanges)), np.int64),
            deliveries=free_chain(kernel.DELIVERY, room),
            connection_queues=_queues(len(self.model.links) * len(self.processes)),
            limits=_queues(len(limits), limits),
            keys=keys,
            events=np.zeros(4 * room, kernel.EVENT),
            arrivals=np.zeros(0, kernel.ARRIVAL),
            rows=np.zeros((ROWS, kernel.COLUMNS)),
            slow_calls=np.zeros((KEPT, kernel.KEPT_COLUMNS + messages * kernel.MOMENTS)),
            state=state,
        )

    def operation(self, name: str) -> int:
        """Return the number of an operation.

        Raises:
            UsageError: there is none of that name.
        """
        if name not in self.operations:
            raise UsageError(unknown("operation", name, self.operations))
        return self.operations.index(name)

    def _role_records(self) -> NDArray[Any]:
        roles = np.zeros(len(ROLES), kernel.ROLE)
        roles["direction"] = roles["next_role"] = NONE
        for role, group in zip(roles, self.groups.values(), strict=True):
            role["first"], role["replicas"] = group.first, group.replicas
            role["workers"] = group.workers
        for number, next_role in ((GATE, NODE), (OPERATOR_ROLE, GATE), (INSTITUTION_ROLE, GATE)):
            link, side, _ = self.links.between(number, next_role)
            roles["direction"][number] = NONE if link == NONE else 2 * link + side
            roles["next_role"][number] = next_role
        return roles

    def _most_connections(self, messages: NDArray[Any]) -> int:
        """Return how many connections there can be: a pool for each process and each link that it
        opens."""
        requests = messages[(messages["link"] != NONE) & (messages["is_answer"] == 0)]
        pools = {(int(message["link"]), int(message["source"])) for message in requests}
        each = 1 if self.model.connection.http == "2" else MAX_CONNECTIONS
        most = sum(each * self.groups[ROLES[source]].count for _, source in pools)
        return most + kernel.MARGIN


def _queues(count: int, limits: Sequence[Limit] = ()) -> NDArray[Any]:
    queues = np.zeros(count, kernel.QUEUE)
    queues["head"] = queues["tail"] = NONE
    for queue, limit in zip(queues, limits, strict=False):
        queue["free"] = limit.at_once
        queue["capacity"] = min(limit.waiting, 1 << 60)
    return queues


def _directions(network: Network) -> NDArray[Any]:
    made = np.zeros(2 * len(network.links), kernel.DIRECTION)
    made["slowdown"] = 1.0
    made["lossy"] = [
        link.direction(end).is_lossy for link in network.links for end in (link.a, link.b)
    ]
    return made


def free_chain(dtype: np.dtype[Any], count: int, first: int = 0) -> NDArray[Any]:
    """Return free records, each with the index of the next one."""
    made = np.zeros(count, dtype)
    made["following"] = np.arange(first + 1, first + count + 1)
    made["following"][-1] = NONE
    for name in {"number", "call"} & set(dtype.names or ()):
        made[name] = NONE
    return made
