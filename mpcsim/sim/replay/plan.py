"""A message graph laid out on a network: everything that is the same for all samples.

All times are milliseconds.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np

from mpcsim.errors import UsageError
from mpcsim.ids import PartyId
from mpcsim.sim.network.draws import TransferKey
from mpcsim.sim.network.latency import Constant
from mpcsim.sim.network.topology import Direction, Network
from mpcsim.sim.network.traffic import idle, records
from mpcsim.sim.replay.records import EVENT, FLOW, HOP, MESSAGE, STEP
from mpcsim.sim.replay.steps import Packet, Step
from mpcsim.sim.rich_display import counted
from mpcsim.sim.run.compute import Compute, Declared, Free, RoundWork

CHUNK: Final = 1024
"""Samples worked on at a time."""


@dataclass(frozen=True)
class PlannedHop:
    """One transfer: a message on one hop of its route."""

    message: int
    key: TransferKey
    direction: Direction
    service_ms: float


class Plan:
    """A graph on a network: everything that is the same for all samples, and the kernel's records.

    The records are changed by every run; one plan serves one thread.
    """

    def __init__(
        self,
        steps: tuple[Step, ...],
        messages: tuple[Packet, ...],
        network: Network,
        compute: Compute,
    ) -> None:
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
        self.connection = network.connection
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
    def certain(self) -> bool:
        """Whether all samples are alike: nothing is drawn."""
        ways = {hop.direction for hop in self.hops}
        latencies = {latency for way in ways for latency in (way.forward, way.backward)}
        return not any(way.lossy for way in ways) and all(
            isinstance(latency, Constant) for latency in latencies
        )

    def _write(self, network: Network) -> None:
        """Write the graph down for the kernel."""
        place_of = {party: place for place, party in enumerate(self.parties)}
        self.step_records = np.zeros(len(self.steps), STEP)
        self.step_records["previous"] = self.step_records["following"] = -1
        self.last_steps = np.full(len(self.parties), -1, np.int64)
        self.message_records = np.zeros(len(self.messages), MESSAGE)
        self.message_records["needed_by"] = -1
        sends: list[int] = []
        for number, step in enumerate(self.steps):
            record, place = self.step_records[number], place_of[step.party]
            record["party"], record["cost"] = place, self.costs_ms[number]
            if (before := self.last_steps[place]) >= 0:
                record["previous"] = before
                self.step_records[before]["following"] = number
            self.last_steps[place] = number
            record["needs"] = len(step.needs)
            self.message_records["needed_by"][list(step.needs)] = number
            record["first_send"] = len(sends)
            sends += step.sends
            record["last_send"] = len(sends)
        self.sends = np.array(sends, np.int64)
        self._route(network)

    def _route(self, network: Network) -> None:
        """The hops of every message."""
        flows: dict[tuple[PartyId, PartyId], int] = {}
        ends = [{packet.sender, packet.receiver} for packet in self.messages]
        pairs = sorted({(min(pair), max(pair)) for pair in ends})
        rows: list[tuple[int, int, int, int, int, int, float]] = []
        slots: dict[tuple[PartyId, PartyId, int], int] = {}
        side_of = {
            (pair[side], pair[1 - side]): (number, side)
            for number, link in enumerate(network.links)
            for pair in [(link.a, link.b)]
            for side in (0, 1)
        }
        for number, packet in enumerate(self.messages):
            flow = packet.sender, packet.receiver
            nth = flows[flow] = flows.get(flow, -1) + 1
            route = network.route(*flow)
            self.message_records[number]["first_hop"] = len(rows)
            for at, direction in enumerate(route):
                link, side = side_of[direction.source, direction.target]
                last = at + 1 == len(route)
                service = 0.0 if last else network.sites[direction.target].service_ms
                rows.append(
                    (
                        number,
                        slots.setdefault((*flow, at), len(slots)),
                        link,
                        side,
                        pairs.index((min(flow), max(flow))),
                        packet.size + self.connection.overhead_bytes,
                        service,
                    )
                )
                key = TransferKey(*flow, nth, at)
                self.hops.append(PlannedHop(number, key, direction, service))
            self.message_records[number]["last_hop"] = len(rows)
        self.hop_records = np.array(rows, HOP)
        self.flow_records = np.zeros(len(slots), FLOW)
        self.event_records = np.zeros(len(rows) + len(self.messages) + 1, EVENT)
        transfers = idle(len(rows))
        for name in ("link", "side", "pair", "size"):
            transfers[name] = self.hop_records[name]
        transfers["available"] = transfers["size"]
        carried = np.bincount(self.hop_records["link"], minlength=len(network.links))
        most = np.minimum(carried, 1 if self.connection.http == "2" else self.connection.pool)
        self.may_wait = bool((carried > most).any())
        self.records = records(network, max(1, int(most.sum())), transfers)


def _check_cores(parties: Iterable[PartyId], network: Network) -> None:
    hosted: dict[str, list[PartyId]] = {}
    for i in parties:
        network.route(i, i)  # has it a site?
        hosted.setdefault(network.placement[i], []).append(i)
    for name, guests in hosted.items():
        if len(guests) > (cores := network.sites[name].cores):
            raise UsageError(
                f"site {name} hosts {len(guests)} parties on {counted(cores, 'core')}: they would "
                "take turns, which a replay cannot reproduce; give the site more cores, or run "
                "the simulation itself"
            )
