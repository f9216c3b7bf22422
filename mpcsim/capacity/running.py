"""Capacity model of the service: a discrete-event simulation of it under load, in virtual time.

It answers how long calls take at an offered load, which resource saturates first, and what more
cores, replicas or a shorter time-out would change. Names below without a module are in ``kernel``.

Resources (``simulation.machines``)
    CPU         a machine has ``cores``, each with a run queue; scheduling as in Linux's CFS, with
                three fitted probabilities and a migration cost (``cpu_scheduler``)
    disk        infinite server; its times were measured with their queueing
    process     an event loop (one job at a time, first come, first served) and a thread pool of
                ``threads`` threads (``process_queues``)
    network     links with latency, bandwidth and loss; messages are carried by the TCP model,
                segment by segment (``mpcsim.sim.network.tcp``), over ``MAX_CONNECTIONS``
                connections for each process and link (``connection_pool``)
    key locks   a user's key is locked during parts of a call (``admission.acquire_locks``)

Workload (``model.workload``)
    open        Poisson arrivals at a rate, piecewise constant, or arrivals at given times
                (``model.arrivals.draw_times``, ``orders.new_order``)
    closed      N users: call, answer, exponential think time Z (``orders.next_closed_order``)
    users       user n calls in proportion to n^-skew (``running.popularity``)
    retries     attempt i + 1 follows failed attempt i after
                pause * factor^(i - 1) * (1 - jitter * u), u uniform (``completion.end_call``);
                an attempt times out after ``timeout_s``, and the service continues with it

Call
    graph       messages, and what each waits for, are recorded from the real service
                (``recording.record_operation``, ``simulation.call_graph``)
    message     sent, connected, arrived, admitted, handled, completed (``messages``)
    handling    stages: bursts of CPU, disk, or both, in the event loop or a thread; their times are
                drawn from measured quantiles (``draws.quantile``)
    iteration   an event-loop iteration costs ``turn_ms``, shared by the jobs in it, and after a
                pause t additionally cold_ms * (1 - exp(-t / cooling_ms))
                (``process_queues._start_loop_job``)
    admission   a limit admits ``at_once`` calls, queues ``waiting`` more, and refuses the others
                (``admission.enter_limit``)

Incidents (``model.incidents``, ``incidents``): crash, pause, rolling restart, slower link, recovery
of all keys. A call fails if a process with an unanswered request of it crashes, or if the answer to
one of its requests is late: the node waits 30 s for the gateway, the gateway 20 s for an MPC node
(``process_failures``).

Costs (``model.costs``)
    measured    on a real service with meters at several loads (``calibration``): the service demand
                of each stage as a distribution, the cost of iterations by non-negative least
                squares (``calibration.fitting``), the scheduler's probabilities from the throughput
                of closed workloads with 1, 4, 12 and 32 calls (``calibration.scheduling``)
    scaled      to another machine by four primitives (``model.speed``)
    refused     if recorded messages differ from those measured (``Costs.check_version``)

Results (``results``)
    latency     quantile sketches in windows; intervals from batch means (``results.intervals``)
    bound       throughput <= 1 / max_k D_k, with D_k the demand at resource k, directions of links
                included (``demand``)
    shortages   tests with an error rate of 1 % (``results.answers``)
    check       Little's law: calls in flight = throughput * latency (``RunRecord.littles_law``)

Validated
    exactly     the means of M/D/1, M/M/3, M/G/1 with processor sharing, M/M/c behind a limit
                (Erlang B and C) and closed workloads (mean value analysis) lie in 99 % confidence
                intervals, half widths at most 5 to 8 % (``tests/capacity/test_closed_forms.py``)
    exactly     the real service's code on the same resources gives the same rows as recorded
                messages, for the same draws (``tests/capacity/test_real.py``)
    measured    ``mpcsim bench --only capacity``: the real service on the same machine. Bounds: at
                30 and 60 % load p50 10 %, p99 20 %; at 80 % 15 % and 25 %; saturated throughput
                5 %, percentiles 10 %; or twice the service's own scatter, if that is more. The
                last figures are in notebooks/guides/models.md

Left out: single callbacks of event loops, garbage collection, reads of databases, locks within MPC
nodes, priorities and hyper-threads; lifetimes of sessions, by which the real service also fails
calls that an MPC node has kept waiting for more than 15 s. More than one process of gateway or MPC
node is extrapolation (``Model.extrapolated``).

Random numbers are hashes of their purpose (``draws.hash64``): a change of one input leaves all
other draws as they were, and the order of events does not matter.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from mpcsim.capacity.demand import Demand, demand
from mpcsim.capacity.kernel import records as kernel
from mpcsim.capacity.model.arrivals import Users, draw_times
from mpcsim.capacity.model.costs import Costs
from mpcsim.capacity.model.incidents import BulkReshare
from mpcsim.capacity.model.limits import Limit
from mpcsim.capacity.model.parts import EXACTNESSES, Exactness, Model
from mpcsim.capacity.model.workload import OPERATIONS, Workload
from mpcsim.capacity.recording import record_operation
from mpcsim.capacity.results.collecting import Collector
from mpcsim.capacity.results.run import Run
from mpcsim.capacity.simulation.driver import ArrivalChunk, KernelDriver, SlowCalls
from mpcsim.capacity.simulation.layout import Layout
from mpcsim.errors import UsageError, unknown
from mpcsim.sim.network.transport import Connection
from mpcsim.sim.streams import generator

WINDOWS: Final = 60
"""Windows of a run by default."""
MAKINGS: Final = ("generate", "recover")
NO_EFFECT: Final = (
    "cold",
    "tls_round_trips",
    "forwarding",
    "pool",
    "resumption",
    "early_data",
)
"""Options of ``Connection`` that only concern single calls and sessions."""
_USUAL: Final = Connection()
CHUNK_S: Final = 60.0
"""Interval for which arrivals are drawn at a time."""
COOL_DOWN: Final = 0.1
"""Longest continuation of a run after its end, relative to its length, until all calls that arrived
before are over."""
COOL_DOWN_S: Final = 10.0
"""Longest continuation of a shorter run, unless it is itself shorter."""
LOOKS: Final = 40
"""Times at which a continued run may stop."""


def run(
    deployment: Model,
    workload: Workload,
    length_s: float,
    *,
    seed: int = 1,
    costs: Costs | str | Path | None = None,
    exactness: Exactness = "recorded",
    windows: int = WINDOWS,
    progress: Callable[[float], None] = lambda part: None,
) -> Run:
    """Run a workload for ``length_s`` seconds, as ``Deployment.run`` does.

    Raises:
        UsageError: no finite length, or something about the costs is not known.
    """
    if not 0 < length_s < math.inf:
        raise UsageError(
            f"a run of {length_s:g} s: say how long (hours, minutes, seconds); workloads never end"
        )
    if exactness not in EXACTNESSES:
        raise UsageError(unknown("exactness", exactness, EXACTNESSES))
    check_options(deployment, workload)
    known = costs_of(costs)
    layout = _layout(deployment, workload, known, seed)
    edges = np.linspace(0.0, length_s * 1000, windows + 1)
    collector = Collector(edges.tolist(), layout.operations)
    with ExitStack() as opened:
        arrivals = _arrivals(workload, length_s, seed)
        if exactness == "recorded":
            driver = KernelDriver(layout, arrivals, collector.take, workload.events)
        else:
            from mpcsim.capacity.real.loaded import (
                LoadedService,  # here: it loads the whole service
            )

            driver = opened.enter_context(
                LoadedService(
                    layout,
                    deployment,
                    arrivals,
                    collector.take,
                    workload.events,
                    seed=seed,
                    compute="live" if exactness == "live" else "sampled",
                )
            )
        if isinstance(workload.arrivals, Users):
            everyone = np.arange(workload.arrivals.count) % workload.users
            mix = np.array([workload.mix.get(name, 0.0) for name in layout.operations])
            driver.start_users(everyone, workload.arrivals.think_s * 1000, mix, seed)
        for number, end in enumerate(edges[1:], 1):
            driver.run(float(end))
            driver.flush()
            collector.close_window(driver)
            progress(number / windows)
        _cool_down(driver, collector, length_s)
        slow = driver.slow_calls()
    in_time = slow.rows[:, kernel.KEPT_DUE] < edges[-1]
    slow = SlowCalls(slow.rows[in_time], slow.moments[in_time])
    demands = demand(layout, dict(enumerate(workload.mix.values())))
    return Run(deployment, workload, seed, collector, layout, demands, known, slow)


def _cool_down(driver: KernelDriver, collector: Collector, length_s: float) -> None:
    """Continue, with calls still arriving, until those from before the run's end are over, within
    limits."""
    extra_s = _extra_s(length_s)
    for look in range(1, LOOKS + 1):
        if collector.is_complete(driver):
            break
        driver.run(1000 * (length_s + extra_s * look / LOOKS))
        driver.flush()
    collector.finish(driver)


def _extra_s(length_s: float) -> float:
    """Return the longest continuation of a run after its end."""
    return max(COOL_DOWN * length_s, min(length_s, COOL_DOWN_S))


def check_options(deployment: Model, workload: Workload) -> None:
    """Refuse options that have no effect under load.

    Services keep their connections open, so that no handshake takes time; each process has a pool
    of them as in ``mpcsim.service.rpc``; the gateway stores messages and forwards them. In a closed
    workload each user calls when it has its answer, so that none calls more often.

    Raises:
        UsageError: an option has no effect; says which.
    """
    connection = deployment.network.connection
    for name in NO_EFFECT:
        value, default = getattr(connection, name), getattr(_USUAL, name)
        if value != default:
            raise UsageError(
                f"connection {name} is {value!r}: it has no effect under load, where services keep "
                f"their own pools of connections open; leave it {default!r}, or simulate one call"
            )
    if isinstance(workload.arrivals, Users) and workload.skew:
        raise UsageError(
            f"workload skew is {workload.skew:g}: it has no effect on users who wait for their "
            "answers; leave it 0, or let calls come at a rate"
        )


def demand_of(
    deployment: Model, workload: Workload, costs: Costs | str | Path | None = None
) -> Demand:
    """Return the service demand of a workload at each resource of a deployment."""
    layout = _layout(deployment, workload, costs_of(costs), 0)
    return demand(layout, dict(enumerate(workload.mix.values())))


def _layout(deployment: Model, workload: Workload, costs: Costs, seed: int) -> Layout:
    """Return the kernel's arrays for a run."""
    names = [
        *workload.mix,
        *(name for name in _reshare_operations(workload) if name not in workload.mix),
    ]
    operations = [record_operation(name) for name in names]
    costs.check_version(operations)
    makings = tuple(name for name in names if OPERATIONS[name].verb in MAKINGS)
    limits = []
    if deployment.making_limit and makings:
        limits.append(Limit(makings, deployment.making_limit, deployment.making_queue))
    return Layout(
        deployment, operations, costs, workload.client, workload.users, seed, limits=limits
    )


