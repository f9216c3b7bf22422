"""Session run: parties, messages in transit and records, common to virtual and real time.

All times are milliseconds of the session's clock, from its start.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field, replace
from itertools import count, permutations
from typing import Any, ClassVar, Generic, TypedDict, TypeVar

from mpcsim.errors import UsageError
from mpcsim.ids import PartyId
from mpcsim.protocols.engine import Output, Prepared, Send
from mpcsim.protocols.local_run import Participant
from mpcsim.sim.network.draws import DrawSource, SeededDraws, TransferKey
from mpcsim.sim.network.topology import Direction, Network, Site
from mpcsim.sim.network.traffic import Arrival, Traffic
from mpcsim.sim.network.transport import Draws, Transfer
from mpcsim.sim.run.completion import Validate, conclude_run, inner_party
from mpcsim.sim.run.compute import RoundWork, Stopwatch, cpu_ms
from mpcsim.sim.run.contents import message_contents
from mpcsim.sim.run.faults import Fault, FaultPlan, Partition
from mpcsim.sim.run.message_recording import RecordedParty, Recording
from mpcsim.sim.run.realtime_traffic import RealtimeTraffic
from mpcsim.sim.trace import Trace
from mpcsim.sim.traces.records import Hop, MessageRecord, WorkRecord

Cause = tuple[str, int]
"""Cause of an event: ``message`` or ``work``, and its number."""


class PlacedParty:
    """Party at its site, which does one piece of work at a time."""

    def __init__(
        self, party: Participant[Any], site: Site, clock_ms: Callable[[], float] = cpu_ms
    ) -> None:
        self.party = party
        self.site = site
        inner = inner_party(party)
        self.session = inner.session_id.hex()[:8]
        self.protocol = inner.definition.name
        self.watch = Stopwatch(inner.listener, clock_ms)
        inner.listener = self.watch
        self.busy_until = 0.0
        self.last_work: int | None = None
        self.ended_ms: float | None = None
        self.burst = -1
        """Number of the uninterrupted work in progress, or of the last one."""


@dataclass(eq=False)
class FlowHop:
    """Hop of a flow, with the draws of its last burst of messages."""

    direction: Direction
    service_ms: float
    """Service time at its far end, before a message goes on."""
    burst: int = -1
    draws: Draws | None = None

    def hop_record(self, transfer: Transfer) -> Hop:
        """Return the record of a message's transfer over this hop."""
        return Hop(self.direction.source, self.direction.target, transfer, self.service_ms)


@dataclass(slots=True)
class MessageInTransit:
    """Message in transit, with its position on the route."""

    number: int
    key: TransferKey
    """Key of its transfer, with the present hop."""
    data: bytes
    route: tuple[FlowHop, ...]
    burst: int
    extra_ms: float
    copies_ms: tuple[float, ...]
    pair: int
    """Number of its pair of parties."""
    hops: list[Hop] = field(default_factory=list)
    """Hops that it has completed."""
    transfer_numbers: list[int] = field(default_factory=list)
    """Numbers of its transfers in ``Traffic``, hop by hop."""
    forwarded: list[int] = field(default_factory=list)
    """Bytes forwarded from the end of each of these hops; 0 unless it is forwarded in parts."""


@dataclass(frozen=True)
class RunSettings:
    """Settings of a run, whatever its clock."""

    seed: int = 0
    """Seed of latencies, losses and random faults."""
    faults: tuple[Fault, ...] = ()
    draws: DrawSource | None = None
    """Source of draws in place of seeded ones from the network's distributions."""
    validate: Validate = lambda results: True
    """Predicate on the results; a run whose results it refuses is INVALID."""
    name: str = ""
    """Name of the run in the trace."""
    contents: bool = False
    """Whether the trace keeps the contents of messages: SECRETS."""


class RunOptions(TypedDict, total=False):
    """Settings of a run as keyword arguments."""

    seed: int
    faults: Iterable[Fault]
    draws: DrawSource | None
    validate: Validate
    name: str
    contents: bool


def run_settings(options: RunOptions) -> RunSettings:
    """Return the settings of a run, with defaults for omitted options."""
    return RunSettings(**{**options, "faults": tuple(options.get("faults", ()))})  # type: ignore[arg-type]


P = TypeVar("P", bound=PlacedParty)


