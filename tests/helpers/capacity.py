"""Small services, for which it is known by formula what they do."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mpcsim import Network
from mpcsim.capacity import Client, Deployment, Event
from mpcsim.capacity.kernel import records as kernel
from mpcsim.capacity.model.costs import Costs, Kind, Stage
from mpcsim.capacity.model.limits import Limit
from mpcsim.capacity.model.operations import REQUEST, RESPONSE, KeyLock, Operation
from mpcsim.capacity.model.speed import Speed
from mpcsim.capacity.simulation.driver import KernelDriver
from mpcsim.capacity.simulation.layout import Layout
from mpcsim.ids import CLIENT, INSTITUTION, OPERATOR
from mpcsim.sim.replay import MessageGraph
from mpcsim.sim.replay.steps import GATEWAY, GraphMessage, Step

POINTS = 4097
WAITS = Client()


def exponential(mean_ms: float) -> tuple[float, ...]:
    """Quantiles of an exponential distribution; the last is such that the mean is right."""
    q = -np.log1p(-np.linspace(0.0, 1.0, POINTS)[:-1])
    last = 2 * (POINTS - 1) * (1.0 - ((q[:-1] + q[1:]) / 2).sum() / (POINTS - 1)) - q[-1]
    return tuple(mean_ms * each for each in (*q, last))


def constant(ms: float) -> tuple[float, ...]:
    return (ms,) * POINTS


def costs(
    operation: str, times: Mapping[str, tuple[Kind, tuple[float, ...]]], *names: str
) -> Costs:
    """What messages cost; others of these names cost nothing."""
    stages = {name: (Stage(kind, quantiles),) for name, (kind, quantiles) in times.items()}
    of = {name: stages.get(name, ()) for name in (*names, REQUEST, RESPONSE)}
    return Costs({operation: of}, {}, {}, Speed.NONE, {})


def with_split_stages(
    service: tuple[Operation, Costs], parts: Sequence[tuple[Kind, float]]
) -> tuple[Operation, Costs]:
    """The same, with stages that are parts of what was one."""
    operation, known = service
    stages = {
        name: tuple(
            Stage(kind, tuple(part * ms for ms in stage.quantiles_ms))
            for stage in each
            for kind, part in parts
        )
        for name, each in known.stages[operation.name].items()
    }
    return operation, replace(known, stages={operation.name: stages})


def node_service(
    quantiles: tuple[float, ...], kind: Kind = "loop", name: str = "work"
) -> tuple[Operation, Costs]:
    """The node does something, and nobody else."""
    graph = MessageGraph(name, (Step(CLIENT, "", 0, "", (), ()),), (), "call")
    operation = Operation(name, graph, 100, 100, ())
    return operation, costs(name, {REQUEST: (kind, quantiles)})


ASKS, ASKS_OPERATOR, ASKS_INSTITUTION = "in", "to the operator", "to the institution"
OPERATOR_SAYS, INSTITUTION_SAYS, SAYS = "from the operator", "from the institution", "out"
NAMES = (ASKS, ASKS_OPERATOR, ASKS_INSTITUTION, OPERATOR_SAYS, INSTITUTION_SAYS, SAYS)


def fork_join_service(
    ms: float | Mapping[str, float] = 1.0,
    name: str = "sign",
    *,
    size: int = 500,
    turns: bool = True,
    queue: tuple[int, float] = (0, 0.0),
    times: Callable[[float], tuple[float, ...]] = exponential,
) -> tuple[Operation, Costs]:
    """The node asks the gateway, which asks both MPC nodes at once.

    Args:
        turns: the key is taken meanwhile.
        queue: so many may wait for it, and so long (s).
        ms: what handling a message costs, on average: each, or these and no other.
        times: how that is distributed.
    """
    messages = (
        GraphMessage(ASKS, CLIENT, GATEWAY, size, 0, 0),
        GraphMessage(ASKS_OPERATOR, GATEWAY, OPERATOR, size, 1, 1),
        GraphMessage(ASKS_INSTITUTION, GATEWAY, INSTITUTION, size, 1, 2),
        GraphMessage(OPERATOR_SAYS, OPERATOR, GATEWAY, size, 2, 1),
        GraphMessage(INSTITUTION_SAYS, INSTITUTION, GATEWAY, size, 3, 2),
        GraphMessage(SAYS, GATEWAY, CLIENT, size, 4, 0),
    )
    steps = (
        Step(CLIENT, "", 0, "", (), (0,)),
        Step(GATEWAY, "", 0, "", (0,), (1, 2)),
        Step(OPERATOR, "", 0, "", (1,), (3,)),
        Step(INSTITUTION, "", 0, "", (2,), (4,)),
        Step(GATEWAY, "", 0, "", (3, 4), (5,)),
        Step(CLIENT, "", 0, "", (5,), ()),
    )
    taken = tuple(
        KeyLock(of, ASKS, says, ASKS, *queue)
        for of, says in (("operator", OPERATOR_SAYS), ("institution", INSTITUTION_SAYS))
    )
    graph = MessageGraph(name, steps, messages, "call")
    operation = Operation(name, graph, size, size, taken if turns else ())
    spent: dict[str, tuple[Kind, tuple[float, ...]]] = {
        each: ("loop", times(mean))
        for each, mean in (ms.items() if isinstance(ms, Mapping) else ((n, ms) for n in NAMES))
    }
    return operation, costs(name, spent, *NAMES)


def combined_service(*services: tuple[Operation, Costs]) -> tuple[list[Operation], Costs]:
    """Several operations of one service."""
    stages = {name: of for _, each in services for name, of in each.stages.items()}
    return [operation for operation, _ in services], Costs(stages, {}, {}, Speed.NONE, {})


@dataclass
class SimulatedRun:
    """A run, and what it has written."""

    layout: Layout
    driver: KernelDriver
    parts: list[NDArray[np.float64]] = field(default_factory=list)

    @property
    def rows(self) -> NDArray[np.float64]:
        self.driver.flush()
        return np.concatenate(self.parts)

    def column(self, number: int) -> NDArray[np.float64]:
        """In the order of the orders."""
        rows = self.rows
        return rows[np.lexsort((rows[:, kernel.ATTEMPT], rows[:, kernel.NUMBER]))][:, number]

    @property
    def took(self) -> NDArray[np.float64]:
        return self.column(kernel.ENDED) - self.column(kernel.DUE)


def poisson_arrivals(
    per_ms: float, count: int, seed: int, users: int = 1000, operations: Sequence[float] = (1.0,)
) -> Iterator[tuple[float, Any]]:
    """So many arrivals."""
    generator = np.random.default_rng(seed)
    due = np.cumsum(generator.exponential(1 / per_ms, count))
    what = generator.choice(len(operations), count, p=operations)
    yield math.inf, (due, what, generator.integers(0, users, count))


def prepare_run(
    service: tuple[Operation, Costs] | tuple[list[Operation], Costs],
    arrivals: Iterable[tuple[float, Any]] = (),
    *,
    deployment: Deployment | None = None,
    client: Client = WAITS,
    users: int = 1000,
    seed: int = 1,
    limits: Sequence[Limit] = (),
    events: Sequence[Event] = (),
    room: int = 256,
) -> SimulatedRun:
    """A service that has not begun yet."""
    operations, known = service
    several = operations if isinstance(operations, list) else [operations]
    where = deployment or Deployment(Network.star(1.0))
    layout = Layout(where, several, known, client, users, seed, limits=limits, room=room)
    parts: list[NDArray[np.float64]] = []
    driver = KernelDriver(layout, iter(arrivals), lambda rows: parts.append(rows.copy()), events)
    return SimulatedRun(layout, driver, parts)


def interval(values: NDArray[np.float64], batches: int = 20) -> tuple[float, float]:
    """Mean of a stationary series, and the half width of its 99 % confidence interval."""
    usable = values[len(values) // 20 :]
    usable = usable[: len(usable) // batches * batches]
    means = usable.reshape(batches, -1).mean(axis=1)
    return float(means.mean()), 2.86 * float(means.std(ddof=1)) / math.sqrt(batches)
