"""Monte Carlo by replay: the timing of a protocol run, a million times, without its cryptography.

What a session sends does not depend on the network: who computes which round, what each round
waits for, who sends how many bytes to whom. ``record`` takes that message graph out of one trace,
and ``MessageGraph.replay`` works out when everybody would have finished under any network model,
for many draws of latencies and losses at once, as arrays.

    >>> sim = Simulation(Network.star(), seed=1)
    >>> sim.generate()
    >>> graph = record(sim.sign().trace)
    >>> print(graph.replay(Network.preset("seoul", access="lte"), 1_000_000))

The arithmetic is that of ``transport.Pipe`` and ``engine.VirtualRun``, operation by operation: fed
with the same draws (``DrawTable``), both give the same times, bit by bit. Three things make it
quick. Samples are worked on in chunks that stay in the processor's cache. What cannot matter is not
computed: a connection whose messages fit into the window in every possible course of events needs
neither a window nor acknowledgements. And nothing is drawn that is not used.

All times are milliseconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from mpcsim.errors import UsageError
from mpcsim.ids import PartyId
from mpcsim.protocol import Definition
from mpcsim.protocols import dkg, ecdsa, frost, reshare
from mpcsim.sim.compute import Compute, Declared, Free, RoundWork
from mpcsim.sim.engine import DrawSource, TransferKey
from mpcsim.sim.latency import Constant
from mpcsim.sim.network import Direction, Network
from mpcsim.sim.recording import Trace
from mpcsim.sim.transport import (
    INITIAL_WINDOW,
    MAX_WINDOW,
    MIN_RTO_MS,
    SEGMENT_BYTES,
    SEGMENT_HEADER_BYTES,
    Draws,
    loss_distribution,
    segments,
    whole,
    wire_ms,
)

__all__ = [
    "ArraySource",
    "DrawTable",
    "Explanation",
    "MessageGraph",
    "Packet",
    "Replay",
    "Share",
    "Step",
    "record",
]

Floats = NDArray[np.float64]
"""One value a sample; or a single one that holds for all samples."""
Bools = NDArray[np.bool_]
Part = Literal["forward", "backward", "loss"]
"""What is drawn for a transfer: latency there and back, and where on the loss distribution."""

PARTS: Final = (
    "compute",
    "propagation",
    "transmission",
    "window",
    "handshake",
    "queueing",
    "recovery",
    "service",
)
"""Where the time on a critical path goes; the names are those of ``analysis.PARTS``."""

SEGMENT_BITS: Final = (SEGMENT_BYTES + SEGMENT_HEADER_BYTES) * 8
CHUNK: Final = 8192
"""Samples worked on at a time: an array of them takes 64 kB."""
CHUNK_BYTES: Final = 256 << 20
"""All arrays of a chunk stay below that; large graphs get smaller chunks."""

_ZERO: Final[Floats] = np.zeros(1)
_FIRST_WINDOW: Final[Floats] = np.array([float(INITIAL_WINDOW)])

_KNOWN: Final[Mapping[str, Definition[Any, Any]]] = {
    definition.name: definition
    for definition in (dkg.DKG, ecdsa.ECDSA, frost.FROST, reshare.RESHARE)
}


# ---------------------------------------------------------------------- the graph


@dataclass(frozen=True)
class Packet:
    """One message of the graph."""

    kind: str
    sender: PartyId
    receiver: PartyId
    size: int
    """Envelope in bytes; the transport adds its overhead."""
    step: int
    """Number of the step that sends it."""


@dataclass(frozen=True)
class Step:
    """One round at one party. It runs when the party's last one is over and its needs are there."""

    party: PartyId
    protocol: str
    round: int
    name: str
    needs: tuple[int, ...]
    """Numbers of the messages it waits for."""
    sends: tuple[int, ...]
    """Numbers of the messages that leave at its end, in order."""


