"""What is to happen to a deployment, written down for the kernel."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mpcsim.capacity.kernel import records as kernel
from mpcsim.capacity.kernel.records import NONE
from mpcsim.capacity.model.incidents import Deploys, Dies, Event, Pauses, Reshares, Slows
from mpcsim.capacity.simulation.layout import Layout
from mpcsim.capacity.simulation.shape import GATE, ROLES
from mpcsim.errors import UsageError

Moment = tuple[float, int, int, int]
"""When (ms), a kind of the kernel's events, and what it is of."""


def incidents(layout: Layout, events: Sequence[Event]) -> tuple[NDArray[Any], list[Moment]]:
    """The incidents, and when they begin and end.

    Raises:
        UsageError: an event is about a replica, a link or an operation that there is not.
    """
    records = np.zeros(len(events), kernel.INCIDENT)
    moments: list[Moment] = []
    for number, (record, event) in enumerate(zip(records, events, strict=True)):
        lasting = math.inf
        match event:
            case Dies():
                group = layout.groups[event.part]
                if event.replica > group.replicas:
                    raise UsageError(
                        f"event replica is {event.replica}: {event.part} has {group.replicas}"
                    )
                record["kind"] = kernel.DIES
                record["of"] = group.first + (event.replica - 1) * group.workers
                record["count"] = group.workers
                lasting = event.back_s
            case Pauses() | Deploys():
                group = layout.groups[event.part]
                record["kind"] = kernel.PAUSES if isinstance(event, Pauses) else kernel.DEPLOYS
                record["of"], record["count"] = group.first, group.count
                record["workers"] = group.workers
                record["lasting"] = event.lasting_s * 1000
                if isinstance(event, Pauses):
                    lasting = event.lasting_s
            case Slows():
                link, _, _ = layout.links.between(GATE, ROLES.index(event.link))
                if link == NONE:
                    raise UsageError(f"event link: {event.link} and the gateway are at one site")
                record["kind"], record["of"] = kernel.SLOWS, link
                record["factor"] = event.factor
                lasting = event.lasting_s
            case Reshares():
                record["kind"] = kernel.RESHARES
                record["of"] = layout.operation(f"recover {event.curve}")
                record["count"], record["workers"] = layout.users, event.at_once
        begins = event.at_s * 1000
        moments.append((begins, kernel.HAPPENS, number, 0))
        if lasting < math.inf:
            moments.append((begins + lasting * 1000, kernel.HAPPENS, number, 1))
    return records, moments
