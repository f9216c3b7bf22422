"""Collector of the kernel's rows: aggregates in windows, so that memory does not grow with the
calls."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mpcsim.capacity.kernel import records as kernel
from mpcsim.capacity.results.parts import PARTS, latencies, latency_parts
from mpcsim.capacity.simulation.driver import KernelDriver
from mpcsim.sim.statistics.quantile_sketch import QuantileSketch

Floats = NDArray[np.float64]

OUTCOMES: Final = ("done", "refused", "timed out", "broken")
"""Outcomes of attempts, in the order of the kernel's numbers."""
CLASSES: Final = 600
"""Classes of latency, by which latencies are broken down."""
RATIO: Final = 1.04
"""Ratio of the bounds of a class."""
FIRST_MS: Final = 0.01


class Gauges(NamedTuple):
    """Time averages of each window: a row for each."""

    cores: Floats
    """Utilisation, by resource."""
    loops: Floats
    """Utilisation of the event loop, by process."""
    queues: Floats
    """Jobs that wait for the event loop, by process."""
    threads: Floats
    """Busy pool threads, by process."""
    thread_queues: Floats
    """Jobs that wait for a pool thread, by process."""
    connection_queues: Floats
    """Messages that wait for a connection, by link and process."""
    limit_queues: Floats
    """Calls that wait, by limit."""
    limit_refusals: Floats
    """Refusals a millisecond, by limit."""
    in_flight: Floats
    """Calls in flight: one column."""


@dataclass
class Counts:
    """Counts of a window, by operation: of calls that ended in it, and of calls that arrived in
    it."""

    attempts: NDArray[np.int64]
    """Attempts that ended, by ``OUTCOMES``: operations x outcomes."""
    ended: NDArray[np.int64]
    """Calls that ended, successfully or not: operations."""
    done: NDArray[np.int64]
    """Calls that succeeded, of these."""
    parts_ms: Floats
    """Sums of their latencies by ``PARTS``: operations x parts."""
    outcomes: NDArray[np.int64]
    """Calls that arrived, by the outcome of their last attempt: operations x outcomes."""
    latency: list[QuantileSketch]
    """Latencies of calls that arrived and succeeded, by operation."""
    under_way: list[QuantileSketch]
    """Times so far of calls that arrived and were not over at the end of the run, by operation."""

    @classmethod
    def empty(cls, operations: int) -> Counts:
        """Return the counts of a window without calls."""
        by_outcome = (operations, len(OUTCOMES))
        return cls(
            np.zeros(by_outcome, np.int64),
            np.zeros(operations, np.int64),
            np.zeros(operations, np.int64),
            np.zeros((operations, len(PARTS))),
            np.zeros(by_outcome, np.int64),
            [QuantileSketch() for _ in range(operations)],
            [QuantileSketch() for _ in range(operations)],
        )

    @property
    def came(self) -> NDArray[np.int64]:
        """Calls that arrived, by operation."""
        under_way = np.array([sketch.count for sketch in self.under_way], np.int64)
        return np.asarray(self.outcomes.sum(axis=1) + under_way)


