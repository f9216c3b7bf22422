"""What machines, processes, their jobs and calls consist of: records in arrays, for the compiled
kernel.

All times are milliseconds. Chains of records are indices that end with ``NONE``.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

NONE: Final = -1
MARGIN: Final = 64
"""Records that a single event may need."""
ROLES: Final = 5
"""Caller, node, gateway, operator, institution."""

# Where a stage of a job takes its time.
LOOP: Final = 0
"""A core, in the process's event loop."""
LOOP_DISK: Final = 1
"""The disk, while the event loop waits for it: nothing else runs there."""
THREAD: Final = 2
"""A core, in a thread that holds the interpreter lock."""
FREE_THREAD: Final = 3
"""A core, in a thread that does not (Argon2id)."""
THREAD_DISK: Final = 4
"""The disk, for which a thread waits."""

# What a process is like.
UP: Final = 0
LEAVING: Final = 1
"""It finishes what it has, and gets nothing new."""
DOWN: Final = 2

PLACE: Final = np.dtype(
    [
        ("cores", np.int64),  # 0: it is a disk
        ("together", np.float64),  # chances: who wakes up goes to the core of who woke it,
        ("ahead", np.float64),  # before who computes there;
        ("takes", np.float64),  # a core that becomes free takes over who waits for another
        ("hot_ms", np.float64),  # and has for so long
        ("since", np.float64),  # up to then its runners are accounted for
        ("next", np.float64),  # when something happens; infinite: nobody is there
        ("over", np.int64),  # who is through then, or NONE
        ("first", np.int64),  # of its runners
        ("last", np.int64),
        ("busy", np.int64),  # cores that somebody computes on
        ("waiting", np.int64),  # how many wait for a core
        ("used", np.float64),  # core milliseconds so far
    ],
    align=True,
)
"""The cores of a machine, or its disk."""

PROCESS: Final = np.dtype(
    [
        ("cores", np.int64),  # places
        ("disk", np.int64),
        ("speeds", np.int64),  # row of the factors of its stages
        ("state", np.int64),
        ("paused", np.int64),  # how many say that it stands still
        ("lives", np.int64),  # that it has lost so far, and with each what it knew
        ("calls", np.int64),  # that it has to do with
        ("deploys", np.int64),  # the incident that starts it anew, or NONE
        ("turn", np.float64),  # what a turn of the event loop costs by itself
        ("cold", np.float64),  # what it costs more after a long time without any
        ("cooling", np.float64),  # how long that is: its time constant
        ("idle_since", np.float64),  # the event loop, if it is
        ("turns", np.float64),  # so far
        ("chills", np.float64),  # parts of ``cold`` so far
        ("loop", np.int64),  # its runner
        ("first_thread", np.int64),  # runners
        ("threads", np.int64),
        ("locked", np.int64),  # runners that want the interpreter lock
        ("to_do", np.int64),  # jobs that the present turn of the loop has still to do
        ("batch", np.int64),  # how many it had when it began
        ("head", np.int64),  # of the jobs that wait for the loop
        ("tail", np.int64),
        ("waiting", np.int64),
        ("thread_head", np.int64),  # of those that wait for a thread
        ("thread_tail", np.int64),
        ("thread_waiting", np.int64),
        ("threads_taken", np.int64),
        ("since", np.float64),  # up to then the following are accounted for
        ("loop_taken", np.float64),  # milliseconds
        ("queued", np.float64),  # job milliseconds
        ("thread_taken", np.float64),
        ("thread_queued", np.float64),
        ("cpu", np.float64),  # core milliseconds
        ("lately", np.float64),  # the same, as far as it is not forgotten: 63 % in ``LATELY``
        ("lately_at", np.float64),  # when that was added up
    ],
    align=True,
)

RUNNER: Final = np.dtype(
    [
        ("process", np.int64),
        ("job", np.int64),
        ("place", np.int64),  # where it is; NONE: nowhere
        ("core", np.int64),  # that it has there, or waits for; or where it was last
        ("computes", np.int64),  # whether it has it
        ("began", np.float64),  # since when
        ("locks", np.int64),
        ("left", np.float64),  # milliseconds at full speed
        ("before", np.int64),
        ("following", np.int64),
    ],
    align=True,
)
"""An event loop, or a thread."""