class SessionRun(Generic[P]):
    """Run of one session, by either clock."""

    clock: ClassVar[str]

    def __init__(
        self,
        parties: Iterable[Participant[Any]],
        network: Network,
        place: Callable[[Participant[Any], Site], P],
        settings: RunSettings,
        *,
        compute: str,
    ) -> None:
        """Place the parties on the network.

        Raises:
            UsageError: no party, or one that is there twice or has no site.
        """
        self.network = network
        self.seed = settings.seed
        self.validate = settings.validate
        self.name = settings.name
        self.prepared: dict[PartyId, Any] = {}
        self._compute = compute
        self._draws = settings.draws or SeededDraws(settings.seed)
        self._faults = FaultPlan(settings.faults, settings.seed)
        self._partitions = [fault for fault in settings.faults if isinstance(fault, Partition)]
        self._parties: dict[PartyId, P] = {}
        self._recording = Recording() if settings.contents else None
        for party in parties:
            if party.me not in network.placement:
                raise UsageError(f"party {party.me} has no site in this network")
            if party.me in self._parties:
                raise UsageError(f"party {party.me} is there twice")
            if self._recording is not None:
                party = RecordedParty(party, self._recording)
            self._parties[party.me] = place(party, network.sites[network.placement[party.me]])
        if not self._parties:
            raise UsageError("a run needs at least one party")
        self._flows = {
            (i, j): (count(), self._route(i, j)) for i, j in permutations(self._parties, 2)
        }
        """Counter of messages and hops, for each pair of sender and receiver."""
        pairs = sorted({(min(flow), max(flow)) for flow in self._flows})
        self._pairs = {pair: number for number, pair in enumerate(pairs)}
        self._traffic = Traffic(network)
        self._on_links: dict[int, tuple[MessageInTransit, int]] = {}
        """Messages on a hop, and which hop, by the number of the transfer."""
        self._bursts = count()
        self._transits: dict[int, MessageInTransit] = {}
        """Messages in transit, by number."""
        self._messages: list[MessageRecord] = []
        self._work: list[WorkRecord] = []

    @property
    def idle_faults(self) -> tuple[Fault, ...]:
        """Message faults that have not taken place so far: nothing has matched them, or chance."""
        return self._faults.idle

    @property
    def parties(self) -> dict[PartyId, Participant[Any]]:
        """Parties in their present state."""
        found = {i: placed.party for i, placed in self._parties.items()}
        return {i: p.inner if isinstance(p, RecordedParty) else p for i, p in found.items()}

    def _send(self, placed: P, send: Send, when: float, by: int | None) -> None:
        """Send a message."""
        raise NotImplementedError

    # ------------------------------------------------------------------ work

    def _record_work(
        self, placed: P, work: RoundWork | None, start: float, end: float, cause: Cause | None
    ) -> Cause:
        """Record a round, or the handling of a message; return it as the cause of what follows."""
        number = placed.last_work = len(self._work)
        self._work.append(
            WorkRecord(
                number,
                placed.party.me,
                placed.site.name,
                work.protocol if work else "",
                work.number if work else 0,
                work.name if work else "handle message",
                start,
                end,
                cause,
            )
        )
        return "work", number

    def _handle_outputs(
        self,
        placed: P,
        outputs: Iterable[Output[Any]],
        ends: Mapping[int, tuple[float, int]],
        ended_ms: float,
    ) -> None:
        """Send or record the outputs of a party's work.

        Args:
            ends: end of each round, and the number of its record.
        """
        for output in outputs:
            if isinstance(output, Send):
                self._send(placed, output, *ends.get(output.round, (ended_ms, placed.last_work)))
            elif isinstance(output, Prepared):
                self.prepared[placed.party.me] = output.result
            else:
                placed.ended_ms = ended_ms

    # ------------------------------------------------------------------ messages

    def _route(self, sender: PartyId, receiver: PartyId) -> tuple[FlowHop, ...]:
        """Return the hops from one party to another."""
        route = self.network.route(sender, receiver)
        services = [self.network.sites[d.target].service_ms for d in route[:-1]]
        return tuple(map(FlowHop, route, [*services, 0.0]))

    def _dispatch(
        self, placed: P, send: Send, when: float, by: int | None, burst: int
    ) -> MessageInTransit | None:
        """Record a message; return it in transit, None if a fault drops it or there is no
        receiver."""
        sender = placed.party.me
        number = len(self._messages)
        fate = self._faults.decide(send.kind, sender, send.to) if send.to in self._parties else None
        dropped = (
            fate is None
            or fate.dropped
            or any(p.separates(sender, send.to, when) for p in self._partitions)
        )
        self._messages.append(
            MessageRecord(
                number,
                placed.session,
                placed.protocol,
                send.round,
                send.kind,
                sender,
                send.to,
                len(send.data),
                when,
                None,
                (),
                by,
                "dropped" if dropped else "delivered",
            )
        )
        if fate is None or dropped:
            return None
        numbers, hops = self._flows[sender, send.to]
        key = TransferKey(sender, send.to, next(numbers), 0)
        self._transits[number] = MessageInTransit(
            number,
            key,
            send.data,
            hops,
            burst,
            fate.extra_ms,
            fate.copies_ms,
            self._pairs[min(sender, send.to), max(sender, send.to)],
        )
        return self._transits[number]

    def _carrier(self) -> Traffic | RealtimeTraffic:
        """Return the traffic that carries messages."""
        return self._traffic

    def _size(self, transit: MessageInTransit) -> int:
        """Return the size of a message with the transport's overhead."""
        return len(transit.data) + self.network.connection.overhead_bytes

    def _send_on_hop(self, transit: MessageInTransit, now_ms: float, available: int) -> None:
        """Send a message on its next hop.

        Args:
            available: number of its bytes that are available.
        """
        at = len(transit.transfer_numbers)
        hop = transit.route[at]
        transit.key = transit.key._replace(hop=at)
        draws = self._draws(transit.key, hop.direction)
        if hop.burst == transit.burst and hop.draws is not None:
            # Packets of one burst meet the same queues.
            draws = Draws(hop.draws.forward_ms, hop.draws.backward_ms, draws.key)
        hop.burst, hop.draws = transit.burst, draws
        connection = self.network.connection
        number = self._carrier().send(
            hop.direction,
            now_ms,
            self._size(transit),
            draws,
            pair=transit.pair,
            available=available,
            stream=connection.forwarding == "stream" and at + 1 < len(transit.route),
        )
        transit.transfer_numbers.append(number)
        transit.forwarded.append(0)
        self._on_links[number] = transit, at

    def _complete_hop(self, arrival: Arrival) -> tuple[MessageInTransit, int]:
        """Return the message of an arrival, and its hop; complete the hop if all of it is there."""
        transit, at = self._on_links[arrival.number]
        if arrival.whole:
            del self._on_links[arrival.number]
            transit.hops.append(
                transit.route[at].hop_record(self._traffic.take_transfer(arrival.number))
            )
        return transit, at

    def _record_loss(self, transit: MessageInTransit) -> None:
        """Record a message as lost: TCP has aborted its connection."""
        number = transit.number
        del self._transits[number]
        record = self._messages[number].with_arrival(None, tuple(transit.hops))
        self._messages[number] = replace(record, fate="lost")
        for given in transit.transfer_numbers:
            self._on_links.pop(given, None)

    def _record_arrival(
        self, transit: MessageInTransit, received_ms: float | None
    ) -> MessageRecord:
        """Record a message's arrival at the end of its route, and return the record."""
        number = transit.number
        del self._transits[number]
        record = self._messages[number].with_arrival(received_ms, tuple(transit.hops))
        self._messages[number] = record
        return record

    # ------------------------------------------------------------------ the end

    def _hops_under_way(self, now_ms: float) -> dict[int, list[Hop]]:
        """Return the hops under way, by message, as they end if nothing else is sent."""
        found: dict[int, list[Hop]] = {}
        if not self._on_links:
            return found
        traffic = deepcopy(self._traffic)
        while (arrival := traffic.advance(now_ms, math.inf)) is not None:
            now_ms = arrival.at_ms
            if arrival.whole:
                transit, at = self._on_links[arrival.number]
                hop = transit.route[at].hop_record(traffic.take_transfer(arrival.number))
                found.setdefault(transit.number, []).append(hop)
        return found

    def _trace(self, ended_ms: float) -> Trace:
        """Return the trace of the events so far; an unfinished run counts as stalled."""
        ahead = self._hops_under_way(ended_ms)
        for number, transit in self._transits.items():  # when the run was stopped
            hops = (*transit.hops, *ahead.get(number, ()))
            self._messages[number] = replace(self._messages[number], hops=hops)
        verdict, endings, outcomes = conclude_run(
            {i: (placed.party, placed.ended_ms) for i, placed in self._parties.items()},
            ended_ms,
            self.validate,
        )
        return Trace(
            self.name,
            self.network.name,
            self.seed,
            self._compute,
            self.clock,
            verdict,
            tuple(self._messages),
            tuple(self._work),
            endings,
            max(ending.at_ms for ending in endings),
            any(inner_party(party).reproducible for party in self.parties.values()),
            outcomes,
            contents=message_contents(self._recording, self._messages) if self._recording else {},
        )
