"""A deterministic discrete-event run of real protocol parties over a network model.

Virtual time: the same parties, network, faults and seed give the same trace. Events are ordered by
(time, sequence number); an empty queue is quiescence, so a run can stall but never hang.
"""

from __future__ import annotations

import heapq
import math
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import count
from typing import Any, Protocol

import numpy as np

from mpcsim.errors import Aborted, UsageError
from mpcsim.ids import PartyId
from mpcsim.protocol import Done, Output, Party, Prepared, Send
from mpcsim.runner import Participant
from mpcsim.sim.compute import Compute, Free, RoundWork, Stopwatch
from mpcsim.sim.faults import Crash, Fault, MessageFault, Partition, Strike
from mpcsim.sim.latency import Latency
from mpcsim.sim.network import Direction, Network, Site
from mpcsim.sim.recording import Ending, Hop, MessageRecord, Trace, Verdict, WorkRecord
from mpcsim.sim.transport import Draws, Pipe

Validate = Callable[[Mapping[PartyId, Any]], bool]
"""Whether the results of the parties that finished are right, judged from outside."""

MAX_EVENTS = 1_000_000
"""Events before a run is given up as a bug; a session has a few hundred."""


@dataclass(frozen=True)
class TransferKey:
    """Names one transfer: the n-th message of a flow, on one of its hops."""

    sender: PartyId
    receiver: PartyId
    nth: int
    hop: int


class DrawSource(Protocol):
    """Where the randomness of transfers comes from."""

    def __call__(self, key: TransferKey, direction: Direction) -> Draws: ...


class SeededDraws:
    """Draws from the link's distributions; one independent stream a link direction."""

    BLOCK = 64

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._streams: dict[tuple[str, str, str], tuple[np.random.Generator, list[float]]] = {}

    def __call__(self, key: TransferKey, direction: Direction) -> Draws:
        there, back = (direction.source, direction.target), (direction.target, direction.source)
        forward = self._next((*there, "latency"), direction.forward)
        backward = self._next((*back, "acknowledgement"), direction.backward)
        loss = self._next((*there, "loss"), None) if direction.loss else 1.0
        return Draws(forward, backward, loss)

    def _next(self, name: tuple[str, str, str], latency: Latency | None) -> float:
        if name not in self._streams:
            words = [self._seed & 0xFFFFFFFF, *b" ".join(part.encode() for part in name)]
            self._streams[name] = (np.random.default_rng(words), [])
        generator, block = self._streams[name]
        if not block:
            drawn = generator.random(self.BLOCK) if latency is None else None
            values = latency.sample(generator, self.BLOCK) if latency is not None else drawn
            assert values is not None
            block.extend(values.tolist()[::-1])
        return block.pop()


class _Machine:
    """A party at its site: at most one piece of work at a time."""

    def __init__(self, party: Participant[Any], site: Site) -> None:
        self.party = party
        self.site = site
        self.watch = Stopwatch(_inner(party).listener)
        _inner(party).listener = self.watch
        self.busy_until = 0.0
        self.last_work: int | None = None
        self.handled = 0
        self.down = False
        self.snapshot = b""
        self.ended_ms: float | None = None


