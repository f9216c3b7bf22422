"""State of the model: NumPy records in arrays, for the compiled kernel. All times are milliseconds.

Chains (queues, free lists) are indices of records that end with ``NONE``.

Names of arguments in all of the kernel's functions:

=======  =====================================================================================
``w``    ``CallRecords``: what operations consist of, and the calls under way
``n``    the network's own records (``mpcsim.sim.network.tcp.state.Records``)
``s``    ``ServiceRecords``: machines, processes and their jobs
``c``    index of a call;  ``o`` of an order;  ``m`` of a message;  ``j`` of a job
``p``    index of a process;  ``k`` of a runner, connection or step
``now``  virtual time
=======  =====================================================================================
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

NONE: Final = -1
MARGIN: Final = 64
"""Free records of each kind that must be left before an event: a single one may need so many."""
ROLES: Final = 5
"""Caller, node, gateway, operator, institution."""

# ---------------------------------------------------------------------- machines and processes

# Kinds of stages of a job: the resource that it occupies, and what blocks meanwhile.
LOOP: Final = 0
"""A core, in the process's event loop."""
LOOP_DISK: Final = 1
"""The disk, while the event loop blocks."""
THREAD: Final = 2
"""A core, in a pool thread that holds the interpreter lock."""
FREE_THREAD: Final = 3
"""A core, in a pool thread that has released the interpreter lock (Argon2id)."""
THREAD_DISK: Final = 4
"""The disk, while a pool thread blocks."""

# States of a process.
UP: Final = 0
DRAINING: Final = 1
"""Finishes the calls that it has, and is chosen for no new one."""
DOWN: Final = 2

RESOURCE: Final = np.dtype(
    [
        ("cores", np.int64),  # 0: a disk
        ("wake_affine", np.float64),  # probability: a woken runner goes to its waker's core
        ("preempt", np.float64),  # probability: it preempts a runner there that has run more
        ("steal", np.float64),  # probability: an idle core takes a runner from another's queue
        ("migration_cost_ms", np.float64),  # unless that has waited for less
        ("accounted_to", np.float64),  # time up to which work done is subtracted
        ("next_at", np.float64),  # of the next completion or end of a time slice; infinite: none
        ("finishing", np.int64),  # runner that completes then; NONE: a time slice ends
        ("first", np.int64),  # of its runners
        ("last", np.int64),
        ("busy", np.int64),  # cores that run something
        ("waiting", np.int64),  # schedulable entities in run queues
        ("used_ms", np.float64),  # core milliseconds so far
    ],
    align=True,
)
"""Cores of a machine, or its disk."""

PROCESS: Final = np.dtype(
    [
        ("cpu", np.int64),  # resource: the cores
        ("disk", np.int64),  # resource
        ("speeds", np.int64),  # row of the factors of its stages
        ("state", np.int64),
        ("paused", np.int64),  # pauses that are in force
        ("incarnation", np.int64),  # restarts so far: calls of an earlier one are lost
        ("calls", np.int64),  # that are assigned to it and not over
        ("restarted_by", np.int64),  # incident that restarts it, or NONE
        ("iteration_ms", np.float64),  # cost of an event-loop iteration itself
        ("cold_ms", np.float64),  # additional cost of one after a long pause
        ("cooling_ms", np.float64),  # time constant of that
        ("idle_since", np.float64),  # end of the event loop's last job
        ("iterations", np.float64),  # so far
        ("coldness", np.float64),  # sum over these of the share of cold_ms that was paid
        ("loop", np.int64),  # runner of the event loop
        ("first_thread", np.int64),  # runner of the first pool thread
        ("threads", np.int64),
        ("gil_users", np.int64),  # runners that hold or want the interpreter lock
        ("left_in_batch", np.int64),  # jobs that the present iteration has still to do
        ("batch", np.int64),  # jobs that it had at its beginning
        ("head", np.int64),  # of the jobs that wait for the event loop
        ("tail", np.int64),
        ("waiting", np.int64),
        ("thread_head", np.int64),  # of the jobs that wait for a pool thread
        ("thread_tail", np.int64),
        ("thread_waiting", np.int64),
        ("busy_threads", np.int64),
        ("accounted_to", np.float64),  # time up to which the integrals below are complete
        ("loop_busy_ms", np.float64),
        ("queued_ms", np.float64),  # integral of `waiting`
        ("thread_busy_ms", np.float64),  # integral of `busy_threads`
        ("thread_queued_ms", np.float64),  # integral of `thread_waiting`
        ("cpu_ms", np.float64),  # service demand so far
        ("recent_ms", np.float64),  # the same, exponentially forgotten (`cpu_scheduler.DECAY_MS`)
        ("recent_at", np.float64),  # time of that value
    ],
    align=True,
)

