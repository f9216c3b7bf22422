"""Takes what the kernel writes, and keeps what can be asked for later: memory does not grow with
the calls."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mpcsim.capacity.kernel import records as kernel
from mpcsim.capacity.results.parts import PARTS, latencies, parts_of
from mpcsim.capacity.simulation.driving import Drive
from mpcsim.sim.sketch import Sketch

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
    """A window's calls, by operation."""

    attempts: NDArray[np.int64]
    """By ``OUTCOMES``: operations x outcomes."""
    ended: NDArray[np.int64]
    """Calls that are over, well or not: operations."""
    done: NDArray[np.int64]
    """Calls that succeeded."""
    parts_ms: Floats
    """Sums over these, by ``PARTS``: operations x parts."""
    latency: list[Sketch]
    """Of these, by operation."""


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
        self.windows.append(self._counted(rows))
        self._snapshots.append(_snapshot(drive))
        calls = drive.calls.calls
        waiting = calls[(calls["number"] != kernel.NONE) & (calls["waited_for"] == 1)]
        still = float((drive.state["now"] - waiting["began"]).sum())
        self.spent_ms += still - self._still_ms
        self._still_ms = still

    def _counted(self, rows: Floats) -> Counts:
        n = len(self.operations)
        self.spent_ms += float((rows[:, kernel.ENDED] - rows[:, kernel.BEGAN]).sum())
        operation = rows[:, kernel.OPERATION_OF].astype(np.int64)
        outcome = rows[:, kernel.OUTCOME].astype(np.int64)
        attempts = np.zeros((n, len(OUTCOMES)), np.int64)
        np.add.at(attempts, (operation, outcome), 1)
        final = rows[:, kernel.FINAL] == 1
        ended = np.bincount(operation[final], minlength=n)
        well = final & (outcome == kernel.DONE)
        done = np.bincount(operation[well], minlength=n)
        parts = np.zeros((n, len(PARTS)))
        sketches = []
        for k in range(n):
            of_it = rows[well & (operation == k)]
            took, made_of = latencies(of_it), parts_of(of_it)
            parts[k] = made_of.sum(axis=0)
            sketch = Sketch()
            sketch.add(took)
            sketches.append(sketch)
            classes = class_of(took)
            np.add.at(self.made_of[k, :, 0], classes, 1)
            np.add.at(self.made_of[k, :, 1:], classes, made_of)
        return Counts(attempts, ended, done, parts, sketches)

    def gauges(self) -> Gauges:
        """Of all windows."""
        lengths = np.diff(self.edges_ms)[: len(self._snapshots), None]
        sums = Gauges(*(np.array(each) for each in zip(*self._snapshots, strict=True)))
        return Gauges(*(np.diff(each, axis=0, prepend=0.0) / lengths for each in sums))


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