class VirtualRun:
    """One session in virtual time."""

    def __init__(
        self,
        parties: Iterable[Participant[Any]],
        network: Network,
        *,
        seed: int = 0,
        compute: Compute | None = None,
        faults: Iterable[Fault] = (),
        deadline_ms: float = math.inf,
        draws: DrawSource | None = None,
        validate: Validate = lambda results: True,
        name: str = "",
    ) -> None:
        """Prepare a run.

        Args:
            seed: of latencies, losses and random faults.
            compute: how long computation takes; no time by default.
            deadline_ms: when the run is stopped, finished or not.
            draws: in place of seeded draws from the network's distributions.
            validate: judges the results; a run whose results it refuses is INVALID.

        Raises:
            UsageError: a party has no site.
        """
        self.network = network
        self.seed = seed
        self.compute = compute or Free()
        self.name = name
        self.deadline_ms = deadline_ms
        self.validate = validate
        self._draws = draws or SeededDraws(seed)
        self._chance = np.random.default_rng([seed & 0xFFFFFFFF, 0xFA])
        self._machines: dict[PartyId, _Machine] = {}
        for party in parties:
            if party.me not in network.placement:
                raise UsageError(f"party {party.me} has no site in this network")
            site = network.sites[network.placement[party.me]]
            self._machines[party.me] = _Machine(party, site)
        self._routes = {
            (i, j): network.route(i, j) for i in self._machines for j in self._machines if i != j
        }
        self._message_faults = [f for f in faults if isinstance(f, MessageFault)]
        self._partitions = [f for f in faults if isinstance(f, Partition)]
        self._crashes = [f for f in faults if isinstance(f, Crash)]
        self._struck: dict[int, int] = {}
        self._pipes: dict[tuple[PartyId, PartyId, int], Pipe] = {}
        self._flows: dict[tuple[PartyId, PartyId], int] = {}
        self._bursts: dict[tuple[PartyId, PartyId, int], tuple[int, Draws]] = {}
        self._cores: dict[str, list[float]] = {
            site.name: [0.0] * site.cores for site in network.sites.values()
        }
        self._burst = count()
        self._queue: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self._order = count()
        self._messages: list[MessageRecord] = []
        self._work: list[WorkRecord] = []
        self.now_ms = 0.0
        self.prepared: dict[PartyId, Any] = {}

    # ------------------------------------------------------------------ running

    def run(self) -> Trace:
        """Run to quiescence or to the deadline."""
        for machine in self._machines.values():
            self._at(0.0, self._start, machine)
        events = 0
        while self._queue:
            when, _, action, arguments = heapq.heappop(self._queue)
            if when > self.deadline_ms:
                self.now_ms = self.deadline_ms
                break
            self.now_ms = when
            action(*arguments)
            events += 1
            if events > MAX_EVENTS:
                raise RuntimeError("the simulation does not come to rest")
        return self._trace()

    def _at(self, when: float, action: Callable[..., None], *arguments: Any) -> None:
        heapq.heappush(self._queue, (when, next(self._order), action, arguments))

    # ------------------------------------------------------------------ parties

    def _start(self, machine: _Machine) -> None:
        self._perform(machine, machine.party.start, None)
        self._maybe_crash(machine)

    def _deliver(self, machine: _Machine, number: int, data: bytes) -> None:
        record = self._messages[number]
        if machine.down:
            self._messages[number] = replace(record, received_ms=None, fate="lost")
            return
        if machine.busy_until > self.now_ms:  # one thing at a time; arrival order is kept
            self._at(machine.busy_until, self._deliver, machine, number, data)
            return
        self._perform(
            machine, lambda: machine.party.receive(record.sender, data), ("message", number)
        )
        machine.handled += 1
        self._maybe_crash(machine)

    def _perform(
        self,
        machine: _Machine,
        call: Callable[[], list[Output[Any]]],
        cause: tuple[str, int] | None,
    ) -> None:
        """Let a party work, and let the clock and the messages follow."""
        began = time.process_time_ns()
        outputs = call()
        whole_ms = (time.process_time_ns() - began) / 1e6
        rounds = machine.watch.take()
        cores = self._cores[machine.site.name]
        core = cores.index(min(cores))
        start = max(self.now_ms, machine.busy_until, cores[core])
        if machine.busy_until != start or machine.last_work is None:
            burst = next(self._burst)
            machine.burst = burst  # type: ignore[attr-defined]
        else:
            burst = machine.burst  # type: ignore[attr-defined]
            if rounds and self._work[machine.last_work].end_ms == start:
                cause = ("work", machine.last_work)
        clock = start
        factor = machine.site.cpu_factor
        handling = self.compute.handling_ms(whole_ms, rounds) * factor
        if handling:
            clock = self._note(machine, None, clock, clock + handling, cause)
            cause = ("work", len(self._work) - 1)
        ends: dict[int, tuple[float, int]] = {}
        for work in rounds:
            clock = self._note(
                machine, work, clock, clock + self.compute.round_ms(work) * factor, cause
            )
            ends[work.number] = (clock, len(self._work) - 1)
            cause = ("work", len(self._work) - 1)
        machine.busy_until = cores[core] = clock
        for output in outputs:
            if isinstance(output, Send):
                when, by = ends.get(output.round, (clock, machine.last_work))
                self._send(machine, output, when, by, burst)
            elif isinstance(output, Prepared):
                self.prepared[machine.party.me] = output.result
            else:
                machine.ended_ms = clock
        if self._crashes:
            machine.snapshot = _inner(machine.party).snapshot()

    def _note(
        self,
        machine: _Machine,
        work: RoundWork | None,
        start: float,
        end: float,
        cause: tuple[str, int] | None,
    ) -> float:
        number = len(self._work)
        machine.last_work = number
        self._work.append(
            WorkRecord(
                number,
                machine.party.me,
                machine.site.name,
                work.protocol if work else "",
                work.number if work else 0,
                work.name if work else "handle message",
                start,
                end,
                cause,
            )
        )
        return end

    def _maybe_crash(self, machine: _Machine) -> None:
        for crash in self._crashes:
            if crash.party == machine.party.me and crash.after_messages == machine.handled:
                machine.down = True
                machine.handled += 1 if crash.after_messages == 0 else 0
                if crash.down_ms < math.inf:
                    self._at(self.now_ms + crash.down_ms, self._restart, machine)

    def _restart(self, machine: _Machine) -> None:
        inner = _inner(machine.party)
        resumed, outputs = Party.resume(inner.definition, machine.snapshot, listener=machine.watch)
        machine.watch.take()  # replayed work was done before the crash
        machine.party = resumed
        machine.down = False
        machine.busy_until = max(machine.busy_until, self.now_ms)
        burst = next(self._burst)
        for output in outputs:
            if isinstance(output, Send):
                self._send(machine, output, self.now_ms, machine.last_work, burst)

    # ------------------------------------------------------------------ messages

    def _send(self, machine: _Machine, send: Send, when: float, by: int | None, burst: int) -> None:
        sender = machine.party.me
        number = len(self._messages)
        inner = _inner(machine.party)
        self._messages.append(
            MessageRecord(
                number,
                inner.session_id.hex()[:8],
                inner.definition.name,
                send.round,
                send.kind,
                sender,
                send.to,
                len(send.data),
                when,
                None,
                (),
                by,
            )
        )
        if send.to not in self._machines:
            self._fate(number, "dropped")
            return
        extra = 0.0
        copies: list[float] = []
        for index, fault in enumerate(self._message_faults):
            if not self._matches(index, fault, send, sender):
                continue
            if fault.strike is Strike.DROP:
                self._fate(number, "dropped")
                return
            if fault.strike is Strike.DELAY:
                extra += fault.delay_ms
            else:
                copies.append(fault.delay_ms)
        if any(p.separates(sender, send.to, when) for p in self._partitions):
            self._fate(number, "dropped")
            return
        flow = (sender, send.to)
        nth = self._flows[flow] = self._flows.get(flow, -1) + 1
        key = TransferKey(sender, send.to, nth, 0)
        self._at(when, self._hop, key, number, send.data, burst, extra, tuple(copies))

    def _matches(self, index: int, fault: MessageFault, send: Send, sender: PartyId) -> bool:
        if fault.kind not in (None, send.kind) or fault.sender not in (None, sender):
            return False
        if fault.receiver not in (None, send.to):
            return False
        self._struck[index] = self._struck.get(index, 0) + 1
        if fault.nth not in (None, self._struck[index]):
            return False
        return fault.probability >= 1 or bool(self._chance.random() < fault.probability)

    def _hop(
        self,
        key: TransferKey,
        number: int,
        data: bytes,
        burst: int,
        extra: float,
        copies: tuple[float, ...],
    ) -> None:
        """Put a message on one hop of its way."""
        route = self._routes[key.sender, key.receiver]
        machine = self._machines[key.receiver]
        if key.hop == len(route):  # arrived
            record = self._messages[number]
            arrived = self.now_ms + extra
            self._messages[number] = replace(record, received_ms=arrived)
            self._at(arrived, self._deliver, machine, number, data)
            for later in copies:
                copy = len(self._messages)
                self._messages.append(
                    replace(record, number=copy, received_ms=arrived + later, fate="duplicate")
                )
                self._at(arrived + later, self._deliver, machine, copy, data)
            return
        direction = route[key.hop]
        where = (key.sender, key.receiver, key.hop)
        pipe = self._pipes.get(where)
        if pipe is None:
            connection = self.network.connection
            pipe = self._pipes[where] = Pipe(
                direction.mbit_per_s,
                direction.loss,
                connection.handshake_round_trips if connection.cold else 0,
            )
        last_burst, draws = self._bursts.get(where, (-1, None))
        fresh = self._draws(key, direction)
        if last_burst == burst and draws is not None:
            # Packets of one burst meet the same queues.
            draws = Draws(draws.forward_ms, draws.backward_ms, fresh.loss)
        else:
            draws = fresh
        self._bursts[where] = (burst, draws)
        size = len(data) + self.network.connection.overhead_bytes
        transfer = pipe.transfer(self.now_ms, size, draws)
        onward = key.hop + 1 < len(route)
        service = self.network.sites[direction.target].service_ms if onward else 0.0
        record = self._messages[number]
        hop = Hop(direction.source, direction.target, transfer, service)
        self._messages[number] = replace(record, hops=(*record.hops, hop))
        self._at(
            transfer.arrived_ms + service,
            self._hop,
            replace(key, hop=key.hop + 1),
            number,
            data,
            burst,
            extra,
            copies,
        )

    def _fate(self, number: int, fate: str) -> None:
        self._messages[number] = replace(self._messages[number], fate=fate)

    # ------------------------------------------------------------------ the end

    def _trace(self) -> Trace:
        outcomes: dict[PartyId, Any] = {}
        endings = []
        for i, machine in self._machines.items():
            state = machine.party.outcome or machine.party.waiting()
            outcomes[i] = state
            status = {Done: "done", Aborted: "aborted"}.get(type(state), "waiting")
            at = self.now_ms if machine.ended_ms is None else machine.ended_ms
            endings.append(Ending(i, status, at, "" if status == "done" else str(state)))
        results = {i: o.result for i, o in outcomes.items() if isinstance(o, Done)}
        if results and not self.validate(results):
            verdict = Verdict.INVALID
        elif len(results) == len(outcomes):
            verdict = Verdict.VALID
        elif any(isinstance(o, Aborted) for o in outcomes.values()):
            verdict = Verdict.ABORTED
        else:
            verdict = Verdict.STALLED
        return Trace(
            self.name,
            self.network.name,
            self.seed,
            self.compute.name,
            "virtual",
            verdict,
            tuple(self._messages),
            tuple(self._work),
            tuple(endings),
            max(ending.at_ms for ending in endings),
            any(_inner(m.party).reproducible for m in self._machines.values()),
            outcomes,
        )


def _inner(participant: Participant[Any]) -> Party[Any, Any]:
    """The party inside an adversary, or the party itself."""
    inner = getattr(participant, "party", participant)
    if not isinstance(inner, Party):
        raise UsageError(f"{participant!r} is neither a party nor wraps one")
    return inner