STAGE: Final = np.dtype([("kind", np.int64), ("table", np.int64)], align=True)

JOB: Final = np.dtype(
    [
        ("process", np.int64),
        ("call", np.int64),  # NONE: the record is free
        ("message", np.int64),
        ("number", np.int64),  # another one for every job
        ("parked", np.int64),  # the limit that it waits for; or as below
        ("key", np.uint64),  # of its draws
        ("stage", np.int64),
        ("last_stage", np.int64),
        ("later", np.int64),  # nothing waits for it
        ("runner", np.int64),  # that it has
        ("waker", np.int64),  # the core of who has handed it on; NONE: nobody of its machine
        ("came", np.float64),
        ("worked", np.float64),  # full-speed milliseconds so far
        ("following", np.int64),
    ],
    align=True,
)
"""A message that is there, until what waited for it goes on."""

# What a job waits for that is not its process's yet, or no longer, if not for a limit.
NOTHING: Final = -1
CALLED: Final = -2
"""It need not wait any longer: an event says so."""
TURN: Final = -3
"""For a turn of its call's key."""

Record = Any


class Service(NamedTuple):
    """Machines, processes and what they have to do."""

    places: Record
    processes: Record
    runners: Record
    stages: Record
    """Of all kinds of jobs, one kind after the other."""
    tables: Record
    """Quantiles of how long stages take."""
    levels: Record
    """Of these quantiles, from 0 to 1; what is left of a row is 1."""
    evens: Record
    """Distances between the levels of each table, if they are equal; else 0."""
    speeds: Record
    """Factors of these, for processes (rows) and stages."""
    jobs: Record


# ---------------------------------------------------------------------- what calls look like

MESSAGE: Final = np.dtype(
    [
        ("source", np.int64),  # roles
        ("target", np.int64),
        ("link", np.int64),  # NONE: it is there at once
        ("side", np.int64),
        ("size", np.int64),
        ("exchange", np.int64),  # of its operation: the request that it is, or answers
        ("answers", np.int64),  # it ends its exchange
        ("service", np.float64),  # at the end of the link, before it is handled
        ("first_stage", np.int64),  # of its handling
        ("last_stage", np.int64),
        ("end_stage", np.int64),  # of what its process does about it later
        ("first_needed", np.int64),  # steps that need it, in a list
        ("last_needed", np.int64),
        ("takes", np.int64),  # turns of the call's key, as bits, when it has been handled
        ("gives", np.int64),
        ("enters", np.int64),  # a limit, or NONE
        ("leaves", np.int64),
        ("refusal", np.int64),  # the message that says no to it
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
        ("ends", np.int64),  # with what the call ends; NONE: it does not
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
        ("share", np.float64),  # of the orders in a closed loop, those of all before it included
        ("queue", np.int64),  # so many of them may wait for one turn of a key
        ("patience", np.float64),  # and so long
    ],
    align=True,
)

ROLE: Final = np.dtype(
    [
        ("first", np.int64),  # process
        ("replicas", np.int64),
        ("workers", np.int64),
        ("turn", np.int64),  # the replica that is next
        ("way", np.int64),  # of its news, towards the caller; NONE: they are there at once
        ("further", np.int64),  # the role that they come to
    ],
    align=True,
)

WAY: Final = np.dtype(
    [("lossy", np.int64), ("slow", np.float64), ("used", np.int64, (2,))], align=True
)
"""One direction of a link; ``slow`` is a factor of its latencies, ``used`` counts those drawn."""

FLIGHT: Final = np.dtype(
    [("call", np.int64), ("message", np.int64), ("following", np.int64)], align=True
)
"""What a transfer is of."""

ARRIVAL: Final = np.dtype(
    [("due", np.float64), ("operation", np.int64), ("user", np.int64)], align=True
)

LINE: Final = np.dtype(
    [
        ("free", np.int64),
        ("room", np.int64),  # so many may wait
        ("head", np.int64),
        ("tail", np.int64),
        ("inside", np.int64),
        ("waiting", np.int64),
        ("refused", np.int64),  # so far
        ("since", np.float64),  # up to then the following are accounted for
        ("taken", np.float64),  # call milliseconds
        ("queued", np.float64),
    ],
    align=True,
)
"""Whoever waits for one of a number of things: a connection, or to be one of so many inside."""