@dataclass(frozen=True)
class MessageGraph:
    """What a session does, without when."""

    name: str
    """What was run, e.g. ``sign secp256k1``."""
    steps: tuple[Step, ...]
    """In an order in which they can run; those of a party in the order in which they do run."""
    messages: tuple[Packet, ...]

    @property
    def parties(self) -> tuple[PartyId, ...]:
        return tuple(dict.fromkeys(step.party for step in self.steps))

    def replay(
        self,
        network: Network,
        samples: int = 1_000_000,
        *,
        seed: int = 0,
        costs: Compute | None = None,
        parties: bool = False,
        explain: bool = False,
        draws: ArraySource | None = None,
    ) -> Replay:
        """When the session finishes, ``samples`` times over.

        The same graph, network, costs, seed and number of samples give the same result. Memory
        does not grow with the samples but for what is kept: 8 bytes for each, and as many again
        for each party if asked for.

        Args:
            samples: how many; independent of each other.
            costs: how long rounds take, ``Declared`` or ``Free``; no time by default.
            parties: keep the finishing times of every party, too.
            explain: work out critical paths, for all samples; takes up to twice as long.
            draws: in place of draws from the network's distributions.

        Raises:
            UsageError: no samples; measured compute; a party without a site; a site that hosts
                more parties than it has cores (they would take turns, in an order that depends on
                the sample).
        """
        if not whole(samples, 1):
            raise UsageError(f"samples is {samples}: not a whole number from 1 on")
        plan = _Plan(self, network, costs or Free())
        chunk = plan.chunk(explain)
        finished = np.empty(samples)
        ends = {i: np.empty(samples) for i in self.parties} if parties else {}
        tally = _Tally(plan) if explain else None
        for number, first in enumerate(range(0, samples, chunk)):
            last = min(first + chunk, samples)
            source = draws or _Sampled(seed, number)
            run = _Chunk(plan, source, slice(first, last), explain)
            run.run()
            finished[first:last] = run.finished
            for i, kept in ends.items():
                kept[first:last] = run.ends[i]
            if tally is not None:
                tally.add(run)
        return Replay(
            self.name,
            network.name,
            plan.compute.name,
            seed,
            finished,
            ends,
            tally.explanation(samples) if tally is not None else None,
        )

    def __str__(self) -> str:
        size = sum(packet.size for packet in self.messages)
        return (
            f"{self.name}: {len(self.parties)} parties, {len(self.steps)} rounds run, "
            f"{len(self.messages)} messages, {size} bytes"
        )


def record(trace: Trace, definition: Definition[Any, Any] | None = None) -> MessageGraph:
    """The message graph of a run.

    Any complete run will do, over whatever network and with whatever compute.

    Args:
        definition: of the protocol, which says what each round needs; not necessary for the
            protocols of this package.

    Raises:
        UsageError: a party did not finish, messages were lost or doubled by faults, or the trace
            is of several sessions or of an unknown protocol.
    """
    unfinished = [ending for ending in trace.endings if ending.status != "done"]
    if unfinished:
        who = ", ".join(f"party {e.party} {e.status}" for e in unfinished)
        raise UsageError(f"{trace.name}: only a complete run can be replayed ({who})")
    for message in trace.messages:
        if message.fate != "delivered" or message.received_ms is None:
            raise UsageError(
                f"{trace.name}: {message.kind} from party {message.sender} to party "
                f"{message.receiver} was {message.fate}; only a run without faults can be replayed"
            )
    if len({message.session for message in trace.messages}) > 1:
        raise UsageError(f"{trace.name}: a trace of several sessions")
    works = [work for work in trace.work if work.protocol]
    protocols = {work.protocol for work in works}
    if definition is None:
        if len(protocols) != 1 or not protocols <= _KNOWN.keys():
            known = ", ".join(_KNOWN)
            raise UsageError(
                f"{trace.name}: what rounds of {', '.join(sorted(protocols)) or 'nothing'} need is "
                f"not known (known: {known}); pass the definition"
            )
        definition = _KNOWN[protocols.pop()]
    elif protocols != {definition.name}:
        raise UsageError(f"{trace.name}: a trace of {sorted(protocols)}, not of {definition.name}")

    number_of = {work.number: number for number, work in enumerate(works)}
    inbound: dict[tuple[PartyId, str], dict[PartyId, int]] = {}
    outbound: dict[int, list[int]] = {}
    packets = []
    for number, message in enumerate(trace.messages):
        step = number_of.get(-1 if message.work is None else message.work)
        if step is None or works[step].round != message.round:
            raise UsageError(f"{trace.name}: {message.kind} was not sent by a round")
        arrived = inbound.setdefault((message.receiver, message.kind), {})
        if message.sender in arrived:
            raise UsageError(
                f"{trace.name}: party {message.sender} sent its {message.kind} to party "
                f"{message.receiver} again; only a run without faults can be replayed"
            )
        arrived[message.sender] = number
        outbound.setdefault(step, []).append(number)
        packets.append(Packet(message.kind, message.sender, message.receiver, message.size, step))
    kinds = {r.number: [kind.__name__ for kind in r.needs] for r in definition.rounds}
    steps = []
    for number, work in enumerate(works):
        # What an earlier round has waited for is there: taken out, so that nothing is there twice.
        needs = [
            need
            for kind in kinds[work.round]
            for need in inbound.pop((work.party, kind), {}).values()
        ]
        sends = tuple(outbound.get(number, ()))
        steps.append(Step(work.party, work.protocol, work.round, work.name, tuple(needs), sends))
    return MessageGraph(trace.name, tuple(steps), tuple(packets))


