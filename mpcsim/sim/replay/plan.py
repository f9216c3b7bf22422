"""A message graph routed over a network: what all samples share, in milliseconds."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np

from mpcsim.errors import UsageError
from mpcsim.ids import CLIENT, PartyId
from mpcsim.link_transport import Endpoint
from mpcsim.sim.network.draws import TransferKey
from mpcsim.sim.network.latency import Constant
from mpcsim.sim.network.service_paths import service_paths
from mpcsim.sim.network.topology import Direction, Network
from mpcsim.sim.network.traffic import idle_transfers, traffic_records
from mpcsim.sim.replay.records import EVENT, FLOW, HOP, MESSAGE, STEP
from mpcsim.sim.replay.steps import GATEWAY, GraphMessage, Step, Timeouts
from mpcsim.sim.rich_display import counted
from mpcsim.sim.run.compute import Compute, Declared, Free, RoundWork
from mpcsim.sim.traces.records import Scope

CHUNK: Final = 1024
"""Samples simulated at a time."""


@dataclass(frozen=True)
class PlannedHop:
    """A transfer: a message on one hop of its route."""

    message: int
    key: TransferKey
    direction: Direction
    service_ms: float


class Plan:
    """A graph routed over a network, and the kernel's records.

    Every run changes the records, so a plan is not thread-safe.
    """

    def __init__(
        self,
        steps: tuple[Step, ...],
        messages: tuple[GraphMessage, ...],
        network: Network,
        compute: Compute,
        scope: Scope,
        timeouts_s: Timeouts,
    ) -> None:
        if scope == "rest" and not isinstance(compute, Free):
            raise UsageError("what a call computes takes no time in a replay: leave costs out")
        if not isinstance(compute, Declared | Free):
            raise UsageError(
                f"compute {compute.name} cannot be replayed: it differs from run to run "
                "(compute.calibrate makes declared costs of it)"
            )
        if network.connection.forwarding != "store":
            raise UsageError(
                f"a network with forwarding {network.connection.forwarding} cannot be replayed: "
                "run the simulation itself"
            )
        self.steps = steps
        self.messages = messages
        self.compute = compute
        self.scope = scope
        self.timeouts_s = timeouts_s
        self.connection = network.connection
        if scope == "rest":
            self.parties: tuple[PartyId, ...] = (CLIENT,)
            self.costs_ms = [0.0] * len(steps)
        else:
            self.parties = tuple(dict.fromkeys(step.party for step in steps))
            _check_cores(self.parties, network)
            self.costs_ms = [
                compute.round_ms(RoundWork(step.protocol, step.round, step.name, 0.0))
                * network.sites[network.placement[step.party]].cpu_factor
                for step in steps
            ]
        self.hops: list[PlannedHop] = []
        self._write(network)

    @property
    def is_deterministic(self) -> bool:
        """Whether all samples are the same, because nothing is random."""
        directions = {hop.direction for hop in self.hops}
        latencies = {latency for each in directions for latency in (each.forward, each.backward)}
        return not any(each.is_lossy for each in directions) and all(
            isinstance(latency, Constant) for latency in latencies
        )

    def _write(self, network: Network) -> None:
        """Fill the kernel's records from the graph."""
        self.step_records = np.zeros(len(self.steps), STEP)
        self.step_records["previous"] = self.step_records["following"] = -1
        self.message_records = np.zeros(len(self.messages), MESSAGE)
        last_of: dict[PartyId, int] = {}
        sends: list[int] = []
        waiting: list[list[int]] = [[] for _ in self.messages]
        for number, step in enumerate(self.steps):
            record = self.step_records[number]
            record["cost"] = self.costs_ms[number]
            before = last_of.get(step.party)
            if before is not None and self.scope == "protocol":
                record["previous"] = before
                self.step_records[before]["following"] = number
            last_of[step.party] = number
            record["needs"] = len(step.needs)
            for need in step.needs:
                waiting[need].append(number)
            record["first_send"] = len(sends)
            sends += step.sends
            record["last_send"] = len(sends)
        self.last_steps = np.array([last_of[party] for party in self.parties], np.int64)
        self.sends = np.array(sends, np.int64)
        ends = np.cumsum([0, *map(len, waiting)])
        self.message_records["first_needed"] = ends[:-1]
        self.message_records["last_needed"] = ends[1:]
        self.message_records["request"] = -1
        if self.scope == "rest":
            self._set_timeouts()
        self.needed_by = np.array([number for numbers in waiting for number in numbers], np.int64)
        self._route(network)

    def _set_timeouts(self) -> None:
        """Set the time-out of each answer."""
        request_of: dict[int, int] = {}
        for number, packet in enumerate(self.messages):
            request = request_of.setdefault(packet.exchange, number)
            if request != number:
                self.message_records[number]["request"] = request
                asking = self.messages[request].sender
                limit_s = self.timeouts_s[0 if asking == CLIENT else 1]
                self.message_records[number]["limit"] = limit_s * 1000

    def _route(self, network: Network) -> None:
        """Set the hops of every message."""
        flows: dict[tuple[PartyId, PartyId], int] = {}
        pair_of = self._pairs()
        last_of = {packet.exchange: number for number, packet in enumerate(self.messages)}
        call = self.scope == "rest"
        route_of = _routes(network, self.messages, call)
        rows: list[tuple[int, int, int, int, int, int, float, bool]] = []
        slots: dict[tuple[PartyId, PartyId, int, int], int] = {}
        side_of = {
            (pair[side], pair[1 - side]): (number, side)
            for number, link in enumerate(network.links)
            for pair in [(link.a, link.b)]
            for side in (0, 1)
        }
        for number, packet in enumerate(self.messages):
            flow = packet.sender, packet.receiver
            nth = flows[flow] = flows.get(flow, -1) + 1
            own = number if call else -1  # messages of a call do not share draws
            releases = call and last_of[packet.exchange] == number
            self.message_records[number]["first_hop"] = len(rows)
            for at, (direction, service) in enumerate(route_of[flow]):
                link, side = side_of[direction.source, direction.target]
                rows.append(
                    (
                        number,
                        slots.setdefault((*flow, at, own), len(slots)),
                        link,
                        side,
                        pair_of[number],
                        packet.size + self.connection.overhead_bytes,
                        service,
                        releases,
                    )
                )
                key = TransferKey(*flow, nth, at)
                self.hops.append(PlannedHop(number, key, direction, service))
            self.message_records[number]["last_hop"] = len(rows)
        self.hop_records = np.array(rows, HOP)
        self.flow_records = np.zeros(len(slots), FLOW)
        self.event_records = np.zeros(len(rows) + len(self.messages) + 1, EVENT)
        transfers = idle_transfers(len(rows))
        for name in ("link", "side", "pair", "size"):
            transfers[name] = self.hop_records[name]
        transfers["available"] = transfers["size"]
        transfers["exclusive"] = call and self.connection.http == "1.1"
        carried = np.bincount(self.hop_records["link"], minlength=len(network.links))
        most = np.minimum(carried, 1 if self.connection.http == "2" else self.connection.pool)
        self.may_wait = bool((carried > most).any())
        self.records = traffic_records(network, max(1, int(most.sum())), transfers)

    def _pairs(self) -> list[int]:
        """Return which connection each message prefers: that of its parties or its exchange."""
        if self.scope == "rest":
            return [packet.exchange for packet in self.messages]
        ends = [tuple(sorted((packet.sender, packet.receiver))) for packet in self.messages]
        places = {pair: place for place, pair in enumerate(sorted(set(ends)))}
        return [places[pair] for pair in ends]


