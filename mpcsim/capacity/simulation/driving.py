"""Drives the kernel: gives it arrivals and room, and takes what it has written."""

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
from mpcsim.capacity.simulation.layout import Layout, chained
from mpcsim.errors import UsageError
from mpcsim.sim.network import traffic
from mpcsim.sim.streams import generator

Chunk = tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.int64]]
"""Calls that come: when (ms), for which operation, whose."""
SPREAD_MS = 1000.0
"""Users who do not think begin within this time."""


@dataclass(frozen=True)
class Kept:
    """Slow calls, in the order in which they ended."""

    calls: NDArray[np.float64]
    """Columns ``KEPT_...`` of ``mpcsim.capacity.kernel.records``."""
    at: NDArray[np.float64]
    """Moments (last axis, ms) of each message of its operation, and its ``WORK``."""


@dataclass(frozen=True)
class Accounts:
    """Sums since the beginning, in the order of the layout's lists."""

    at_ms: float
    used: NDArray[np.float64]
    """Of each place: milliseconds times what was used of it."""
    loop_taken: NDArray[np.float64]
    """Of each process: milliseconds in which its event loop had something to do."""
    queued: NDArray[np.float64]
    """Milliseconds times the jobs that waited for it."""
    thread_taken: NDArray[np.float64]
    thread_queued: NDArray[np.float64]
    cpu: NDArray[np.float64]
    """Core milliseconds, those of what is being done included as a whole."""
    connections: NDArray[np.float64]
    """Of each link (rows) and process: milliseconds times its requests over it that are open."""
    connection_queued: NDArray[np.float64]
    """Milliseconds times messages that waited for a connection."""
    inside: NDArray[np.float64]
    """Of each limit: milliseconds times calls."""
    limit_queued: NDArray[np.float64]
    limit_refused: NDArray[np.int64]
    in_flight_ms: float
    """Milliseconds times the calls that somebody waited for."""