# ---------------------------------------------------------------------- draws


class ArraySource(Protocol):
    """Where the randomness of a chunk of samples comes from."""

    def __call__(
        self, key: TransferKey, direction: Direction, part: Part, samples: slice
    ) -> Floats:
        """One part of the draws of one transfer, for a range of samples.

        Returns:
            An array of that length, or of length 1 if all samples have the same; nobody changes
            it afterwards.
        """
        ...


class _Sampled:
    """Independent draws from the network's distributions; a generator for each chunk."""

    def __init__(self, seed: int, chunk: int) -> None:
        # The quickest of NumPy's generators; sampling is most of the work.
        self._generator = np.random.Generator(np.random.SFC64([seed & 0xFFFFFFFF, chunk]))

    def __call__(
        self, key: TransferKey, direction: Direction, part: Part, samples: slice
    ) -> Floats:
        return _draw(direction, part, self._generator, samples.stop - samples.start)


def _draw(direction: Direction, part: Part, generator: np.random.Generator, n: int) -> Floats:
    if part == "loss":
        return generator.random(n)
    latency = direction.forward if part == "forward" else direction.backward
    if isinstance(latency, Constant):
        return np.array([latency.ms], dtype=np.float64)
    return latency.sample(generator, n)


class DrawTable:
    """The same draws for the replay and for the engine.

    Draws for every transfer are made when first asked for, and kept: it is for one network, and
    for thousands of samples, not millions. Sample k of a replay that is given the table agrees bit
    by bit with a ``VirtualRun`` that is given ``table.sample(k)``.

        >>> table = DrawTable(200, seed=1)
        >>> replay = graph.replay(network, 200, draws=table)
        >>> trace = VirtualRun(parties, network, draws=table.sample(7)).run()
        >>> assert trace.finished_ms == replay.finished_ms[7]
    """

    def __init__(self, samples: int, seed: int = 0) -> None:
        self.samples = samples
        self._seed = seed
        self._kept: dict[tuple[TransferKey, Part], Floats] = {}

    def __call__(
        self, key: TransferKey, direction: Direction, part: Part, samples: slice
    ) -> Floats:
        if samples.stop > self.samples:
            raise UsageError(f"the table has draws for {self.samples} samples, not more")
        kept = self._kept.get((key, part))
        if kept is None:
            words = [self._seed & 0xFFFFFFFF, key.sender, key.receiver, key.nth, key.hop, len(part)]
            kept = _draw(direction, part, np.random.default_rng(words), self.samples)
            self._kept[key, part] = kept
        return kept if len(kept) == 1 else kept[samples]

    def sample(self, k: int) -> DrawSource:
        """Sample k, for the engine."""
        at = slice(k, k + 1)

        def draws(key: TransferKey, direction: Direction) -> Draws:
            forward, backward = (
                self(key, direction, "forward", at),
                self(key, direction, "backward", at),
            )
            loss = self(key, direction, "loss", at) if direction.loss else _ZERO
            return Draws(float(forward[0]), float(backward[0]), float(loss[0]))

        return draws