Route = list[tuple[Direction, float]]
"""Directions of links, each with the service time at its end."""


def _routes(
    network: Network, messages: tuple[GraphMessage, ...], call: bool
) -> dict[tuple[PartyId, PartyId], Route]:
    """Return the route from each sender to each receiver."""
    routes: dict[tuple[PartyId, PartyId], Route] = {}
    path_of = service_paths(network) if call else {}
    for flow in {(packet.sender, packet.receiver) for packet in messages}:
        if call:
            path = path_of.get((_end(flow[0]), _end(flow[1])))
            routes[flow] = [] if path is None else [path]
        else:
            route = network.route(*flow)
            service = [network.sites[direction.target].service_ms for direction in route[:-1]]
            routes[flow] = list(zip(route, [*service, 0.0], strict=False))
    return routes


def _end(place: PartyId) -> Endpoint:
    return None if place == GATEWAY else place


def _check_cores(parties: Iterable[PartyId], network: Network) -> None:
    hosted: dict[str, list[PartyId]] = {}
    for i in parties:
        network.route(i, i)  # raises, if it has no site
        hosted.setdefault(network.placement[i], []).append(i)
    for name, guests in hosted.items():
        if len(guests) > (cores := network.sites[name].cores):
            raise UsageError(
                f"site {name} hosts {len(guests)} parties on {counted(cores, 'core')}: they would "
                "take turns, which a replay cannot reproduce; give the site more cores, or run "
                "the simulation itself"
            )
