"""Compilation of call graphs into the kernel's records: steps, messages and service demands."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mpcsim.capacity.kernel import records as kernel
from mpcsim.capacity.kernel.records import NONE
from mpcsim.capacity.model.costs import KINDS, LATER, Costs, Stage
from mpcsim.capacity.simulation.call_graph import (
    END_OF,
    GATE,
    INSTITUTION_ROLE,
    OPERATOR_ROLE,
    CallGraph,
    Message,
)
from mpcsim.service.gateway.defaults import LINK_TIMEOUT_S
from mpcsim.sim.network.service_paths import service_paths
from mpcsim.sim.network.topology import Network
from node.process.settings import Settings

ANSWER_TIMEOUTS_MS: Final[Mapping[int, float]] = {
    GATE: Settings.gateway_timeout_s * 1000,
    OPERATOR_ROLE: LINK_TIMEOUT_S * 1000,
    INSTITUTION_ROLE: LINK_TIMEOUT_S * 1000,
}
"""Time-outs of requests by the role that they are sent to, as the service comes: the node waits for
the gateway, and the gateway for each MPC node."""


def timeout_ms(message: Message) -> float:
    """Return how long the sender of a message waits for its answer."""
    return ANSWER_TIMEOUTS_MS.get(message.target, math.inf)


class CompiledOperations(NamedTuple):
    """Records of all operations."""

    operations: NDArray[Any]
    steps: NDArray[Any]
    messages: NDArray[Any]
    lists: NDArray[np.int64]
    stages: NDArray[Any]
    tables: NDArray[np.float64]
    levels: NDArray[np.float64]
    evens: NDArray[np.int64]


class Links:
    """Links between roles."""

    def __init__(self, network: Network) -> None:
        self._paths = service_paths(network)
        self._sides = {
            (ends[side], ends[1 - side]): (number, side)
            for number, link in enumerate(network.links)
            for ends in [(link.a, link.b)]
            for side in (0, 1)
        }

    def between(self, source: int, target: int) -> tuple[int, int, float]:
        """Return the link from one role to another (NONE: both are at one site), the sending side
        of it, and the service time at its far end."""
        if source not in END_OF or target not in END_OF:
            return NONE, 0, 0.0
        path = self._paths.get((END_OF[source], END_OF[target]))
        if path is None:
            return NONE, 0, 0.0
        number, side = self._sides[path.direction.source, path.direction.target]
        return number, side, path.service_ms


def compile_operations(
    shapes: Sequence[CallGraph],
    costs: Costs,
    network: Network,
    links: Links,
) -> CompiledOperations:
    """Return the records of all operations.

    Raises:
        UsageError: costs of a message are not known.
    """
    operations = np.zeros(len(shapes), kernel.OPERATION)
    steps: list[tuple[int, ...]] = []
    messages: list[dict[str, float]] = []
    lists: list[int] = []
    stages: list[tuple[int, int]] = []
    tables: list[Stage] = []
    for number, shape in enumerate(shapes):
        name = shape.operation.name
        first_step, first_message = len(steps), len(messages)
        for k, message in enumerate(shape.messages):
            link, side, service_ms = links.between(message.source, message.target)
            first_stage = len(stages)
            every = costs.stages_of(name, message.name) if message.has_cost else ()
            last_stage = first_stage + sum(stage.kind != LATER for stage in every)
            for stage in every:
                kind = kernel.LOOP if stage.kind == LATER else KINDS.index(stage.kind)
                stages.append((kind, len(tables)))
                tables.append(stage)
            senders = [first_step + n for n, step in enumerate(shape.steps) if k in step.sends]
            needed_by = [first_step + n for n, step in enumerate(shape.steps) if k in step.needs]
            messages.append(
                {
                    "source": message.source,
                    "target": message.target,
                    "link": link,
                    "side": side,
                    "size": message.size + network.connection.overhead_bytes,
                    "exchange": message.exchange,
                    "is_answer": message.is_answer,
                    "timeout_ms": timeout_ms(message),
                    "service_ms": service_ms,
                    "first_stage": first_stage,
                    "last_stage": last_stage,
                    "end_stage": len(stages),
                    "first_needed": len(lists),
                    "last_needed": len(lists) + len(needed_by),
                    "acquires": message.acquires,
                    "releases": message.releases,
                    "enters": message.enters,
                    "leaves": message.leaves,
                    "refusal": message.refusal
                    if message.refusal == NONE
                    else first_message + message.refusal,
                    "sent_by": senders[0] if senders else NONE,
                }
            )
            lists += needed_by
        for step in shape.steps:
            first, between = len(lists), len(lists) + len(step.needs)
            lists += [first_message + m for m in (*step.needs, *step.sends)]
            steps.append((len(step.needs), first, between, len(lists), step.ends))
        operations[number] = (
            first_step,
            len(shape.steps),
            first_message,
            len(shape.messages),
            shape.exchanges,
            1.0,
            max((lock.queue_capacity for lock in shape.operation.locks), default=0),
            max((lock.timeout_s * 1000 for lock in shape.operation.locks), default=0.0),
            min(timeout_ms(message) for message in shape.messages),
        )
    records = np.zeros(len(messages), kernel.MESSAGE)
    for record, values in zip(records, messages, strict=True):
        for field, value in values.items():
            record[field] = value
    return CompiledOperations(
        operations,
        np.array(steps, kernel.STEP),
        records,
        np.array(lists, np.int64),
        np.array(stages, kernel.STAGE),
        *_tables(tables),
    )


def _tables(
    stages: Sequence[Stage],
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.int64]]:
    """Return quantiles, their levels, and the number of intervals if these are equidistant, else
    0."""
    most = max((len(stage.quantiles_ms) for stage in stages), default=2)
    rows = [
        np.pad(np.array([stage.quantiles_ms, stage.at_levels]), ((0, 0), (0, more)), "edge")
        for stage in stages
        for more in [most - len(stage.quantiles_ms)]
    ]
    both = np.array(rows).reshape(len(rows), 2, most)
    evens = [0 if stage.levels else len(stage.quantiles_ms) - 1 for stage in stages]
    return both[:, 0].copy(), both[:, 1].copy(), np.array(evens, np.int64)
