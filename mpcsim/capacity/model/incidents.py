"""What happens to a deployment while it is used. Times are seconds since the beginning of a run."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from mpcsim.errors import UsageError, unknown
from mpcsim.sim.network.transport import is_whole_number

PARTS: Final = ("node", "gateway", "operator", "institution")


@dataclass(frozen=True)
class Dies:
    """A replica is killed: what it was doing is lost, and callers notice."""

    at_s: float
    part: str = "node"
    replica: int = 1
    back_s: float = math.inf
    """How long after; by default never."""

    def __post_init__(self) -> None:
        _moment(self.at_s)
        _part(self.part)
        if not is_whole_number(self.replica, 1):
            raise UsageError(f"event replica is {self.replica}: not a whole number from 1 on")
        if not self.back_s > 0:
            raise UsageError(f"event back_s is {self.back_s}: not above 0")


@dataclass(frozen=True)
class Pauses:
    """All of a part stands still for a while; what comes meanwhile waits."""

    at_s: float
    part: str = "institution"
    lasting_s: float = 60.0

    def __post_init__(self) -> None:
        _moment(self.at_s)
        _part(self.part)
        _lasting(self.lasting_s)


@dataclass(frozen=True)
class Deploys:
    """A part's replicas are started anew, one after the other: each finishes what it does, takes
    nothing new, and is away for a while."""

    at_s: float
    part: str = "node"
    lasting_s: float = 10.0
    """How long each is away."""

    def __post_init__(self) -> None:
        _moment(self.at_s)
        _part(self.part)
        _lasting(self.lasting_s)


@dataclass(frozen=True)
class Slows:
    """A link takes longer for a while."""

    at_s: float
    link: str = "institution"
    """From the gateway: to the ``node``, the ``operator`` or the ``institution``."""
    factor: float = 3.0
    """Of its latencies."""
    lasting_s: float = 60.0

    def __post_init__(self) -> None:
        _moment(self.at_s)
        links = tuple(part for part in PARTS if part != "gateway")
        if self.link not in links:
            raise UsageError(f"event link: {unknown('end', self.link, links)}")
        if not 0 < self.factor < math.inf:
            raise UsageError(f"event factor is {self.factor}: not above 0, or not finite")
        _lasting(self.lasting_s)


@dataclass(frozen=True)
class Reshares:
    """Every key is recovered, so many at a time, as fast as they go."""

    at_s: float
    at_once: int = 8
    curve: str = "secp256k1"

    def __post_init__(self) -> None:
        _moment(self.at_s)
        if not is_whole_number(self.at_once, 1):
            raise UsageError(f"event at_once is {self.at_once}: not a whole number from 1 on")


Event = Dies | Pauses | Deploys | Slows | Reshares
EVENTS: Final[Mapping[str, type[Event]]] = {
    "dies": Dies,
    "pauses": Pauses,
    "deploys": Deploys,
    "slows": Slows,
    "reshares": Reshares,
}


def during_s(event: Event) -> tuple[float, float]:
    """From when to when. Of replicas that are deployed one after the other, the first; how long a
    resharing takes comes out of the run."""
    match event:
        case Dies():
            lasting = event.back_s
        case Reshares():
            lasting = math.inf
        case _:
            lasting = event.lasting_s
    return event.at_s, event.at_s + lasting


def _moment(at_s: float) -> None:
    if not 0 <= at_s < math.inf:
        raise UsageError(f"event at_s is {at_s}: below 0, or not finite")


def _part(part: str) -> None:
    if part not in PARTS:
        raise UsageError(f"event part: {unknown('part', part, PARTS)}")


def _lasting(lasting_s: float) -> None:
    if not 0 < lasting_s < math.inf:
        raise UsageError(f"event lasting_s is {lasting_s}: not above 0, or not finite")