RUNNER: Final = np.dtype(
    [
        ("process", np.int64),
        ("job", np.int64),
        ("resource", np.int64),  # where it runs or waits; NONE: it sleeps
        ("core", np.int64),  # on which it runs, or for which it waits; or the last one
        ("running", np.int64),  # 0: in the run queue
        ("state_since", np.float64),  # of the present one of these two
        ("needs_gil", np.int64),
        ("remaining_ms", np.float64),  # of its stage, at full speed
        ("previous", np.int64),
        ("following", np.int64),
    ],
    align=True,
)
"""A schedulable thread: a process's event loop, or one thread of its pool."""

STAGE: Final = np.dtype([("kind", np.int64), ("table", np.int64)], align=True)

JOB: Final = np.dtype(
    [
        ("process", np.int64),
        ("call", np.int64),  # NONE: the record is free
        ("message", np.int64),
        ("number", np.int64),  # unique: events name it, so that a reused record is noticed
        ("waits_for", np.int64),  # number of a limit, or one of the constants below
        ("key", np.uint64),  # of its draws
        ("stage", np.int64),  # present one
        ("last_stage", np.int64),
        ("deferred", np.int64),  # 1: work after the answer has been sent; nothing waits for it
        ("runner", np.int64),  # that executes it, or NONE
        ("waker_core", np.int64),  # core of the runner that handed it on; NONE: on another machine
        ("worked_ms", np.float64),  # service time of its stages so far
        ("following", np.int64),
    ],
    align=True,
)
"""Handling of a message by a process: stages, one after the other."""

# What a job waits for that no process executes.
NOT_WAITING: Final = -1
WAKE_SCHEDULED: Final = -2
"""No resource: an event at this moment lets the job continue."""
KEY_LOCK: Final = -3
"""A lock of its call's key."""

Record = Any


class ServiceRecords(NamedTuple):
    """Machines, processes and their jobs."""

    resources: Record
    processes: Record
    runners: Record
    stages: Record
    """Stages of all kinds of jobs, one kind after the other."""
    tables: Record
    """Quantiles of the service times of stages: a row for each."""
    levels: Record
    """Levels of these quantiles, from 0 to 1; a short row is filled up with 1."""
    evens: Record
    """Number of intervals of each table whose levels are equidistant; else 0."""
    speeds: Record
    """Factors of the service times, by process (row) and stage."""
    jobs: Record


# ---------------------------------------------------------------------- what calls look like

MESSAGE: Final = np.dtype(
    [
        ("source", np.int64),  # role
        ("target", np.int64),  # role
        ("link", np.int64),  # NONE: it arrives at once
        ("side", np.int64),
        ("size", np.int64),
        ("exchange", np.int64),  # of its operation: the HTTP exchange that it belongs to
        ("is_answer", np.int64),  # it ends its exchange
        ("timeout_ms", np.float64),  # a request's sender waits so long for the answer
        ("service_ms", np.float64),  # fixed service time at the end of the link
        ("first_stage", np.int64),  # of its handling
        ("last_stage", np.int64),
        ("end_stage", np.int64),  # of the deferred work that follows from last_stage on
        ("first_needed", np.int64),  # range of `lists`: the steps that need it
        ("last_needed", np.int64),
        ("acquires", np.int64),  # locks of the call's key, as bits, once it has been handled
        ("releases", np.int64),
        ("enters", np.int64),  # limit, or NONE
        ("leaves", np.int64),
        ("refusal", np.int64),  # message that answers instead if it is refused
        ("sent_by", np.int64),  # step
    ],
    align=True,
)