KEY: Final = np.dtype(
    [("taken", np.int32), ("head", np.int32), ("tail", np.int32), ("spare", np.int32)], align=True
)
"""A user's key: its turns that are taken, as bits, and the jobs that wait for one."""

ORDER: Final = np.dtype(
    [
        ("number", np.int64),
        ("key", np.uint64),  # of its draws
        ("operation", np.int64),
        ("user", np.int64),  # whose key it is about
        ("member", np.int64),  # of those who think and ask again, or NONE
        ("rounds", np.int64),  # that this one has had
        ("incident", np.int64),  # that it is part of, or NONE
        ("due", np.float64),
        ("attempts", np.int64),
        ("following", np.int64),
    ],
    align=True,
)
"""What a caller wants, by as many calls as it takes."""

CALL: Final = np.dtype(
    [
        ("order", np.int64),
        ("operation", np.int64),
        ("user", np.int64),
        ("key", np.uint64),  # of its draws
        ("number", np.int64),  # another one for every call
        ("began", np.float64),
        ("open", np.int64),  # messages under way, or being handled
        ("waited_for", np.int64),  # whether its caller still does
        ("broken", np.int64),  # nothing more comes of it
        ("turns", np.int64),  # that it has, as bits
        ("limits", np.int64),  # inside which it is, as bits
        ("following", np.int64),
        ("process", np.int64, (ROLES,)),  # from the first message to it on
        ("lives", np.int64, (ROLES,)),  # that these had lost by then
    ],
    align=True,
)
"""One attempt."""

EVENT: Final = np.dtype(
    [
        ("at", np.float64),
        ("order", np.int64),
        ("kind", np.int64),
        ("of", np.int64),
        ("number", np.int64),
    ],
    align=True,
)
"""Something that happens at a time, on a heap."""

INCIDENT: Final = np.dtype(
    [
        ("kind", np.int64),
        ("of", np.int64),  # the first process; a link; an operation
        ("count", np.int64),  # processes; users
        ("workers", np.int64),  # processes of a replica; orders at once
        ("next", np.int64),  # process, counted from the first one; user
        ("open", np.int64),  # processes that are not back yet; orders begun
        ("active", np.int64),
        ("factor", np.float64),
        ("lasting", np.float64),
    ],
    align=True,
)
"""Something that happens to the service from outside."""

# Kinds of incidents.
DIES: Final = 0
PAUSES: Final = 1
DEPLOYS: Final = 2
SLOWS: Final = 3
RESHARES: Final = 4

STATE: Final = np.dtype(
    [
        ("now", np.float64),
        ("next", np.int64),  # of the arrivals
        ("known", np.float64),  # up to when arrivals are known
        ("events", np.int64),
        ("events_so_far", np.int64),
        ("free_call", np.int64),
        ("free_order", np.int64),
        ("free_job", np.int64),
        ("spare_jobs", np.int64),  # how many these are
        ("free_transfer", np.int64),
        ("spare_transfers", np.int64),
        ("first_given", np.int64),  # of the transfers that the network is to have now
        ("last_given", np.int64),
        ("calls_so_far", np.int64),
        ("orders_so_far", np.int64),
        ("arrivals_so_far", np.int64),
        ("jobs_so_far", np.int64),
        ("pairs_so_far", np.int64),
        ("rows", np.int64),  # written
        ("in_flight", np.int64),  # calls that somebody waits for
        ("in_flight_ms", np.float64),
        ("since", np.float64),
        ("placed", np.int64),
        ("kept", np.int64),  # slow calls
        ("keep_above", np.float64),  # calls that took longer are
        ("most_used", np.int64),  # of the latencies of one way
    ],
    align=True,
)

CLIENT: Final = np.dtype(
    [
        ("seed", np.uint64),
        ("timeout", np.float64),  # infinite: they wait for ever
        ("attempts", np.int64),  # at most
        ("pause", np.float64),  # before the second
        ("factor", np.float64),  # of each further pause
        ("jitter", np.float64),  # part of a pause that is drawn
        ("thinking", np.float64),  # on average, between calls (exponential)
    ],
    align=True,
)
"""How callers behave; a second one: whoever recovers all keys."""

