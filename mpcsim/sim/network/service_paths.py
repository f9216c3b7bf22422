"""The links of a running service: from the caller's node to the gateway and to the MPC nodes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from mpcsim.errors import UsageError
from mpcsim.ids import CLIENT, MPC_NODES
from mpcsim.link_transport import GATEWAY, Endpoint
from mpcsim.sim.network.topology import Direction, Network, Site


class ServicePath(NamedTuple):
    """One direction of a link."""

    direction: Direction
    service_ms: float
    """At its end, before a message goes on."""


@dataclass(frozen=True)
class DeliveredMessage:
    """A message that has come over a link; milliseconds since the network was first asked."""

    exchange: int
    """Of which request it is, or the answer to which; they are numbered as they begin."""
    source: Endpoint
    target: Endpoint
    size: int
    """Bytes, without what the connection adds."""
    given_ms: float
    arrived_ms: float


def service_paths(network: Network) -> dict[tuple[Endpoint, Endpoint], ServicePath]:
    """Each holder's link to the site in the middle, by its routes; none if it sits there.

    Raises:
        UsageError: a share holder has no site in the network, or a site has a setting that has no
            effect here: ``cpu_factor`` or ``cores``.
    """
    _check_sites(network)
    found: dict[tuple[Endpoint, Endpoint], ServicePath] = {}
    for party in MPC_NODES:
        there, back = network.route(CLIENT, party), network.route(party, CLIENT)
        if there:
            found[GATEWAY, party] = ServicePath(there[-1], 0.0)
            found[party, GATEWAY] = ServicePath(back[0], network.sites[back[0].target].service_ms)
        if len(there) > 1:
            found[CLIENT, GATEWAY] = ServicePath(
                there[0], network.sites[there[0].target].service_ms
            )
            found[GATEWAY, CLIENT] = ServicePath(back[-1], 0.0)
    return found


def _check_sites(network: Network) -> None:
    """Refuse what would have no effect: the service computes on the machine it runs on."""
    for site in network.sites.values():
        usual = Site(site.name)
        for setting in ("cpu_factor", "cores"):
            if (value := getattr(site, setting)) != getattr(usual, setting):
                raise UsageError(
                    f"site {site.name}: {setting} is {value}, which has no effect on a running "
                    "service; it has one in a Simulation"
                )