class Collector:
    """Collector of one run."""

    def __init__(self, edges_ms: Sequence[float], operations: Sequence[str]) -> None:
        """
        Args:
            edges_ms: beginnings of the windows, and the end of the last.
        """
        self.edges_ms = np.array(edges_ms)
        self.operations = tuple(operations)
        self.windows: list[Counts] = []
        self.made_of = np.zeros((len(operations), CLASSES, 1 + len(PARTS)))
        """Calls by class of latency: their number, and their milliseconds by ``PARTS``."""
        self.spent_ms = 0.0
        """Time of callers with attempts, unfinished ones included."""
        self._still_ms = 0.0
        self._open: list[Floats] = []
        self._snapshots: list[Gauges] = []

    def take(self, rows: Floats) -> None:
        """Take rows of the present window."""
        self._open.append(rows.copy())

    def close_window(self, driver: KernelDriver) -> None:
        """End the present window; all of its rows have been taken."""
        rows = np.concatenate(self._open) if self._open else np.empty((0, kernel.COLUMNS))
        self._open.clear()
        self._count_ended(rows)
        self._count_came(rows)
        self._snapshots.append(_snapshot(driver))
        calls = driver.calls.calls
        waiting = calls[(calls["number"] != kernel.NONE) & (calls["awaited"] == 1)]
        still = float((driver.state["now"] - waiting["began"]).sum())
        self.spent_ms += still - self._still_ms
        self._still_ms = still

    def finish(self, driver: KernelDriver) -> None:
        """Count the outcome of calls that arrived before the last window's end: rows taken since,
        and calls that are still in flight."""
        end = self.edges_ms[-1]
        rows = np.concatenate(self._open) if self._open else np.empty((0, kernel.COLUMNS))
        self._open.clear()
        self._count_came(rows[rows[:, kernel.DUE] < end])
        waiting = open_orders(driver)
        waiting = waiting[waiting["due"] < end]
        for window, operation, of_it in self._by_arrival(waiting["due"], waiting["operation"]):
            times = float(driver.state["now"]) - waiting["due"][of_it]
            self.windows[window].under_way[operation].add(times)

    def is_complete(self, driver: KernelDriver) -> bool:
        """Return whether every call that arrived before the last window's end is over."""
        return not (open_orders(driver)["due"] < self.edges_ms[-1]).any()

    def _count_came(self, rows: Floats) -> None:
        """Count calls that are over in the windows in which they arrived."""
        rows = rows[rows[:, kernel.FINAL] == 1]
        outcome = rows[:, kernel.OUTCOME].astype(np.int64)
        operations = rows[:, kernel.OPERATION_OF].astype(np.int64)
        for window, operation, of_it in self._by_arrival(rows[:, kernel.DUE], operations):
            counts = self.windows[window]
            counts.outcomes[operation] += np.bincount(outcome[of_it], minlength=len(OUTCOMES))
            well = rows[of_it & (outcome == kernel.DONE)]
            counts.latency[operation].add(latencies(well))

    def _by_arrival(
        self, due: Floats, operations: NDArray[np.int64]
    ) -> Iterator[tuple[int, int, NDArray[np.bool_]]]:
        """Yield window and operation of calls, and which calls these are."""
        last = len(self.windows) - 1
        found = np.clip(np.searchsorted(self.edges_ms, due, "right") - 1, 0, last)
        for window in np.unique(found).tolist():
            for operation in range(len(self.operations)):
                yield window, operation, (found == window) & (operations == operation)

    def _count_ended(self, rows: Floats) -> None:
        """Count calls that ended in the present window."""
        n = len(self.operations)
        counts = Counts.empty(n)
        self.windows.append(counts)
        self.spent_ms += float((rows[:, kernel.ENDED] - rows[:, kernel.BEGAN]).sum())
        operation = rows[:, kernel.OPERATION_OF].astype(np.int64)
        outcome = rows[:, kernel.OUTCOME].astype(np.int64)
        np.add.at(counts.attempts, (operation, outcome), 1)
        final = rows[:, kernel.FINAL] == 1
        counts.ended += np.bincount(operation[final], minlength=n)
        well = final & (outcome == kernel.DONE)
        counts.done += np.bincount(operation[well], minlength=n)
        for k in range(n):
            of_it = rows[well & (operation == k)]
            took, made_of = latencies(of_it), latency_parts(of_it)
            counts.parts_ms[k] = made_of.sum(axis=0)
            classes = latency_class(took)
            np.add.at(self.made_of[k, :, 0], classes, 1)
            np.add.at(self.made_of[k, :, 1:], classes, made_of)

    def gauges(self) -> Gauges:
        """Return the time averages of all windows."""
        lengths = np.diff(self.edges_ms)[: len(self._snapshots), None]
        sums = Gauges(*(np.array(each) for each in zip(*self._snapshots, strict=True)))
        return Gauges(*(np.diff(each, axis=0, prepend=0.0) / lengths for each in sums))


def open_orders(driver: KernelDriver) -> NDArray[Any]:
    """Return the orders of callers that are not over, future ones included."""
    orders = driver.calls.orders
    known = np.ones(len(orders), bool)
    free = int(driver.state["free_order"])
    while free != kernel.NONE:
        known[free] = False
        free = int(orders["following"][free])
    found: NDArray[Any] = orders[known]
    return found


def latency_class(took_ms: Floats) -> NDArray[np.int64]:
    """Return the class of each latency."""
    found = np.log(np.maximum(took_ms, FIRST_MS) / FIRST_MS) / math.log(RATIO)
    return np.minimum(found.astype(np.int64), CLASSES - 1)


def _per_core(used: Floats, cores: NDArray[np.int64]) -> Floats:
    """Divide the used capacity by the number of cores; disks have none, and are never saturated."""
    return np.divide(used, cores, out=np.zeros_like(used), where=cores > 0)


def _snapshot(driver: KernelDriver) -> Gauges:
    """Return the integrals of all gauges up to now."""
    totals = driver.usage_totals()
    return Gauges(
        _per_core(totals.used, driver.service.resources["cores"]),
        totals.loop_busy,
        totals.queued,
        totals.thread_busy,
        totals.thread_queued,
        totals.connection_queued.ravel(),
        totals.limit_queued,
        totals.limit_refused.astype(np.float64),
        np.array([totals.in_flight]),
    )