def _reshare_operations(workload: Workload) -> list[str]:
    """Return the operations that only incidents cause."""
    return [f"recover {event.curve}" for event in workload.events if isinstance(event, BulkReshare)]


def costs_of(costs: Costs | str | Path | None) -> Costs:
    """Return costs, or those in a file; None: those that come with the package.

    Raises:
        UsageError: there is no such file, or it is none of costs.
    """
    if costs is None:
        return Costs.measured()
    if isinstance(costs, Costs):
        return costs
    try:
        return Costs.load(costs)
    except OSError as error:
        raise UsageError(f"costs: {costs}: {error.strerror or error}") from None


def _arrivals(
    workload: Workload, length_s: float, seed: int
) -> Iterator[tuple[float, ArrivalChunk]]:
    """Yield chunks of arrivals, each with the time up to which it is complete."""
    arrivals = workload.arrivals
    if isinstance(arrivals, Users):
        return
    which = np.cumsum(list(workload.mix.values()))
    cumulative = popularity(workload.users, workload.skew)
    edges = [*np.arange(0.0, length_s, CHUNK_S).tolist(), length_s]
    edges += [*np.arange(length_s, length_s + _extra_s(length_s), CHUNK_S).tolist()[1:]]
    edges.append(length_s + _extra_s(length_s))
    for n, (begin, end) in enumerate(pairwise(edges)):
        due = draw_times(arrivals, begin, end, seed, n)
        source = generator(seed, "calls", n)
        operation = np.searchsorted(which, source.uniform(0, which[-1], len(due)), "right")
        user = np.searchsorted(cumulative, source.uniform(0, cumulative[-1], len(due)), "right")
        yield end * 1000, (due * 1000, operation.astype(np.int64), user.astype(np.int64))


def popularity(users: int, skew: float) -> NDArray[np.float64]:
    """Return the cumulative popularity of users 1, 2, ... (Zipf)."""
    return np.cumsum(np.arange(1.0, users + 1) ** -skew)
