"""Prediction of the model for a load on one machine, to which costs are fitted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mpcsim.capacity.deployment import Deployment
from mpcsim.capacity.kernel import records
from mpcsim.capacity.model.costs import Costs, loopback_network
from mpcsim.capacity.model.operations import REQUEST, RESPONSE, Operation
from mpcsim.capacity.model.workload import Client
from mpcsim.capacity.simulation.driver import ArrivalChunk, KernelDriver
from mpcsim.capacity.simulation.layout import Layout
from mpcsim.ids import CLIENT, ROLES
from mpcsim.sim.replay.steps import GATEWAY
from mpcsim.sim.streams import generator

CALLS: Final = 2000
WARM_UP: Final = 0.2
PART_MS: Final = 60_000.0
LOOK_MS: Final = 1000.0
USERS: Final = 1_000_000
"""Users, so many that no two calls need the same key, as in the measurements."""


class Load(NamedTuple):
    """Load: closed (``in_flight``) or open (``per_s``); the other is 0."""

    in_flight: int = 0
    per_s: float = 0.0

    def __str__(self) -> str:
        return f"{self.in_flight} at a time" if self.in_flight else f"{self.per_s:.4g} a second"


class LoopActivity(NamedTuple):
    """Activity of a part's event loop, for each call."""

    iterations: float
    coldness: float
    """Iterations after a pause, each weighted by how cold its caches are, from 0 to 1."""


@dataclass(frozen=True)
class Prediction:
    """Prediction for a load."""

    activities: Mapping[str, LoopActivity]
    """Activity of the event loops by part."""
    latencies_ms: NDArray[np.float64]
    per_s: float
    """Throughput."""


def predict(
    operation: Operation,
    costs: Costs,
    load: Load,
    cores: int,
    *,
    hop_ms: float = 0.0,
    calls: int = CALLS,
) -> Prediction:
    """Run the model of one machine.

    Args:
        hop_ms: latency of a message between processes.
    """
    deployment = Deployment.on_one_machine(cores, loopback_network(hop_ms))
    layout = Layout(deployment, [operation], costs, Client(), USERS, 1)
    done = 0
    took: list[NDArray[np.float64]] = []

    def take(rows: NDArray[np.float64]) -> None:
        nonlocal done
        done += len(rows)
        took.append(rows[:, records.ENDED] - rows[:, records.DUE])

    driver = KernelDriver(layout, _arrivals(load), take)
    if load.in_flight:
        driver.start_users(np.arange(load.in_flight), 0.0, np.ones(1), 1)

    def until(wanted: float) -> tuple[int, NDArray[np.float64]]:
        while done < wanted:
            driver.run(driver.state["now"] + LOOK_MS)
            driver.flush()
        processes = driver.service.processes
        return done, np.array([processes["iterations"], processes["coldness"]])

    first, before = until(calls * WARM_UP)
    began_ms = float(driver.state["now"])
    last, after = until(first + calls)
    each = (after - before) / (last - first)
    activities = {
        process.part: LoopActivity(*map(float, activity))
        for process, activity in zip(layout.processes, each.T, strict=True)
    }
    per_s = (last - first) * 1000 / (float(driver.state["now"]) - began_ms)
    return Prediction(activities, np.concatenate(took)[first:], per_s)


def handling_parts(operation: Operation) -> Mapping[str, str]:
    """Return the part that handles each message of a call."""
    part_of = {CLIENT: "node", GATEWAY: "gateway"}
    found = {
        packet.kind: part_of.get(packet.receiver) or ROLES[packet.receiver]
        for packet in operation.graph.messages
    }
    return {REQUEST: "node", **found, RESPONSE: "caller"}


def _arrivals(load: Load) -> Iterator[tuple[float, ArrivalChunk]]:
    if load.in_flight:
        return
    source = generator(2, "load")
    part = 0
    while True:
        count = source.poisson(load.per_s * PART_MS / 1000)
        due = np.sort(source.uniform(part * PART_MS, (part + 1) * PART_MS, count))
        users = source.integers(0, USERS, count)
        part += 1
        yield part * PART_MS, (due, np.zeros(count, np.int64), users)