# ---------------------------------------------------------------------- results


@dataclass(frozen=True)
class Share:
    """What something has to do with the critical path."""

    probability: float
    """Share of the samples in which it is on the path."""
    mean_ms: float
    """Time spent there, averaged over all samples."""


@dataclass(frozen=True)
class Explanation:
    """Critical paths: from each finish back to the start, always to what was waited for last."""

    split_ms: Mapping[str, float]
    """Mean time by ``PARTS``; adds up to the mean finishing time."""
    links: Mapping[str, Share]
    """By direction of a link, e.g. ``client → gateway``; without the service at its end."""
    parties: Mapping[PartyId, Share]
    """Parties that a path passes through, with their computation on it."""
    last: Mapping[PartyId, float]
    """Share of the samples in which this party finishes last (the first of several)."""


@dataclass(frozen=True)
class Replay:
    """Finishing times of many runs."""

    name: str
    network: str
    compute: str
    seed: int
    finished_ms: Floats = field(repr=False)
    """When the last party finished, for each sample."""
    parties_ms: Mapping[PartyId, Floats] = field(repr=False)
    """When each party finished; empty unless asked for."""
    explanation: Explanation | None = None
    """None unless asked for."""

    @property
    def samples(self) -> int:
        return len(self.finished_ms)

    @cached_property
    def mean_ms(self) -> float:
        return float(self.finished_ms.mean())

    @cached_property
    def std_ms(self) -> float:
        return float(self.finished_ms.std())

    def percentile(self, percent: float) -> float:
        """The time within which ``percent`` of the runs finish.

        Raises:
            UsageError: not between 0 and 100.
        """
        return self.percentiles([percent])[percent]

    def percentiles(self, percents: Iterable[float] = (50, 90, 95, 99, 99.9)) -> dict[float, float]:
        """Several at once.

        Raises:
            UsageError: one is not between 0 and 100.
        """
        asked = list(percents)
        for percent in asked:
            if not 0 <= percent <= 100:
                raise UsageError(f"percentile {percent}: not between 0 and 100")
        found = np.percentile(self.finished_ms, asked)
        return dict(zip(asked, map(float, found), strict=True))

    def within(self, ms: float) -> float:
        """Share of the runs that finish within so many milliseconds."""
        return float(np.count_nonzero(self.finished_ms <= ms)) / self.samples

    def cdf(self, points: int = 501) -> tuple[Floats, Floats]:
        """The distribution function, for plots: times, and the share of runs finished by then.

        Args:
            points: how many, evenly spread over the probabilities from 0 to 1.

        Raises:
            UsageError: fewer than two points.
        """
        if points < 2:
            raise UsageError(f"a distribution function of {points} points: at least 2 are needed")
        shares = np.linspace(0.0, 1.0, points)
        return np.quantile(self.finished_ms, shares), shares

    def __str__(self) -> str:
        at = self.percentiles()
        lines = [
            f"{self.name} over {self.network}, {self.samples:,} samples, compute {self.compute}",
            f"  mean {self.mean_ms:.2f} ms, standard deviation {self.std_ms:.2f} ms",
            "  " + ", ".join(f"{percent:g}%: {ms:.2f} ms" for percent, ms in at.items()),
        ]
        if self.explanation is not None:
            found = self.explanation
            split = (f"{part} {ms:.2f}" for part, ms in found.split_ms.items() if ms)
            lines.append("  mean by part, ms: " + ", ".join(split))
            for name, share in sorted(found.links.items(), key=lambda item: -item[1].mean_ms):
                if share.probability:
                    lines.append(
                        f"  {name}: on the critical path of {share.probability:.1%}, "
                        f"{share.mean_ms:.2f} ms on average"
                    )
            last = (f"party {i} {share:.1%}" for i, share in found.last.items())
            lines.append("  finishes last: " + ", ".join(last))
        return "\n".join(lines)


# ---------------------------------------------------------------------- what holds for all samples


@dataclass(frozen=True)
class _Leg:
    """One transfer: a message on one hop of its way."""

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