STEP: Final = np.dtype(
    [
        ("needs", np.int64),
        ("first_need", np.int64),
        ("first_send", np.int64),
        ("last_send", np.int64),
        ("ends", np.int64),  # outcome of the call; NONE: it continues
    ],
    align=True,
)

OPERATION: Final = np.dtype(
    [
        ("first_step", np.int64),
        ("steps", np.int64),
        ("first_message", np.int64),
        ("messages", np.int64),
        ("exchanges", np.int64),
        ("share", np.float64),  # cumulative, of the orders of a closed workload
        ("lock_queue", np.int64),  # jobs that may wait for a lock of one key
        ("lock_timeout_ms", np.float64),
        ("timeout_ms", np.float64),  # shortest of its requests
    ],
    align=True,
)

ROLE: Final = np.dtype(
    [
        ("first", np.int64),  # process
        ("replicas", np.int64),
        ("workers", np.int64),
        ("next_replica", np.int64),  # round robin
        ("direction", np.int64),  # of a failure's news towards the caller; NONE: no delay
        ("next_role", np.int64),  # role that the news reaches then
    ],
    align=True,
)

DIRECTION: Final = np.dtype(
    [("lossy", np.int64), ("slowdown", np.float64), ("used", np.int64, (2,))], align=True
)
"""Direction of a link: a factor of its latencies, and how many of those drawn are used up."""

DELIVERY: Final = np.dtype(
    [("call", np.int64), ("message", np.int64), ("following", np.int64)], align=True
)
"""Message that a transfer of the network carries."""

ARRIVAL: Final = np.dtype(
    [("due", np.float64), ("operation", np.int64), ("user", np.int64)], align=True
)

QUEUE: Final = np.dtype(
    [
        ("free", np.int64),
        ("capacity", np.int64),  # of the waiting room
        ("head", np.int64),
        ("tail", np.int64),
        ("inside", np.int64),
        ("waiting", np.int64),
        ("refused", np.int64),  # so far
        ("accounted_to", np.float64),  # time up to which the integrals are complete
        ("inside_ms", np.float64),  # integral of `inside`
        ("queued_ms", np.float64),  # integral of `waiting`
    ],
    align=True,
)
"""A semaphore with a FIFO queue: a limit, or the connections of a pool."""

KEY: Final = np.dtype(
    [("held", np.int32), ("head", np.int32), ("tail", np.int32), ("spare", np.int32)], align=True
)
"""Locks of a user's key that are held, as bits, and the jobs that wait for one."""

ORDER: Final = np.dtype(
    [
        ("number", np.int64),
        ("key", np.uint64),  # of its draws
        ("operation", np.int64),
        ("user", np.int64),  # whose key is used
        ("closed_user", np.int64),  # number of the user of a closed workload, or NONE
        ("rounds", np.int64),  # orders of that user so far
        ("incident", np.int64),  # that it is part of, or NONE
        ("due", np.float64),
        ("attempts", np.int64),
        ("following", np.int64),
    ],
    align=True,
)
"""Transaction of a caller, in one or more attempts (calls)."""

CALL: Final = np.dtype(
    [
        ("order", np.int64),
        ("operation", np.int64),
        ("user", np.int64),
        ("key", np.uint64),  # of its draws
        ("number", np.int64),  # unique; NONE: the record is free
        ("began", np.float64),
        ("pending", np.int64),  # messages under way or being handled, and news of a failure
        ("awaited", np.int64),  # whether its caller still waits
        ("failed", np.int64),  # whether its caller has been told that it failed
        ("held_locks", np.int64),  # of its key, as bits
        ("limits", np.int64),  # that it is inside of, as bits
        ("following", np.int64),
        ("process", np.int64, (ROLES,)),  # chosen at the first message to the role
        ("incarnation", np.int64, (ROLES,)),  # of that process, then
    ],
    align=True,
)
"""Attempt of an order."""