# What is known of a message of a call: when...
SENT: Final = 0
"""... its sender gave it to its link,"""
CARRIED: Final = 1
"""... it had a connection,"""
THERE: Final = 2
"""... it was at the other end,"""
ADMITTED: Final = 3
"""... its handling could begin,"""
HANDLED: Final = 4
"""... that was over,"""
OVER: Final = 5
"""... what waited for it could go on."""
WORK: Final = 6
"""And what handling it took, if nothing else had gone on (no moment, but a time)."""
MOMENTS: Final = 7

# Columns of a row, which tells of an attempt that is over. After them come the milliseconds that
# were waited at each role, then those that were worked there, along what the call waited for last.
NUMBER: Final = 0
"""Of the order."""
OPERATION_OF: Final = 1
USER: Final = 2
DUE: Final = 3
BEGAN: Final = 4
ENDED: Final = 5
OUTCOME: Final = 6
ATTEMPT: Final = 7
"""Counted from 1."""
FINAL: Final = 8
"""1: no other attempt follows."""
NETWORK: Final = 9
"""On the way."""
POOL: Final = 10
"""Waited for a connection."""
LIMIT: Final = 11
"""Waited until there were not too many at a time, or for a turn of the key."""
FIXED: Final = 12
COLUMNS: Final = FIXED + 2 * ROLES

# Columns of a call that is kept; the processes that it had to do with follow, and then the moments
# of each of its messages.
KEPT_NUMBER: Final = 0
KEPT_OPERATION: Final = 1
KEPT_USER: Final = 2
KEPT_DUE: Final = 3
KEPT_BEGAN: Final = 4
KEPT_ENDED: Final = 5
KEPT_ATTEMPT: Final = 6
KEPT_FIXED: Final = 7
KEPT_COLUMNS: Final = KEPT_FIXED + ROLES

# Outcomes of a call.
DONE: Final = 0
REFUSED: Final = 1
TIMED_OUT: Final = 2
BROKEN: Final = 3

# Kinds of events, and what they are of.
ARRIVES: Final = 0
"""A message is there: a call, and the message."""
WORKED: Final = 1
"""It has been handled: a job, and its number."""
ENTERS: Final = 2
"""It has got into a limit."""
PROCEEDS: Final = 3
"""It has a turn."""
GIVES_UP: Final = 4
"""It has waited too long for one."""
LATE: Final = 5
"""A call has taken too long: the call, and its number."""
BREAKS: Final = 6
"""Its caller learns that nothing will come of it."""
AGAIN: Final = 7
"""An order is due."""
JOINS: Final = 8
"""Somebody who thinks and asks begins: a number of theirs, and of the key."""
HAPPENS: Final = 9
"""An incident, and whether it begins (0) or ends (1)."""
GONE: Final = 10
"""A process has finished."""
BACK: Final = 11
"""It is there again."""

# Why the kernel has come back.
REACHED: Final = 0
"""The time that was asked for."""
ARRIVALS: Final = 1
"""It does not know what comes next."""
FULL: Final = 2
"""Its rows are written."""
CALLS: Final = 3
"""There is no room for another call, and so on."""
ORDERS: Final = 4
JOBS: Final = 5
TRANSFERS: Final = 6
CONNECTIONS: Final = 7
EVENTS: Final = 8
KEPT: Final = 9
LATENCIES: Final = 10


class Calls(NamedTuple):
    """What calls consist of, and those that are being made."""

    operations: Record
    steps: Record
    messages: Record
    lists: Record
    """Of steps and messages, which say where in it theirs begin and end."""
    roles: Record
    ways: Record
    latencies: Record
    """Of each way, forward and backward: drawn beforehand, each used once."""
    client: Record
    incidents: Record
    calls: Record
    orders: Record
    missing: Record
    """How much each step of a call still waits for."""
    at: Record
    """The moments of each message of a call."""
    carrier: Record
    """The connection of each exchange of a call, while it has one."""
    flights: Record
    lines: Record
    """Whoever waits for a connection over a link, by link and process."""
    limits: Record
    keys: Record
    events: Record
    arrivals: Record
    """Those that are known."""
    rows: Record
    kept: Record
    state: Record