class Drive:
    """A deployment at work."""

    def __init__(
        self,
        layout: Layout,
        arrivals: Iterator[tuple[float, Chunk]],
        take: Callable[[Any], None],
        events: Sequence[Event] = (),
    ) -> None:
        """
        Args:
            arrivals: parts of them, each with the time (ms) up to which it is complete.
            take: gets rows of the kernel; they are written over afterwards.
            events: what happens meanwhile.

        Raises:
            UsageError: an event is about something that there is not.
        """
        from mpcsim.capacity.kernel import course  # here: it comes with half a second of numba

        self._go = course.run
        self.calls, self.network, self.service = layout.calls, layout.network, layout.service
        self._model = layout.model
        self._arrivals = arrivals
        self._take = take
        self._latencies = layout.latencies
        records, moments = incidents(layout, events)
        self.calls = self.calls._replace(incidents=records)
        self._plan(moments)

    @property
    def state(self) -> Any:
        """The kernel's counters."""
        return self.calls.state[0]

    def begin(
        self,
        users: NDArray[np.int64],
        think_ms: float,
        mix: NDArray[np.float64],
        seed: int,
    ) -> None:
        """Have users begin who call, wait for the answer, think, and call again.

        Args:
            users: the key of each.
            think_ms: on average; exponential.
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
            else source.uniform(0.0, SPREAD_MS, len(users))
        )
        self.calls.client[0]["thinking"] = think_ms
        shares = np.cumsum(mix) / np.sum(mix)
        shares[-1] = 1.0  # above all that is drawn
        self.calls.operations["share"] = shares
        now = float(self.state["now"])
        self._plan(
            [
                (now + at, kernel.JOINS, member, int(user))
                for member, (at, user) in enumerate(zip(first.tolist(), users, strict=True))
            ]
        )

    def run(self, until_ms: float) -> None:
        """Go on up to a time."""
        while (why := self._go(self.calls, self.network, self.service, until_ms)) != kernel.REACHED:
            self.make_room(why)

    def make_room(self, why: int) -> None:
        """Give the kernel what it has come back for."""
        more = {
            kernel.ARRIVALS: self._next,
            kernel.FULL: self.flush,
            kernel.CALLS: self._more_calls,
            kernel.ORDERS: self._more_orders,
            kernel.JOBS: self._more_jobs,
            kernel.TRANSFERS: self._more_transfers,
            kernel.CONNECTIONS: self._more_connections,
            kernel.EVENTS: self._more_events,
            kernel.KEPT: self._keep_fewer,
            kernel.LATENCIES: self._more_latencies,
        }
        more[why]()

    def flush(self) -> None:
        """Hand over the rows that are written."""
        self._take(self.calls.rows[: self.state["rows"]])
        self.state["rows"] = 0

    # ------------------------------------------------------------------ what it was like

    def kept(self) -> Kept:
        """The slowest calls so far that were done."""
        rows = self.calls.kept[: self.state["kept"]]
        at = rows[:, kernel.KEPT_COLUMNS :]
        return Kept(
            rows[:, : kernel.KEPT_COLUMNS].copy(),
            at.reshape(len(rows), at.shape[1] // kernel.MOMENTS, kernel.MOMENTS).copy(),
        )

    def accounts(self) -> Accounts:
        """What was used, and what has waited, up to now."""
        c, s, now = self.calls, self.service, float(self.state["now"])
        places, processes = s.places, s.processes
        taken = s.runners["job"][processes["loop"]] != kernel.NONE
        passed = now - processes["since"]
        lines = c.lines.reshape(-1, len(processes))
        return Accounts(
            now,
            places["used"] + places["busy"] * (now - places["since"]),
            processes["loop_taken"] + passed * taken,
            processes["queued"] + passed * processes["waiting"],
            processes["thread_taken"] + passed * processes["threads_taken"],
            processes["thread_queued"] + passed * processes["thread_waiting"],
            processes["cpu"].copy(),
            _sum_of(lines, "taken", "inside", now),
            _sum_of(lines, "queued", "waiting", now),
            _sum_of(c.limits, "taken", "inside", now),
            _sum_of(c.limits, "queued", "waiting", now),
            c.limits["refused"].copy(),
            float(
                self.state["in_flight_ms"] + self.state["in_flight"] * (now - self.state["since"])
            ),
        )

    def _keep_fewer(self) -> None:
        """Forget the quicker half of the calls that are kept, and keep none that is quicker."""
        c, n = self.calls, int(self.state["kept"])
        took = c.kept[:n, kernel.KEPT_ENDED] - c.kept[:n, kernel.KEPT_DUE]
        slowest = np.sort(np.argsort(took, kind="stable")[n // 2 :])
        c.kept[: len(slowest)] = c.kept[slowest]
        self.state["kept"] = len(slowest)
        self.state["keep_above"] = took[slowest].min()

    # ------------------------------------------------------------------ what comes

    def _next(self) -> None:
        known, (due, operation, user) = next(self._arrivals, (math.inf, _NOTHING))
        coming = np.zeros(len(due), kernel.ARRIVAL)
        coming["due"], coming["operation"], coming["user"] = due, operation, user
        self.calls = self.calls._replace(arrivals=coming)
        self.state["next"] = 0
        self.state["known"] = known

    def _plan(self, moments: Sequence[Moment]) -> None:
        """More events that are known beforehand; in order, they are a heap."""
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

    # ------------------------------------------------------------------ room

    def _more_latencies(self) -> None:
        self._latencies.renew(self.calls.latencies, self.calls.ways["used"])
        self.state["most_used"] = self.calls.ways["used"].max()

    def _more_calls(self) -> None:
        c = self.calls
        self.calls = c._replace(
            calls=self._chain(c.calls, "free_call"),
            missing=_larger(c.missing),
            at=_larger(c.at),
            carrier=_larger(c.carrier),
        )

    def _more_orders(self) -> None:
        self.calls = self.calls._replace(orders=self._chain(self.calls.orders, "free_order"))

    def _more_jobs(self) -> None:
        have = len(self.service.jobs)
        self.service = self.service._replace(jobs=self._chain(self.service.jobs, "free_job"))
        self.state["spare_jobs"] += len(self.service.jobs) - have

    def _chain(self, records: Any, first: str) -> Any:
        """More of them; the new ones before the free ones that there are."""
        have = len(records)
        more = chained(records.dtype, _more(have), have)
        more["following"][-1] = self.state[first]
        self.state[first] = have
        return np.concatenate([records, more])

    def _more_transfers(self) -> None:
        have = len(self.network.transfers)
        flights = self._chain(self.calls.flights, "free_transfer")
        self.calls = self.calls._replace(flights=flights)
        more = len(flights) - have
        self.state["spare_transfers"] += more
        transfers = np.concatenate([self.network.transfers, traffic.idle_transfers(more)])
        self.network = self.network._replace(transfers=transfers)

    def _more_connections(self) -> None:
        have = len(self.network.connections)
        self.network = traffic.with_more_connections(self._model, self.network, have + _more(have))

    def _more_events(self) -> None:
        self.calls = self.calls._replace(events=_larger(self.calls.events))


_NOTHING: Chunk = (np.zeros(0), np.zeros(0, np.int64), np.zeros(0, np.int64))


def _sum_of(lines: Any, total: str, now_there: str, now: float) -> NDArray[np.float64]:
    found: NDArray[np.float64] = lines[total] + lines[now_there] * (now - lines["since"])
    return found


def _more(have: int) -> int:
    """So many records more: half as many as there are."""
    return max(have // 2, kernel.MARGIN)


def _larger(records: Any) -> Any:
    return np.concatenate(
        [records, np.zeros((_more(len(records)), *records.shape[1:]), records.dtype)]
    )