EVENT: Final = np.dtype(
    [
        ("at", np.float64),
        ("order", np.int64),  # in which it was scheduled: decides between events of one time
        ("kind", np.int64),
        ("of", np.int64),
        ("number", np.int64),
    ],
    align=True,
)
"""A scheduled event; the event queue is a heap of these."""

INCIDENT: Final = np.dtype(
    [
        ("kind", np.int64),
        ("of", np.int64),  # first process; link; operation
        ("count", np.int64),  # processes; users
        ("workers", np.int64),  # processes of a replica; orders at a time
        ("next", np.int64),  # process, counted from the first; user
        ("pending", np.int64),  # processes that are not back; orders begun
        ("active", np.int64),
        ("factor", np.float64),
        ("duration_ms", np.float64),
    ],
    align=True,
)
"""A disturbance of the service from outside (``mpcsim.capacity.model.incidents``)."""

# Kinds of incidents.
PROCESS_CRASH: Final = 0
PROCESS_PAUSE: Final = 1
ROLLING_RESTART: Final = 2
SLOWDOWN: Final = 3
BULK_RESHARE: Final = 4

STATE: Final = np.dtype(
    [
        ("now", np.float64),
        ("next", np.int64),  # arrival
        ("arrivals_known_to", np.float64),
        ("events", np.int64),
        ("events_so_far", np.int64),
        ("free_call", np.int64),  # first of a chain, as the next two
        ("free_order", np.int64),
        ("free_job", np.int64),
        ("spare_jobs", np.int64),  # length of that chain
        ("free_transfer", np.int64),
        ("spare_transfers", np.int64),
        ("first_handed", np.int64),  # transfers that the network gets after the present event
        ("last_handed", np.int64),
        ("calls_so_far", np.int64),
        ("orders_so_far", np.int64),
        ("arrivals_so_far", np.int64),
        ("jobs_so_far", np.int64),
        ("pairs_so_far", np.int64),
        ("rows", np.int64),  # written
        ("in_flight", np.int64),  # calls that a caller waits for
        ("in_flight_ms", np.float64),  # integral of that
        ("accounted_to", np.float64),
        ("placed", np.int64),
        ("slow_calls", np.int64),  # kept
        ("keep_above_ms", np.float64),  # least latency of a call that is kept
        ("most_used", np.int64),  # latencies of one direction
    ],
    align=True,
)

CLIENT: Final = np.dtype(
    [
        ("seed", np.uint64),
        ("timeout_ms", np.float64),  # infinite: none
        ("attempts", np.int64),  # at most
        ("pause_ms", np.float64),  # before the second attempt
        ("factor", np.float64),  # of each further pause
        ("jitter", np.float64),  # share of a pause that is random
        ("think_ms", np.float64),  # mean think time of a closed workload (exponential)
    ],
    align=True,
)
"""Retry policy of callers (row 0), and of a bulk resharing (row 1)."""

# Moments of a message of a call.
SENT: Final = 0
"""Moment at which its sender gives it to its link."""
CONNECTED: Final = 1
"""Moment at which it gets a connection."""
ARRIVED: Final = 2
"""Moment at which it is at the other end."""
ADMITTED: Final = 3
"""Moment at which its limit admits it: its handling can begin."""
HANDLED: Final = 4
"""Moment at which its handling is over."""
COMPLETED: Final = 5
"""Moment at which it has its locks: what waits for it can continue."""
SERVICE_MS: Final = 6
"""Service time of its handling, without any waiting: a duration, not a moment."""
MOMENTS: Final = 7