class _Plan:
    """A graph on a network: everything that is the same for all samples."""

    def __init__(self, graph: MessageGraph, network: Network, compute: Compute) -> None:
        if not isinstance(compute, Declared | Free):
            raise UsageError(
                f"compute {compute.name} cannot be replayed: it differs from run to run "
                "(compute.calibrate makes declared costs of it)"
            )
        self.graph = graph
        self.compute = compute
        self.parties = graph.parties
        _check_cores(self.parties, network)
        self.costs_ms = [
            compute.round_ms(RoundWork(step.protocol, step.round, step.name, 0.0))
            * network.sites[network.placement[step.party]].cpu_factor
            for step in graph.steps
        ]
        self.ways: list[tuple[_Leg, ...]] = [() for _ in graph.messages]
        self._lay_out(network)

    def _lay_out(self, network: Network) -> None:
        """The legs of every message."""
        flows: dict[tuple[PartyId, PartyId], list[int]] = {}
        for number, packet in enumerate(self.graph.messages):
            flows.setdefault((packet.sender, packet.receiver), []).append(number)
        rank: dict[int, int] = {}  # of a step among those of its party
        by_party: dict[PartyId, list[int]] = {}
        for number, step in enumerate(self.graph.steps):
            mine = by_party.setdefault(step.party, [])
            rank[number] = len(mine)
            mine.append(number)
        connection = network.connection
        for (sender, receiver), numbers in flows.items():
            sizes = [self.graph.messages[n].size + connection.overhead_bytes for n in numbers]
            tracked, waits = _window_plan(tuple(segments(size) for size in sizes))
            route = network.route(sender, receiver)
            for nth, (number, size) in enumerate(zip(numbers, sizes, strict=True)):
                mine = by_party[sender]
                now = rank[self.graph.messages[number].step]
                before = rank[self.graph.messages[numbers[nth - 1]].step] if nth else now
                count = segments(size)
                self.ways[number] = tuple(
                    _Leg(
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
        legs = [leg for way in self.ways for leg in way]
        tracked = sum(leg.tracked for leg in legs)
        arrays = 4 * sum(leg.final for leg in legs) + 3 * tracked + len(self.parties)
        if explain:
            arrays += 3 * len(legs) + 3 * tracked + 2 * len(self.graph.steps)
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
                f"site {name} hosts {len(guests)} parties on {cores} "
                f"core{'s' if cores > 1 else ''}: they would take turns, which a replay cannot "
                "reproduce; give the site more cores, or run the simulation itself"
            )


def _levels(count: int, loss: float) -> Floats:
    return np.maximum.accumulate(np.array(loss_distribution(count, loss), dtype=np.float64))


def _window_plan(counts: Sequence[int]) -> tuple[list[bool], list[bool]]:
    """For the transfers of a pipe: does the window matter still, and may the transfer wait?

    Follows every state (window, segments out) that the pipe can be in, whatever the times are: at
    each transfer the window may start again, may have opened anew, or neither.
    """
    states = {(INITIAL_WINDOW, 0)}
    waits = []
    for index, count in enumerate(counts):
        if index:
            grown = {(min(window + used, MAX_WINDOW), 0) for window, used in states}
            states = {(INITIAL_WINDOW, 0)} | grown | states
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


# ---------------------------------------------------------------------- a chunk of samples


@dataclass(slots=True)
class _PipeState:
    """What ``transport.Pipe`` keeps, for many samples; fields nobody will ask for stay unset."""

    free: Floats
    arrived: Floats
    window: Floats
    used: Floats
    opened: Floats
    forward: Floats
    burst: list[tuple[_Leg, Bools | bool]] = field(default_factory=list)
    """The transfers that the last one may share draws with, itself included, and in which samples
    each shares those of the one before it."""
    backward: dict[int, Floats] = field(default_factory=dict)
    """Latencies of acknowledgements that were needed so far, by place in ``burst``."""


class _Chunk:
    """One chunk of samples. Arrays hold one value a sample, or a single one for all of them."""

    def __init__(self, plan: _Plan, source: ArraySource, samples: slice, explain: bool) -> None:
        self.plan = plan
        self.source = source
        self.samples = samples
        self.n = samples.stop - samples.start
        self.explain = explain
        self.ends: dict[PartyId, Floats] = {}
        """End of the last step so far of each party."""
        self.last_step: dict[PartyId, int] = {}
        self.arrivals: dict[int, Floats] = {}
        self.joined: list[Bools | bool] = []
        """For each step, the samples in which it directly follows the one before it."""
        self.previous: list[int | None] = []
        self.starts: list[Floats] = []
        self.parts: dict[int, list[tuple[_Leg, dict[str, Floats | float]]]] = {}
        """Where the time of each message went, hop by hop; only if it is to be explained."""
        self._pipes: dict[tuple[PartyId, PartyId, int], _PipeState] = {}

    def run(self) -> None:
        """Work out all times."""
        graph = self.plan.graph
        for number, step in enumerate(graph.steps):
            start, joined = self._begin(step)
            self.joined.append(joined)
            cost = self.plan.costs_ms[number]
            end = start + cost if cost else start
            if self.explain:
                self.starts.append(start)
                self.previous.append(self.last_step.get(step.party))
            self.ends[step.party] = end
            self.last_step[step.party] = number
            for message in step.sends:
                at = end
                for leg in self.plan.ways[message]:
                    at = self._transfer(leg, at)
                self.arrivals[message] = at

    @cached_property
    def finished(self) -> Floats:
        """When the last party finished."""
        ends = iter(self.ends.values())
        latest = next(ends)
        for end in ends:
            latest = np.maximum(latest, end)
        return latest

    def _begin(self, step: Step) -> tuple[Floats, Bools | bool]:
        """When the step starts, and in which samples directly after the party's last one."""
        if self.explain:
            needs = [self.arrivals[message] for message in step.needs]
        else:
            needs = [self.arrivals.pop(message) for message in step.needs]
        before = self.ends.get(step.party)
        if before is None:
            return (_latest(needs) if needs else _ZERO), False
        if not needs:
            return before, True
        start = _latest([before, *needs])
        joined = np.equal(start, before)
        return start, joined if joined.any() else False

    # ------------------------------------------------------------------ one transfer

    def _transfer(self, leg: _Leg, given: Floats) -> Floats:
        """When a message handed over at ``given`` is through: ``Pipe.transfer`` on arrays."""
        pipe = self._pipes.get(leg.pipe)
        first = pipe is None
        if pipe is None:
            pipe = _PipeState(_ZERO, _ZERO, _ZERO, _ZERO, _ZERO, _ZERO)
            self._pipes[leg.pipe] = pipe
        forward = self._forward(leg, pipe)
        begun = now = given if first else np.maximum(given, pipe.free)
        handshake: Floats | float = 0.0
        if leg.handshakes:
            handshake = leg.handshakes * self._round_trip(pipe)
            now = now + handshake
        window_ms: Floats | float = 0.0
        wire: Floats | float = leg.wire_ms
        if leg.tracked:
            self._open_window(leg, pipe, now, first)
        if leg.waits:
            ready = now
            now, wire = self._send_windows(leg, pipe, now)
            if self.explain:
                window_ms = now - ready - wire
        else:
            if leg.tracked:
                pipe.used = pipe.used + leg.count
            now = now + leg.wire_ms
        arrived = now + forward
        recovery: Floats | float = 0.0
        if leg.levels is not None:
            recovery, arrived = self._recover(leg, pipe, leg.levels, arrived)
        in_order = arrived if first else np.maximum(arrived, pipe.arrived)
        if self.explain:
            parts = {
                "queueing": (begun - given) + (in_order - arrived),
                "handshake": handshake,
                "window": window_ms,
                "transmission": wire,
                "propagation": forward,
                "recovery": recovery,
                "service": leg.service_ms,
            }
            self.parts.setdefault(leg.message, []).append((leg, parts))
        if leg.final:
            del self._pipes[leg.pipe]
        else:
            pipe.free, pipe.arrived = now, in_order
        return in_order + leg.service_ms if leg.service_ms else in_order

    def _open_window(self, leg: _Leg, pipe: _PipeState, now: Floats, first: bool) -> None:
        """The window that a transfer finds: begun again, opened anew, or as it was."""
        if first:
            pipe.window, pipe.used, pipe.opened = _FIRST_WINDOW, _ZERO, now
            return
        rtt = self._round_trip(pipe)
        grow = now >= pipe.opened + leg.first_segment_ms + rtt
        out = pipe.used * grow
        pipe.window = np.minimum(pipe.window + out, MAX_WINDOW)
        pipe.used = pipe.used - out
        idle = now - pipe.free
        if float(idle.max()) > MIN_RTO_MS:
            reset = idle > rtt + MIN_RTO_MS
            if reset.any():
                grow = grow | reset
                pipe.window = np.where(reset, INITIAL_WINDOW, pipe.window)
                pipe.used = np.where(reset, 0.0, pipe.used)
        pipe.opened = np.where(grow, now, pipe.opened)

    def _send_windows(self, leg: _Leg, pipe: _PipeState, now: Floats) -> tuple[Floats, Floats]:
        """Send a message window by window: when its last byte left, and its time on the wire.

        Samples that are through with it stay as they are: no segments left, no time passes.
        """
        rtt = self._round_trip(pipe)
        bits_per_ms = leg.direction.mbit_per_s * 1000
        window, used, opened = pipe.window, pipe.used, pipe.opened
        left: Floats = np.array([float(leg.count)])
        bits: Floats = np.array([(leg.size + leg.count * SEGMENT_HEADER_BYTES) * 8.0])
        wire = _ZERO
        while True:
            sending = np.minimum(window - used, left)
            sent = np.minimum(sending * SEGMENT_BITS, bits)  # the last segment may be short
            span = sent / bits_per_ms
            now, used, left = now + span, used + sending, left - sending
            if self.explain:
                wire = wire + span
            going = left > 0
            if not going.any():
                break
            bits = bits - sent
            waited = opened + leg.first_segment_ms + rtt
            if going.all():
                now = opened = np.maximum(now, waited)
                window, used = np.minimum(window + used, MAX_WINDOW), _ZERO
            else:
                now = np.where(going, np.maximum(now, waited), now)
                opened = np.where(going, now, opened)
                out = used * going
                window, used = np.minimum(window + out, MAX_WINDOW), used - out
        pipe.window, pipe.used, pipe.opened = window, used, opened
        return now, wire

    def _recover(
        self, leg: _Leg, pipe: _PipeState, levels: Floats, arrived: Floats
    ) -> tuple[Floats | float, Floats]:
        """Time lost to losses, and the arrivals with it."""
        uniform = self.source(leg.key, leg.direction, "loss", self.samples)
        lost = np.flatnonzero(np.broadcast_to(uniform, (self.n,)) >= levels[0])
        if not lost.size:
            return 0.0, arrived
        level = np.searchsorted(levels, np.broadcast_to(uniform, (self.n,))[lost], side="right")
        rtt = np.broadcast_to(self._round_trip(pipe), (self.n,))[lost]
        timeouts = (np.ldexp(1.0, level // 2) - 1) * (rtt + MIN_RTO_MS)
        added = np.where(level % 2, timeouts + rtt, timeouts)
        late = np.broadcast_to(arrived, (self.n,)).copy()
        late[lost] += added
        if not self.explain:
            return 0.0, late
        recovery = np.zeros(self.n)
        recovery[lost] = added
        return recovery, late

    # ------------------------------------------------------------------ its draws

    def _forward(self, leg: _Leg, pipe: _PipeState) -> Floats:
        """Latency of a transfer: packets of one burst meet the same queues."""
        shared = self._shared(leg)
        if shared is False:
            pipe.burst.clear()
            pipe.backward.clear()
        pipe.burst.append((leg, shared))
        if shared is not True:
            fresh = self.source(leg.key, leg.direction, "forward", self.samples)
            pipe.forward = fresh if shared is False else np.where(shared, pipe.forward, fresh)
        return pipe.forward

    def _shared(self, leg: _Leg) -> Bools | bool:
        """The samples in which a transfer is of the same burst as the one before it."""
        if not leg.index:
            return False
        shared: Bools | bool = True
        for step in leg.steps:
            joined = self.joined[step]
            if joined is False:
                return False
            if joined is not True:
                shared = joined if shared is True else np.logical_and(shared, joined)
        return shared

    def _round_trip(self, pipe: _PipeState) -> Floats:
        """Latency there and back of the transfer under way."""
        return pipe.forward + self._backward(pipe, len(pipe.burst) - 1)

    def _backward(self, pipe: _PipeState, place: int) -> Floats:
        found = pipe.backward.get(place)
        if found is None:
            leg, shared = pipe.burst[place]
            if shared is True:
                found = self._backward(pipe, place - 1)
            else:
                found = self.source(leg.key, leg.direction, "backward", self.samples)
                if shared is not False:
                    found = np.where(shared, self._backward(pipe, place - 1), found)
            pipe.backward[place] = found
        return found


def _latest(times: Sequence[Floats]) -> Floats:
    latest = times[0]
    for other in times[1:]:
        latest = np.maximum(latest, other)
    return latest


# ---------------------------------------------------------------------- critical paths


class _Tally:
    """Adds up critical paths, chunk by chunk."""

    def __init__(self, plan: _Plan) -> None:
        self._plan = plan
        self._split = dict.fromkeys(PARTS, 0.0)
        names = dict.fromkeys(str(leg.direction) for way in plan.ways for leg in way)
        self._links = {name: [0.0, 0.0] for name in names}
        self._parties = {i: [0.0, 0.0] for i in plan.parties}
        self._last = dict.fromkeys(plan.parties, 0.0)

    def add(self, run: _Chunk) -> None:
        """Walk back from the finishes of one chunk."""
        n, graph = run.n, self._plan.graph
        on_links: dict[str, Bools] = {}
        on_parties: dict[PartyId, Bools] = {}
        on_steps: dict[int, Bools] = {}
        unclaimed = np.ones(n, dtype=np.bool_)
        for i, end in run.ends.items():
            last = unclaimed & (end == run.finished)
            unclaimed &= ~last
            self._last[i] += np.count_nonzero(last)
            _mark(on_steps, run.last_step[i], last)
        for number in reversed(range(len(graph.steps))):
            on = on_steps.pop(number, None)
            if on is None or not (times := np.count_nonzero(on)):
                continue
            step = graph.steps[number]
            _mark(on_parties, step.party, on)
            spent = times * self._plan.costs_ms[number]
            self._split["compute"] += spent
            self._parties[step.party][1] += spent
            previous, joined = run.previous[number], run.joined[number]
            if previous is not None and joined is not False:
                _mark(on_steps, previous, on & joined)
                on = on & ~np.asarray(joined)
            for need in sorted(step.needs, reverse=True):  # of those that came together, the last
                via = on & (run.arrivals[need] == run.starts[number])
                if via.any():
                    on = on & ~via
                    _mark(on_steps, graph.messages[need].step, via)
                    for leg, parts in run.parts.get(need, ()):
                        _mark(on_links, str(leg.direction), via)
                        self._spend(leg, parts, via)
        for name, on in on_links.items():
            self._links[name][0] += np.count_nonzero(on)
        for i, on in on_parties.items():
            self._parties[i][0] += np.count_nonzero(on)

    def _spend(self, leg: _Leg, parts: Mapping[str, Floats | float], via: Bools) -> None:
        times = int(np.count_nonzero(via))
        weights = via.astype(np.float64)
        for part, ms in parts.items():
            if isinstance(ms, float):
                spent = times * ms
            else:
                spent = times * float(ms[0]) if ms.size == 1 else float(weights @ ms)
            self._split[part] += spent
            if part != "service":
                self._links[str(leg.direction)][1] += spent

    def explanation(self, samples: int) -> Explanation:
        """Averages over so many samples."""

        def share(found: Sequence[float]) -> Share:
            return Share(found[0] / samples, found[1] / samples)

        return Explanation(
            {part: ms / samples for part, ms in self._split.items()},
            {name: share(found) for name, found in self._links.items()},
            {i: share(found) for i, found in self._parties.items()},
            {i: times / samples for i, times in self._last.items()},
        )


def _mark(marks: dict[Any, Bools], key: object, on: Bools) -> None:
    before = marks.get(key)
    marks[key] = on if before is None else before | on
