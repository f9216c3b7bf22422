"""Incidents: disturbances of a deployment during a run. Times are seconds since its beginning."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from mpcsim.errors import UsageError, unknown
from mpcsim.sim.network.transport import is_whole_number

PARTS: Final = ("node", "gateway", "operator", "institution")


@dataclass(frozen=True)
class ProcessCrash:
    """Crash of a replica: its calls are lost, and callers notice."""

    at_s: float
    part: str = "node"
    replica: int = 1
    back_s: float = math.inf
    """Time until it is up again; by default never."""

    def __post_init__(self) -> None:
        _check_start(self.at_s)
        _check_part(self.part)
        if not is_whole_number(self.replica, 1):
            raise UsageError(f"event replica is {self.replica}: not a whole number from 1 on")
        if not self.back_s > 0:
            raise UsageError(f"event back_s is {self.back_s}: not above 0")


@dataclass(frozen=True)
class ProcessPause:
    """Pause of all processes of a part (as by SIGSTOP); messages to it wait."""

    at_s: float
    part: str = "institution"
    lasting_s: float = 60.0

    def __post_init__(self) -> None:
        _check_start(self.at_s)
        _check_part(self.part)
        _check_duration(self.lasting_s)


@dataclass(frozen=True)
class RollingRestart:
    """Restart of a part's replicas, one after the other: each drains its calls, and is down for a
    while."""

    at_s: float
    part: str = "node"
    lasting_s: float = 10.0
    """Down time of each replica."""

    def __post_init__(self) -> None:
        _check_start(self.at_s)
        _check_part(self.part)
        _check_duration(self.lasting_s)


@dataclass(frozen=True)
class Slowdown:
    """Higher latencies of a link for a while."""

    at_s: float
    link: str = "institution"
    """Far end of the link from the gateway: ``node``, ``operator`` or ``institution``."""
    factor: float = 3.0
    """Factor of the latencies."""
    lasting_s: float = 60.0

    def __post_init__(self) -> None:
        _check_start(self.at_s)
        links = tuple(part for part in PARTS if part != "gateway")
        if self.link not in links:
            raise UsageError(f"event link: {unknown('end', self.link, links)}")
        if not 0 < self.factor < math.inf:
            raise UsageError(f"event factor is {self.factor}: not above 0, or not finite")
        _check_duration(self.lasting_s)


@dataclass(frozen=True)
class BulkReshare:
    """Recovery of every user's key, ``at_once`` at a time, as fast as possible."""

    at_s: float
    at_once: int = 8
    curve: str = "secp256k1"

    def __post_init__(self) -> None:
        _check_start(self.at_s)
        if not is_whole_number(self.at_once, 1):
            raise UsageError(f"event at_once is {self.at_once}: not a whole number from 1 on")


Event = ProcessCrash | ProcessPause | RollingRestart | Slowdown | BulkReshare
EVENTS: Final[Mapping[str, type[Event]]] = {
    "dies": ProcessCrash,
    "pauses": ProcessPause,
    "deploys": RollingRestart,
    "slows": Slowdown,
    "reshares": BulkReshare,
}


def event_name(event: Event) -> str:
    """Return what an incident does to what, as ``institution pauses``."""
    verb = next(verb for verb, kind in EVENTS.items() if isinstance(event, kind))
    match event:
        case Slowdown():
            return f"link to the {event.link} {verb}"
        case BulkReshare():
            return f"everybody {verb}"
        case _:
            return f"{event.part} {verb}"


def active_interval_s(event: Event) -> tuple[float, float]:
    """Return when an incident is active: begin and end.

    Of a rolling restart, it is the first replica's; a bulk resharing has no end known beforehand.
    """
    match event:
        case ProcessCrash():
            lasting = event.back_s
        case BulkReshare():
            lasting = math.inf
        case _:
            lasting = event.lasting_s
    return event.at_s, event.at_s + lasting


def _check_start(at_s: float) -> None:
    """Refuse a time of an incident that is negative or infinite."""
    if not 0 <= at_s < math.inf:
        raise UsageError(f"event at_s is {at_s}: below 0, or not finite")


def _check_part(part: str) -> None:
    """Refuse a part that does not exist."""
    if part not in PARTS:
        raise UsageError(f"event part: {unknown('part', part, PARTS)}")


def _check_duration(lasting_s: float) -> None:
    """Refuse a duration that is not positive, or infinite."""
    if not 0 < lasting_s < math.inf:
        raise UsageError(f"event lasting_s is {lasting_s}: not above 0, or not finite")
