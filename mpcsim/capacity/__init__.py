"""Capacity model of the service: a discrete-event simulation of it under load, in virtual time.

    >>> from mpcsim.capacity import Deployment, Workload
    >>> run = Deployment().run(Workload(), hours=1)
    >>> print(run)

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
of all keys. A call fails if a process with an unanswered request of it crashes
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
    bound       throughput <= 1 / max_k D_k, with D_k the demand at resource k (``demand``)
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
                last figures are in README.md, "Under load"

Left out: single callbacks of event loops, garbage collection, reads of databases, locks within MPC
nodes, priorities and hyper-threads. More than one process of gateway or MPC node is extrapolation
(``Model.extrapolated``).

Random numbers are hashes of their purpose (``draws.hash64``): a change of one input leaves all
other draws as they were, and the order of events does not matter.

Packages: ``model`` are the inputs, ``simulation`` compiles them and drives ``kernel``, ``real``
puts the real service in place of recorded messages, ``running`` runs both; ``results`` and
``experiments`` evaluate one run and many; ``plan`` is a file of all that is asked.
"""

from mpcsim.capacity.deployment import Deployment
from mpcsim.capacity.experiments import (
    LoadCurve,
    SearchResult,
    capacity_point,
    cheapest,
    load_curve,
    sensitivity,
)
from mpcsim.capacity.model.arrivals import Arrivals, Bursts, Profile, Steady, Times, Users
from mpcsim.capacity.model.costs import Costs
from mpcsim.capacity.model.incidents import (
    BulkReshare,
    Event,
    ProcessCrash,
    ProcessPause,
    RollingRestart,
    Slowdown,
)
from mpcsim.capacity.model.parts import Part
from mpcsim.capacity.model.workload import OPERATIONS, Client, Workload
from mpcsim.capacity.plan import Cheapest, Curve, Plan, Sensitivity
from mpcsim.capacity.results.record import Percentile
from mpcsim.capacity.results.run import Overloaded, Run

__all__ = [
    "OPERATIONS",
    "Arrivals",
    "Bursts",
    "Cheapest",
    "Client",
    "Costs",
    "Curve",
    "Deployment",
    "RollingRestart",
    "ProcessCrash",
    "Event",
    "SearchResult",
    "LoadCurve",
    "Overloaded",
    "Part",
    "ProcessPause",
    "Percentile",
    "Plan",
    "Profile",
    "BulkReshare",
    "Run",
    "Sensitivity",
    "Slowdown",
    "Steady",
    "Times",
    "Users",
    "Workload",
    "capacity_point",
    "cheapest",
    "load_curve",
    "sensitivity",
]
