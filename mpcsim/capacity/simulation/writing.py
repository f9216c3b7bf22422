"""Operations written down for the kernel: steps, messages, and what handling them costs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mpcsim.capacity.kernel import records as kernel
from mpcsim.capacity.kernel.records import NONE
from mpcsim.capacity.model.costs import KINDS, LATER, Costs, Stage
from mpcsim.capacity.simulation.shape import END_OF, Shape
from mpcsim.sim.network.service_paths import service_paths
from mpcsim.sim.network.topology import Network


class Written(NamedTuple):
    """The kernel's records of all operations."""

    operations: NDArray[Any]
    steps: NDArray[Any]
    messages: NDArray[Any]
    lists: NDArray[np.int64]
    stages: NDArray[Any]
    tables: NDArray[np.float64]
    levels: NDArray[np.float64]
    evens: NDArray[np.int64]


class Links:
    """The links between roles."""

    def __init__(self, network: Network) -> None:
        self._ways = service_paths(network)
        self._sides = {
            (ends[side], ends[1 - side]): (number, side)
            for number, link in enumerate(network.links)
            for ends in [(link.a, link.b)]
            for side in (0, 1)
        }

    def between(self, source: int, target: int) -> tuple[int, int, float]:
        """From one role to another: the link (NONE: they are at one site), the side of it that
        sends, and the service time at the other end."""
        if source not in END_OF or target not in END_OF:
            return NONE, 0, 0.0
        way = self._ways.get((END_OF[source], END_OF[target]))
        if way is None:
            return NONE, 0, 0.0
        number, side = self._sides[way.direction.source, way.direction.target]
        return number, side, way.service_ms


def written(
    shapes: Sequence[Shape],
    costs: Costs,
    network: Network,
    links: Links,
) -> Written:
    """Write them down.

    Raises:
        UsageError: nothing is known about what a message costs.
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
            link, side, service = links.between(message.source, message.target)
            first_stage = len(stages)
            every = costs.of(name, message.name) if message.costs else ()
            last_stage = first_stage + sum(stage.kind != LATER for stage in every)
            for stage in every:
                kind = kernel.LOOP if stage.kind == LATER else KINDS.index(stage.kind)
                stages.append((kind, len(tables)))
                tables.append(stage)
            senders = [first_step + n for n, step in enumerate(shape.steps) if k in step.sends]
            waiting = [first_step + n for n, step in enumerate(shape.steps) if k in step.needs]
            messages.append(
                {
                    "source": message.source,
                    "target": message.target,
                    "link": link,
                    "side": side,
                    "size": message.size + network.connection.overhead_bytes,
                    "exchange": message.exchange,
                    "answers": message.answers,
                    "service": service,
                    "first_stage": first_stage,
                    "last_stage": last_stage,
                    "end_stage": len(stages),
                    "first_needed": len(lists),
                    "last_needed": len(lists) + len(waiting),
                    "takes": message.takes,
                    "gives": message.gives,
                    "enters": message.enters,
                    "leaves": message.leaves,
                    "refusal": message.refusal
                    if message.refusal == NONE
                    else first_message + message.refusal,
                    "sent_by": senders[0] if senders else NONE,
                }
            )
            lists += waiting
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
            max((turn.waiting for turn in shape.operation.turns), default=0),
            max((turn.patience_s * 1000 for turn in shape.operation.turns), default=0.0),
        )
    records = np.zeros(len(messages), kernel.MESSAGE)
    for record, values in zip(records, messages, strict=True):
        for field, value in values.items():
            record[field] = value
    return Written(
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
    """Return quantiles, their levels, and how many equal distances these have, or 0."""
    most = max((len(stage.quantiles_ms) for stage in stages), default=2)
    rows = [
        np.pad(np.array([stage.quantiles_ms, stage.at_levels]), ((0, 0), (0, more)), "edge")
        for stage in stages
        for more in [most - len(stage.quantiles_ms)]
    ]
    both = np.array(rows).reshape(len(rows), 2, most)
    evens = [0 if stage.levels else len(stage.quantiles_ms) - 1 for stage in stages]
    return both[:, 0].copy(), both[:, 1].copy(), np.array(evens, np.int64)
