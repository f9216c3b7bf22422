"""Deployment as data: sites, machines, processes, and the network between them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple, Self, get_args

from mpcsim.errors import UsageError
from mpcsim.ids import CLIENT, INSTITUTION, OPERATOR, ROLES
from mpcsim.service.gateway.defaults import MAKING_QUEUE
from mpcsim.sim.network.service_paths import service_paths
from mpcsim.sim.network.topology import Network
from mpcsim.sim.network.transport import is_whole_number

Exactness = Literal["recorded", "real", "live"]
"""Level of detail: recorded messages (``recorded``), or the real service's code, charged with
sampled service demands (``real``) or with the time that it takes here and now (``live``: never
twice the same)."""
EXACTNESSES: Final = get_args(Exactness)


@dataclass(frozen=True)
class Part:
    """Component of the service: its replicas, each on a machine of its own, or on one with other
    parts."""

    cores: int = 2
    """Cores of each machine."""
    replicas: int = 1
    workers: int = 1
    """Processes of each replica; each has an event loop, which uses one core at most."""
    speed: float = 1.0
    """Speed of a core relative to the machine of the costs; the disk stays as it is."""
    memory_mb: float = math.inf
    """Memory of each replica's machine; beyond it, the replica counts as saturated. A shared one
    has the least that its parts state, for all of them."""
    machine: str = ""
    """Name of the machine, if it is shared with other parts; they all state the same ``cores``."""

    def __post_init__(self) -> None:
        for name in ("cores", "replicas", "workers"):
            if not is_whole_number(value := getattr(self, name), 1):
                raise UsageError(f"part {name} is {value}: not a whole number from 1 on")
        if not self.speed > 0:
            raise UsageError(f"part speed is {self.speed}: not above 0")

        if not self.memory_mb > 0:
            raise UsageError(f"part memory_mb is {self.memory_mb}: not above 0")


class Machine(NamedTuple):
    """Cores and a disk that some replicas share."""

    name: str
    cores: int
    replicas: tuple[tuple[str, int], ...]
    """Replicas on it: the part, and the number among its replicas."""


ONE_MACHINE: Final = "this one"
_PARTIES: Final = {
    "caller": CLIENT,
    "node": CLIENT,
    "operator": OPERATOR,
    "institution": INSTITUTION,
}


@dataclass(frozen=True)
class Model:
    """Deployment of a service, as data; ``Deployment`` can be run."""

    network: Network = field(default_factory=Network.star)
    node: Part = Part()
    """REST node in the caller's backend: at the client's site."""
    gateway: Part = Part()
    operator: Part = Part()
    institution: Part = Part()
    caller: Part | None = None
    """Machine of the callers, if their own costs are of interest; beside the node."""

    making_limit: int = 0
    """Setting of the gateway: keys made at a time by generations and recoveries; 0: no limit."""
    making_queue: int = MAKING_QUEUE
    """Calls that may wait for that limit; others are refused."""

    def __post_init__(self) -> None:
        for name in ("making_limit", "making_queue"):
            if not is_whole_number(value := getattr(self, name), 0):
                raise UsageError(f"deployment {name} is {value}: not a whole number from 0 on")
        if self.network.placement.keys() != ROLES.keys():
            parties = ", ".join(map(str, self.network.placement)) or "nobody"
            raise UsageError(
                f"the parties of a service are {', '.join(ROLES.values())} (1, 2 and 3), those of "
                f"this network {parties}"
            )
        service_paths(self.network)
        cores: dict[str, tuple[str, int]] = {}
        for name, part in self.parts.items():
            first, number = cores.setdefault(part.machine or name, (name, part.cores))
            if part.cores != number:
                raise UsageError(
                    f"{name} cores is {part.cores}: it shares {part.machine} with {first}, which "
                    f"says {number}"
                )

    @classmethod
    def on_one_machine(cls, cores: int = 2, network: Network | None = None) -> Self:
        """Return a deployment with everything on one machine, callers included, as by ``mpcsim
        serve``."""
        part = Part(cores, machine=ONE_MACHINE)
        return cls(network or Network.star(), part, part, part, part, part)

    @property
    def parts(self) -> Mapping[str, Part]:
        """Parts by name."""
        found = {
            name: getattr(self, name) for name in ("node", "gateway", "operator", "institution")
        }
        return found if self.caller is None else {"caller": self.caller} | found

    @property
    def sites(self) -> Mapping[str, str]:
        """Site of each part in the network."""
        found = {name: self.network.placement[party] for name, party in _PARTIES.items()}
        there = self.network.route(CLIENT, OPERATOR) or self.network.route(CLIENT, INSTITUTION)
        found["gateway"] = there[0].target if len(there) > 1 else found["node"]
        return {name: found[name] for name in self.parts}

    @property
    def machines(self) -> tuple[Machine, ...]:
        """Machines, and which replicas share them."""
        found: dict[str, Machine] = {}
        for name, part in self.parts.items():
            for replica in range(1, part.replicas + 1):
                label = part.machine or f"{name} {replica}"
                on_it = found.get(label, Machine(label, part.cores, ())).replicas
                found[label] = Machine(label, part.cores, (*on_it, (name, replica)))
        return tuple(found.values())

    @property
    def extrapolated(self) -> tuple[str, ...]:
        """Parts with more processes than the real service can have: figures about them are not
        validated."""
        return tuple(
            f"{name}: {part.replicas * part.workers} processes"
            for name, part in self.parts.items()
            if name in ("gateway", "operator", "institution") and part.replicas * part.workers > 1
        )
