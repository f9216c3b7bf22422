"""Compilation of incidents into the kernel's records and events."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mpcsim.capacity.kernel import records as kernel
from mpcsim.capacity.kernel.records import NONE
from mpcsim.capacity.model.incidents import (
    BulkReshare,
    Event,
    ProcessCrash,
    ProcessPause,
    RollingRestart,
    Slowdown,
)
from mpcsim.capacity.simulation.call_graph import GATE, ROLES
from mpcsim.capacity.simulation.layout import Layout
from mpcsim.errors import UsageError

Moment = tuple[float, int, int, int]
"""Scheduled event: time (ms), kind, what it is of, number."""


def incidents(layout: Layout, events: Sequence[Event]) -> tuple[NDArray[Any], list[Moment]]:
    """Return the records of incidents, and the events with which they begin and end.

    Raises:
        UsageError: an incident concerns a replica, link or operation that does not exist.
    """
    records = np.zeros(len(events), kernel.INCIDENT)
    moments: list[Moment] = []
    for number, (record, event) in enumerate(zip(records, events, strict=True)):
        lasting = math.inf
        match event:
            case ProcessCrash():
                group = layout.groups[event.part]
                if event.replica > group.replicas:
                    raise UsageError(
                        f"event replica is {event.replica}: {event.part} has {group.replicas}"
                    )
                record["kind"] = kernel.PROCESS_CRASH
                record["of"] = group.first + (event.replica - 1) * group.workers
                record["count"] = group.workers
                lasting = event.back_s
            case ProcessPause() | RollingRestart():
                group = layout.groups[event.part]
                record["kind"] = (
                    kernel.PROCESS_PAUSE
                    if isinstance(event, ProcessPause)
                    else kernel.ROLLING_RESTART
                )
                record["of"], record["count"] = group.first, group.count
                record["workers"] = group.workers
                record["duration_ms"] = event.lasting_s * 1000
                if isinstance(event, ProcessPause):
                    lasting = event.lasting_s
            case Slowdown():
                link, _, _ = layout.links.between(GATE, ROLES.index(event.link))
                if link == NONE:
                    raise UsageError(f"event link: {event.link} and the gateway are at one site")
                record["kind"], record["of"] = kernel.SLOWDOWN, link
                record["factor"] = event.factor
                lasting = event.lasting_s
            case BulkReshare():
                record["kind"] = kernel.BULK_RESHARE
                record["of"] = layout.operation(f"recover {event.curve}")
                record["count"], record["workers"] = layout.users, event.at_once
        begins = event.at_s * 1000
        moments.append((begins, kernel.INCIDENT_CHANGES, number, 0))
        if lasting < math.inf:
            moments.append((begins + lasting * 1000, kernel.INCIDENT_CHANGES, number, 1))
    return records, moments
