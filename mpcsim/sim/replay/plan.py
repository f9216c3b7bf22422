"""A message graph laid out on a network: everything that is the same for all samples.

All times are milliseconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from mpcsim.errors import UsageError
from mpcsim.ids import PartyId
from mpcsim.sim.network.draws import TransferKey
from mpcsim.sim.network.topology import Direction, Network
from mpcsim.sim.network.transport import (
    MAX_WINDOW,
    SEGMENT_BYTES,
    Connection,
    loss_distribution,
    segments,
    wire_ms,
)
from mpcsim.sim.replay.arrays import Floats
from mpcsim.sim.replay.steps import Packet, Step
from mpcsim.sim.rich_display import counted
from mpcsim.sim.run.compute import Compute, Declared, Free, RoundWork

CHUNK: Final = 8192
"""Samples worked on at a time: an array of them takes 64 kB."""
CHUNK_BYTES: Final = 256 << 20
"""All arrays of a chunk stay below that; large graphs get smaller chunks."""


@dataclass(frozen=True)
class PlannedHop:
    """One transfer: a message on one hop of its route."""

    message: int
    key: TransferKey
    direction: Direction
    pipe: tuple[PartyId, PartyId, int]
    index: int
    """Its place among the transfers of the pipe."""
    steps: tuple[int, ...]
    """Steps of the sender since the transfer before: none if the same step sent both."""
    final: bool
    """Nothing follows on this pipe."""
    size: int
    count: int
    """Segments."""
    wire_ms: float
    """Time on the wire if sent in one go."""
    first_segment_ms: float
    service_ms: float
    handshakes: int
    """Round trips to open the connection."""
    tracked: bool
    """The window matters for this transfer or a later one of the pipe."""
    waits: bool
    """It may have to wait for acknowledgements."""
    levels: Floats | None
    """Cumulative probabilities of the recovery levels, or None if nothing gets lost."""


class Plan:
    """A graph on a network: everything that is the same for all samples."""

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
        self.routes: list[tuple[PlannedHop, ...]] = [() for _ in messages]
        self._lay_out(network)

    def _lay_out(self, network: Network) -> None:
        """The hops of every message."""
        flows: dict[tuple[PartyId, PartyId], list[int]] = {}
        for number, packet in enumerate(self.messages):
            flows.setdefault((packet.sender, packet.receiver), []).append(number)
        rank: dict[int, int] = {}  # of a step among those of its party
        by_party: dict[PartyId, list[int]] = {}
        for number, step in enumerate(self.steps):
            mine = by_party.setdefault(step.party, [])
            rank[number] = len(mine)
            mine.append(number)
        connection = self.connection
        for (sender, receiver), numbers in flows.items():
            sizes = [self.messages[n].size + connection.overhead_bytes for n in numbers]
            tracked, waits = _window_plan([segments(size) for size in sizes], connection)
            route = network.route(sender, receiver)
            for nth, (number, size) in enumerate(zip(numbers, sizes, strict=True)):
                mine = by_party[sender]
                now = rank[self.messages[number].step]
                before = rank[self.messages[numbers[nth - 1]].step] if nth else now
                count = segments(size)
                self.routes[number] = tuple(
                    PlannedHop(
                        number,
                        TransferKey(sender, receiver, nth, hop),
                        direction,
                        (sender, receiver, hop),
                        nth,
                        tuple(mine[before + 1 : now + 1]),
                        nth + 1 == len(numbers),
                        size,
                        count,
                        wire_ms(size, count, direction.mbit_per_s),
                        wire_ms(min(size, SEGMENT_BYTES), 1, direction.mbit_per_s),
                        network.sites[direction.target].service_ms if hop + 1 < len(route) else 0.0,
                        connection.handshake_round_trips if connection.cold and not nth else 0,
                        tracked[nth],
                        waits[nth],
                        _levels(count, direction.loss) if direction.loss else None,
                    )
                    for hop, direction in enumerate(route)
                )

    def chunk(self, explain: bool) -> int:
        """Samples to work on at a time: a power of two, as many as the memory allows."""
        hops = [hop for route in self.routes for hop in route]
        tracked = sum(hop.tracked for hop in hops)
        arrays = 4 * sum(hop.final for hop in hops) + 3 * tracked + len(self.parties)
        if explain:
            arrays += 3 * len(hops) + 3 * tracked + 2 * len(self.steps)
        fitting = max(64, CHUNK_BYTES // (8 * arrays))
        return min(CHUNK, 1 << (fitting.bit_length() - 1))


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


def _levels(count: int, loss: float) -> Floats:
    return np.maximum.accumulate(np.array(loss_distribution(count, loss), dtype=np.float64))


def _window_plan(counts: Sequence[int], connection: Connection) -> tuple[list[bool], list[bool]]:
    """For the transfers of a pipe: does the window matter still, and may the transfer wait?

    Follows every state (window, segments out) that the pipe can be in, whatever the times are: at
    each transfer the window may start again, may have opened anew, or neither.
    """
    first = {(connection.initial_window, 0)}
    again = first if connection.slow_start_after_idle else set[tuple[int, int]]()
    states = first
    waits = []
    for index, count in enumerate(counts):
        if index:
            grown = {(min(window + used, MAX_WINDOW), 0) for window, used in states}
            states = again | grown | states
        waits.append(any(window - used < count for window, used in states))
        states = {_after(window, used, count) for window, used in states}
    last = max((index for index, wait in enumerate(waits) if wait), default=-1)
    return [index <= last for index in range(len(counts))], waits


def _after(window: int, used: int, count: int) -> tuple[int, int]:
    """The window after ``count`` segments."""
    while count > window - used:
        count -= window - used
        window, used = min(2 * window, MAX_WINDOW), 0
    return window, used + count
