"""Driver of the kernel: gives it arrivals and room in its arrays, and takes the rows it has
written."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mpcsim.capacity.kernel import records as kernel
from mpcsim.capacity.model.incidents import Event
from mpcsim.capacity.simulation.incidents import Moment, incidents
from mpcsim.capacity.simulation.layout import Layout, free_chain
from mpcsim.errors import UsageError
from mpcsim.sim.network import traffic
from mpcsim.sim.streams import generator

ArrivalChunk = tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.int64]]
"""Arrivals: their times (ms), operations and users."""
START_SPREAD_MS = 1000.0
"""Interval in which users without think time begin."""


@dataclass(frozen=True)
class SlowCalls:
    """Slow calls, in the order in which they ended."""

    rows: NDArray[np.float64]
    """Columns ``KEPT_...`` of ``mpcsim.capacity.kernel.records``."""
    moments: NDArray[np.float64]
    """Moments (last axis, ms) of each message of its operation, and its ``SERVICE_MS``."""


@dataclass(frozen=True)
class UsageTotals:
    """Integrals over time since the beginning (ms), in the order of the layout's lists."""

    at_ms: float
    used: NDArray[np.float64]
    """Used cores, by resource."""
    loop_busy: NDArray[np.float64]
    """Busy event loop (0 or 1), by process."""
    queued: NDArray[np.float64]
    """Jobs that wait for the event loop, by process."""
    thread_busy: NDArray[np.float64]
    thread_queued: NDArray[np.float64]
    cpu: NDArray[np.float64]
    """CPU time, by process; that of a running stage counts as a whole."""
    connections: NDArray[np.float64]
    """Open exchanges, by link (rows) and process."""
    connection_queued: NDArray[np.float64]
    """Messages that wait for a connection, likewise."""
    inside: NDArray[np.float64]
    """Calls inside, by limit."""
    limit_queued: NDArray[np.float64]
    limit_refused: NDArray[np.int64]
    in_flight: float
    """Calls that a caller waits for."""


