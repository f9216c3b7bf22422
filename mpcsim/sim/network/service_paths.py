"""Paths of a running service on a network: between caller's node, gateway and MPC nodes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from mpcsim.errors import UsageError
from mpcsim.ids import CLIENT, MPC_NODES
from mpcsim.link_transport import GATEWAY, Endpoint
from mpcsim.sim.network.topology import Direction, Network, Site


class ServicePath(NamedTuple):
    """Direction of a link between two of the service's processes."""

    direction: Direction
    service_ms: float
    """Service time at its end, before a message goes on."""


@dataclass(frozen=True)
class DeliveredMessage:
    """Message that has arrived over a link; times are since the network's first use."""

    exchange: int
    """Number of its exchange of request and answer, in the order of their beginnings."""
    source: Endpoint
    target: Endpoint
    size: int
    """Size in bytes, without the connection's overhead."""
    given_ms: float
    arrived_ms: float


def service_paths(network: Network) -> dict[tuple[Endpoint, Endpoint], ServicePath]:
    """Return each share holder's paths to and from the gateway; none if it is at the same site.

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
    """Refuse settings without effect: the service computes on the machine it runs on."""
    for site in network.sites.values():
        usual = Site(site.name)
        for setting in ("cpu_factor", "cores"):
            if (value := getattr(site, setting)) != getattr(usual, setting):
                raise UsageError(
                    f"site {site.name}: {setting} is {value}, which has no effect on a running "
                    "service; it has one in a Simulation"
                )
