"""Takes what the kernel writes, and keeps what can be asked for later: memory does not grow with
the calls."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mpcsim.capacity.kernel import records as kernel
from mpcsim.capacity.results.parts import PARTS, latencies, parts_of
from mpcsim.capacity.simulation.driving import Drive
from mpcsim.sim.statistics.quantile_sketch import QuantileSketch

Floats = NDArray[np.float64]

OUTCOMES: Final = ("done", "refused", "timed out", "broken")
"""Of attempts, in the order of the kernel's numbers."""
CLASSES: Final = 600
"""Of latencies, for what calls of about the same latency are made of."""
RATIO: Final = 1.04
"""From one class to the next."""
FIRST_MS: Final = 0.01


class Gauges(NamedTuple):
    """What was the case during a window, on average. A row for each window."""

    cores: Floats
    """Part of each place's capacity that was used."""
    loops: Floats
    """Part of the time in which each process's event loop had something to do."""
    queues: Floats
    """Jobs that waited for each event loop."""
    threads: Floats
    """Threads of each process that were taken."""
    thread_queues: Floats
    """Jobs that waited for one of them."""
    connection_queues: Floats
    """Messages that waited for a connection, by link and process."""
    limit_queues: Floats
    """Calls that waited at each limit."""
    limit_refusals: Floats
    """Calls that each limit has refused, in a millisecond."""
    in_flight: Floats
    """Calls under way: one column."""


@dataclass
class Counts:
    """Calls of a window, by operation: those that ended in it, and what became of those that came
    in it."""

    attempts: NDArray[np.int64]
    """Attempts that ended, by ``OUTCOMES``: operations x outcomes."""
    ended: NDArray[np.int64]
    """Calls that ended, well or not: operations."""
    done: NDArray[np.int64]
    """Calls that succeeded, of these."""
    parts_ms: Floats
    """Sums over these, by ``PARTS``: operations x parts."""
    outcomes: NDArray[np.int64]
    """Calls that came, by how their last attempt ended (``OUTCOMES``): operations x outcomes."""
    latency: list[QuantileSketch]
    """Times of the calls that came and succeeded, by operation."""
    under_way: list[QuantileSketch]
    """Times so far of the calls that came and were not over when the run ended, by operation."""

    @classmethod
    def none(cls, operations: int) -> Counts:
        """Counts of no calls."""
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
        """Calls that came: operations."""
        under_way = np.array([sketch.count for sketch in self.under_way], np.int64)
        return np.asarray(self.outcomes.sum(axis=1) + under_way)


class Collector:
    """Of one run."""

    def __init__(self, edges_ms: Sequence[float], operations: Sequence[str]) -> None:
        """
        Args:
            edges_ms: where windows begin, and where the last one ends.
        """
        self.edges_ms = np.array(edges_ms)
        self.operations = tuple(operations)
        self.windows: list[Counts] = []
        self.made_of = np.zeros((len(operations), CLASSES, 1 + len(PARTS)))
        """Of calls by class of latency: how many, and their milliseconds by ``PARTS``."""
        self.spent_ms = 0.0
        """By callers with attempts, those that they are still making included."""
        self._still_ms = 0.0
        self._open: list[Floats] = []
        self._snapshots: list[Gauges] = []

    def take(self, rows: Floats) -> None:
        """Rows of the present window."""
        self._open.append(rows.copy())

    def close(self, drive: Drive) -> None:
        """The present window is over; all of its rows have been taken."""
        rows = np.concatenate(self._open) if self._open else np.empty((0, kernel.COLUMNS))
        self._open.clear()
        self._count_ended(rows)
        self._count_came(rows)
        self._snapshots.append(_snapshot(drive))
        calls = drive.calls.calls
        waiting = calls[(calls["number"] != kernel.NONE) & (calls["waited_for"] == 1)]
        still = float((drive.state["now"] - waiting["began"]).sum())
        self.spent_ms += still - self._still_ms
        self._still_ms = still

    def finish(self, drive: Drive) -> None:
        """Count what became of the calls that came before the last window's end: rows taken since
        then, and calls that are still under way."""
        end = self.edges_ms[-1]
        rows = np.concatenate(self._open) if self._open else np.empty((0, kernel.COLUMNS))
        self._open.clear()
        self._count_came(rows[rows[:, kernel.DUE] < end])
        waiting = pending(drive)
        waiting = waiting[waiting["due"] < end]
        for window, operation, of_it in self._by_arrival(waiting["due"], waiting["operation"]):
            times = float(drive.state["now"]) - waiting["due"][of_it]
            self.windows[window].under_way[operation].add(times)

    def is_complete(self, drive: Drive) -> bool:
        """Return whether every call that came before the last window's end is over."""
        return not (pending(drive)["due"] < self.edges_ms[-1]).any()

    def _count_came(self, rows: Floats) -> None:
        """Count calls that are over in the windows in which they came."""
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
        """Window and operation of calls, and which calls they are."""
        last = len(self.windows) - 1
        found = np.clip(np.searchsorted(self.edges_ms, due, "right") - 1, 0, last)
        for window in np.unique(found).tolist():
            for operation in range(len(self.operations)):
                yield window, operation, (found == window) & (operations == operation)

    def _count_ended(self, rows: Floats) -> None:
        n = len(self.operations)
        counts = Counts.none(n)
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
            took, made_of = latencies(of_it), parts_of(of_it)
            counts.parts_ms[k] = made_of.sum(axis=0)
            classes = class_of(took)
            np.add.at(self.made_of[k, :, 0], classes, 1)
            np.add.at(self.made_of[k, :, 1:], classes, made_of)

    def gauges(self) -> Gauges:
        """Of all windows."""
        lengths = np.diff(self.edges_ms)[: len(self._snapshots), None]
        sums = Gauges(*(np.array(each) for each in zip(*self._snapshots, strict=True)))
        return Gauges(*(np.diff(each, axis=0, prepend=0.0) / lengths for each in sums))


def pending(drive: Drive) -> NDArray[Any]:
    """Return the orders that callers have given, or will give, and that are not over."""
    orders = drive.calls.orders
    known = np.ones(len(orders), bool)
    free = int(drive.state["free_order"])
    while free != kernel.NONE:
        known[free] = False
        free = int(orders["following"][free])
    found: NDArray[Any] = orders[known]
    return found


def class_of(took_ms: Floats) -> NDArray[np.int64]:
    """The class of each latency."""
    found = np.log(np.maximum(took_ms, FIRST_MS) / FIRST_MS) / math.log(RATIO)
    return np.minimum(found.astype(np.int64), CLASSES - 1)


def _of_cores(used: Floats, cores: NDArray[np.int64]) -> Floats:
    """Disks, which have none, are never full."""
    return np.divide(used, cores, out=np.zeros_like(used), where=cores > 0)


def _snapshot(drive: Drive) -> Gauges:
    """Everything up to now, in units of time."""
    accounts = drive.accounts()
    return Gauges(
        _of_cores(accounts.used, drive.service.places["cores"]),
        accounts.loop_taken,
        accounts.queued,
        accounts.thread_taken,
        accounts.thread_queued,
        accounts.connection_queued.ravel(),
        accounts.limit_queued,
        accounts.limit_refused.astype(np.float64),
        np.array([accounts.in_flight_ms]),
    )