# Columns of a row: an attempt that is over. After these columns come the milliseconds of waiting
# at each role, then those of service, along the critical path of the call.
NUMBER: Final = 0
"""Number of the order."""
OPERATION_OF: Final = 1
USER: Final = 2
DUE: Final = 3
BEGAN: Final = 4
ENDED: Final = 5
OUTCOME: Final = 6
ATTEMPT: Final = 7
"""Number of the attempt, from 1."""
FINAL: Final = 8
"""1: no other attempt follows."""
NETWORK: Final = 9
"""Milliseconds on the network."""
POOL: Final = 10
"""Milliseconds of waiting for a connection."""
LIMIT: Final = 11
"""Milliseconds of waiting for admission: limits and key locks."""
FIRST_ROLE: Final = 12
COLUMNS: Final = FIRST_ROLE + 2 * ROLES

# Columns of a slow call that is kept; then come its processes by role, and the moments of each of
# its messages.
KEPT_NUMBER: Final = 0
KEPT_OPERATION: Final = 1
KEPT_USER: Final = 2
KEPT_DUE: Final = 3
KEPT_BEGAN: Final = 4
KEPT_ENDED: Final = 5
KEPT_ATTEMPT: Final = 6
KEPT_FIRST_ROLE: Final = 7
KEPT_COLUMNS: Final = KEPT_FIRST_ROLE + ROLES

# Outcomes of a call.
DONE: Final = 0
REFUSED: Final = 1
TIMED_OUT: Final = 2
BROKEN: Final = 3

# Kinds of events: after the colon, what `of` and `number` are.
MESSAGE_ARRIVES: Final = 0
"""A message reaches its process: call, message."""
JOB_DONE: Final = 1
"""A job without stages is done: job, its number."""
LIMIT_ENTERED: Final = 2
"""A waiting job is admitted by its limit: job, its number."""
LOCKS_ACQUIRED: Final = 3
"""A waiting job gets its locks: job, its number."""
LOCK_TIMEOUT: Final = 4
"""A job has waited too long for a lock: job, its number."""
CALL_TIMEOUT: Final = 5
"""A caller's patience ends: call, its number."""
CALL_FAILS: Final = 6
"""A caller learns that its call has failed: call, its number."""
ORDER_DUE: Final = 7
"""An attempt of an order begins: order."""
USER_STARTS: Final = 8
"""A user of a closed workload begins: its number, the number of its key."""
INCIDENT_CHANGES: Final = 9
"""An incident begins or ends: incident, 0 or 1."""
PROCESS_DRAINED: Final = 10
"""A draining process has no call left: process, its incarnation."""
PROCESS_RESTARTS: Final = 11
"""A restarted process is up again: process, its incarnation."""
ANSWER_OVERDUE: Final = 12
"""A request of a call may have waited too long for its answer: call, its number."""

# Reasons why the kernel returns to Python.
TIME_REACHED: Final = 0
"""The time that was asked for."""
NEED_ARRIVALS: Final = 1
"""Later arrivals are not known yet."""
NEED_ROWS: Final = 2
"""The array of rows is full, and so on for the other arrays."""
NEED_CALLS: Final = 3
NEED_ORDERS: Final = 4
NEED_JOBS: Final = 5
NEED_TRANSFERS: Final = 6
NEED_CONNECTIONS: Final = 7
NEED_EVENTS: Final = 8
NEED_SLOW_CALLS: Final = 9
NEED_LATENCIES: Final = 10


class CallRecords(NamedTuple):
    """Operations as graphs of messages, and the calls under way."""

    operations: Record
    steps: Record
    messages: Record
    lists: Record
    """Numbers of steps and messages; their records say which range of it is theirs."""
    roles: Record
    directions: Record
    latencies: Record
    """Drawn beforehand, each used once: by direction of a link, there and back."""
    clients: Record
    incidents: Record
    calls: Record
    orders: Record
    unmet_needs: Record
    """Messages that each step of a call still waits for."""
    moments: Record
    """Moments of each message of a call."""
    connection: Record
    """Connection of each exchange of a call, while it has one."""
    deliveries: Record
    connection_queues: Record
    """Connections of a pool, and who waits for one: by link and process."""
    limits: Record
    keys: Record
    events: Record
    arrivals: Record
    """Arrivals that are known."""
    rows: Record
    slow_calls: Record
    state: Record