class KernelDriver:
    """Simulation of a deployment under load."""

    def __init__(
        self,
        layout: Layout,
        arrivals: Iterator[tuple[float, ArrivalChunk]],
        take: Callable[[Any], None],
        events: Sequence[Event] = (),
    ) -> None:
        """
        Args:
            arrivals: chunks of arrivals, each with the time (ms) up to which it is complete.
            take: gets rows of the kernel; they are overwritten afterwards.
            events: incidents.

        Raises:
            UsageError: an incident concerns a replica, link or operation that does not exist.
        """
        from mpcsim.capacity.kernel import (
            simulation_loop,  # here: importing numba takes half a second
        )

        self._run_kernel = simulation_loop.run
        self.calls, self.network, self.service = layout.calls, layout.network, layout.service
        self._model = layout.model
        self._arrivals = arrivals
        self._take = take
        self._latencies = layout.latencies
        records, moments = incidents(layout, events)
        self.calls = self.calls._replace(incidents=records)
        self._schedule(moments)

    @property
    def state(self) -> Any:
        """Counters of the kernel."""
        return self.calls.state[0]

    def start_users(
        self,
        users: NDArray[np.int64],
        think_ms: float,
        mix: NDArray[np.float64],
        seed: int,
    ) -> None:
        """Start users of a closed workload, who call, wait for the answer, think, and call again.

        Args:
            users: the key of each.
            think_ms: mean think time (exponential).
            mix: shares of the operations, in the layout's order.
        """
        if len(mix) != len(self.calls.operations):
            raise UsageError(
                f"mix has {len(mix)} shares for {len(self.calls.operations)} operations"
            )
        source = generator(seed, "users")
        first = (
            source.exponential(think_ms, len(users))
            if think_ms > 0
            else source.uniform(0.0, START_SPREAD_MS, len(users))
        )
        self.calls.clients[0]["think_ms"] = think_ms
        shares = np.cumsum(mix) / np.sum(mix)
        shares[-1] = 1.0  # exactly, so that every draw is below it
        self.calls.operations["share"] = shares
        now = float(self.state["now"])
        self._schedule(
            [
                (now + at, kernel.USER_STARTS, member, int(user))
                for member, (at, user) in enumerate(zip(first.tolist(), users, strict=True))
            ]
        )

    def run(self, until_ms: float) -> None:
        """Advance virtual time to ``until_ms``."""
        while (
            why := self._run_kernel(self.calls, self.network, self.service, until_ms)
        ) != kernel.TIME_REACHED:
            self.make_room(why)

    def make_room(self, why: int) -> None:
        """Provide what the kernel has returned for."""
        more = {
            kernel.NEED_ARRIVALS: self._load_arrivals,
            kernel.NEED_ROWS: self.flush,
            kernel.NEED_CALLS: self._grow_calls,
            kernel.NEED_ORDERS: self._grow_orders,
            kernel.NEED_JOBS: self._grow_jobs,
            kernel.NEED_TRANSFERS: self._grow_transfers,
            kernel.NEED_CONNECTIONS: self._grow_connections,
            kernel.NEED_EVENTS: self._grow_events,
            kernel.NEED_SLOW_CALLS: self._drop_faster_half,
            kernel.NEED_LATENCIES: self._grow_latencies,
        }
        more[why]()

    def flush(self) -> None:
        """Hand over the rows that have been written."""
        self._take(self.calls.rows[: self.state["rows"]])
        self.state["rows"] = 0

    # ------------------------------------------------------------------ statistics

    def slow_calls(self) -> SlowCalls:
        """Return the slowest calls so far that succeeded."""
        rows = self.calls.slow_calls[: self.state["slow_calls"]]
        at = rows[:, kernel.KEPT_COLUMNS :]
        return SlowCalls(
            rows[:, : kernel.KEPT_COLUMNS].copy(),
            at.reshape(len(rows), at.shape[1] // kernel.MOMENTS, kernel.MOMENTS).copy(),
        )

    def usage_totals(self) -> UsageTotals:
        """Return the integrals of usage and queues up to now."""
        c, s, now = self.calls, self.service, float(self.state["now"])
        resources, processes = s.resources, s.processes
        taken = s.runners["job"][processes["loop"]] != kernel.NONE
        passed = now - processes["accounted_to"]
        queues = c.connection_queues.reshape(-1, len(processes))
        return UsageTotals(
            now,
            resources["used_ms"] + resources["busy"] * (now - resources["accounted_to"]),
            processes["loop_busy_ms"] + passed * taken,
            processes["queued_ms"] + passed * processes["waiting"],
            processes["thread_busy_ms"] + passed * processes["busy_threads"],
            processes["thread_queued_ms"] + passed * processes["thread_waiting"],
            processes["cpu_ms"].copy(),
            _integral(queues, "inside_ms", "inside", now),
            _integral(queues, "queued_ms", "waiting", now),
            _integral(c.limits, "inside_ms", "inside", now),
            _integral(c.limits, "queued_ms", "waiting", now),
            c.limits["refused"].copy(),
            float(
                self.state["in_flight_ms"]
                + self.state["in_flight"] * (now - self.state["accounted_to"])
            ),
        )

    def _drop_faster_half(self) -> None:
        """Drop the faster half of the slow calls, and keep only slower ones from now on."""
        c, n = self.calls, int(self.state["slow_calls"])
        took = c.slow_calls[:n, kernel.KEPT_ENDED] - c.slow_calls[:n, kernel.KEPT_DUE]
        slowest = np.sort(np.argsort(took, kind="stable")[n // 2 :])
        c.slow_calls[: len(slowest)] = c.slow_calls[slowest]
        self.state["slow_calls"] = len(slowest)
        self.state["keep_above_ms"] = took[slowest].min()

    # ------------------------------------------------------------------ arrivals and events

    def _load_arrivals(self) -> None:
        """Load the next chunk of arrivals."""
        known, (due, operation, user) = next(self._arrivals, (math.inf, _NOTHING))
        coming = np.zeros(len(due), kernel.ARRIVAL)
        coming["due"], coming["operation"], coming["user"] = due, operation, user
        self.calls = self.calls._replace(arrivals=coming)
        self.state["next"] = 0
        self.state["arrivals_known_to"] = known

    def _schedule(self, moments: Sequence[Moment]) -> None:
        """Schedule events that are known beforehand; sorted, they are a heap."""
        have, more = int(self.state["events"]), len(moments)
        if not more:
            return
        so_far = int(self.state["events_so_far"])
        events = np.zeros(max(len(self.calls.events), 2 * (have + more)), kernel.EVENT)
        events[:have] = self.calls.events[:have]
        new = events[have : have + more]
        for name, column in zip(
            ("at", "kind", "of", "number"), zip(*moments, strict=True), strict=True
        ):
            new[name] = column
        new["order"] = np.arange(so_far, so_far + more)
        events[: have + more].sort(order=("at", "order"))
        self.state["events"], self.state["events_so_far"] = have + more, so_far + more
        self.calls = self.calls._replace(events=events)

    # ------------------------------------------------------------------ growth of arrays

    def _grow_latencies(self) -> None:
        self._latencies.replace_used(self.calls.latencies, self.calls.directions["used"])
        self.state["most_used"] = self.calls.directions["used"].max()

    def _grow_calls(self) -> None:
        c = self.calls
        self.calls = c._replace(
            calls=self._lengthen(c.calls, "free_call"),
            unmet_needs=_enlarged(c.unmet_needs),
            moments=_enlarged(c.moments),
            connection=_enlarged(c.connection),
        )

    def _grow_orders(self) -> None:
        self.calls = self.calls._replace(orders=self._lengthen(self.calls.orders, "free_order"))

    def _grow_jobs(self) -> None:
        have = len(self.service.jobs)
        self.service = self.service._replace(jobs=self._lengthen(self.service.jobs, "free_job"))
        self.state["spare_jobs"] += len(self.service.jobs) - have

    def _lengthen(self, records: Any, first: str) -> Any:
        """Add free records to an array: they come first in its free list."""
        have = len(records)
        more = free_chain(records.dtype, _growth(have), have)
        more["following"][-1] = self.state[first]
        self.state[first] = have
        return np.concatenate([records, more])

    def _grow_transfers(self) -> None:
        have = len(self.network.transfers)
        deliveries = self._lengthen(self.calls.deliveries, "free_transfer")
        self.calls = self.calls._replace(deliveries=deliveries)
        more = len(deliveries) - have
        self.state["spare_transfers"] += more
        transfers = np.concatenate([self.network.transfers, traffic.idle_transfers(more)])
        self.network = self.network._replace(transfers=transfers)

    def _grow_connections(self) -> None:
        have = len(self.network.connections)
        self.network = traffic.with_more_connections(
            self._model, self.network, have + _growth(have)
        )

    def _grow_events(self) -> None:
        self.calls = self.calls._replace(events=_enlarged(self.calls.events))


_NOTHING: ArrivalChunk = (np.zeros(0), np.zeros(0, np.int64), np.zeros(0, np.int64))


def _integral(queues: Any, total: str, now_there: str, now: float) -> NDArray[np.float64]:
    """Return an integral of queues up to ``now``."""
    found: NDArray[np.float64] = queues[total] + queues[now_there] * (now - queues["accounted_to"])
    return found


def _growth(have: int) -> int:
    """Return by how many records an array grows: half its length."""
    return max(have // 2, kernel.MARGIN)


def _enlarged(records: Any) -> Any:
    """Return an array with zeroed records appended."""
    return np.concatenate(
        [records, np.zeros((_growth(len(records)), *records.shape[1:]), records.dtype)]
    )
