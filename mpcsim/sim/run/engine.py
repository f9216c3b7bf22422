"""A deterministic discrete-event run of real protocol parties over a network model.

Virtual time: the same parties, network, faults and seed give the same trace. Events are ordered by
(time, sequence number); an empty queue is quiescence, so a run can stall but never hang.
"""

from __future__ import annotations

import heapq
import math
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import count
from typing import Any

from mpcsim.errors import UsageError
from mpcsim.ids import PartyId
from mpcsim.protocol import Output, Party, Prepared, Send
from mpcsim.runner import Participant
from mpcsim.sim.network.draws import DrawSource, SeededDraws, TransferKey
from mpcsim.sim.network.topology import Direction, Network, Site
from mpcsim.sim.network.transport import Draws, Pipe
from mpcsim.sim.run.compute import Compute, Free, RoundWork, Stopwatch
from mpcsim.sim.run.ending import Validate, conclude, inner_party
from mpcsim.sim.run.faults import Crash, Fault, FaultPlan, Partition
from mpcsim.sim.trace import Trace
from mpcsim.sim.traces.records import Hop, MessageRecord, WorkRecord

MAX_EVENTS = 1_000_000
"""Events before a run is given up as a bug; a session has a few hundred."""
MAX_RESENDS = 10_000
"""Most times that a waiting party may repeat itself before the deadline."""


class _Machine:
    """A party at its site: at most one piece of work at a time."""

    def __init__(self, party: Participant[Any], site: Site) -> None:
        self.party = party
        self.site = site
        inner = inner_party(party)
        self.session = inner.session_id.hex()[:8]
        self.protocol = inner.definition.name
        self.watch = Stopwatch(inner.listener)
        inner.listener = self.watch
        self.busy_until = 0.0
        self.last_work: int | None = None
        self.handled = 0
        self.down = False
        self.snapshot = b""
        self.sent: list[Send] = []
        """Everything put out so far, kept if it may have to go out again."""
        self.ended_ms: float | None = None
        self.burst = -1
        """Names the uninterrupted work it is doing, or did last."""


class _Leg:
    """One hop of a flow: its connection, and what the last message on it met."""

    def __init__(self, direction: Direction, pipe: Pipe, service_ms: float) -> None:
        self.direction = direction
        self.pipe = pipe
        self.service_ms = service_ms
        self.burst = -1
        self.draws: Draws | None = None


class _Transit:
    """A message under way."""

    def __init__(
        self,
        number: int,
        send: Send,
        legs: tuple[_Leg, ...],
        burst: int,
        extra_ms: float,
        copies_ms: tuple[float, ...],
    ) -> None:
        self.number = number
        self.data = send.data
        self.legs = legs
        self.burst = burst
        self.extra_ms = extra_ms
        self.copies_ms = copies_ms
        self.hops: list[Hop] = []


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
        resend_ms: float = math.inf,
        draws: DrawSource | None = None,
        validate: Validate = lambda results: True,
        name: str = "",
    ) -> None:
        """Prepare a run.

        Args:
            seed: of latencies, losses and random faults.
            compute: how long computation takes; no time by default.
            deadline_ms: when the run is stopped, finished or not; work that began in time counts.
            resend_ms: how often a party that waits puts out again everything it has put out so
                far; one that has ended answers with what it had sent to that party. Never by
                default; needs a deadline, since somebody may wait in vain.
            draws: in place of seeded draws from the network's distributions.
            validate: judges the results; a run whose results it refuses is INVALID.

        Raises:
            UsageError: no party, one that is there twice or has no site, or a bad time.
        """
        self.network = network
        self.seed = seed
        self.compute = compute or Free()
        self.name = name
        if not deadline_ms >= 0:
            raise UsageError(f"deadline_ms is {deadline_ms}: below 0")
        check_resend("run", resend_ms, deadline_ms)
        self.deadline_ms = deadline_ms
        self.resend_ms = resend_ms
        self.validate = validate
        self._draws = draws or SeededDraws(seed)
        self._machines: dict[PartyId, _Machine] = {}
        for party in parties:
            if party.me not in network.placement:
                raise UsageError(f"party {party.me} has no site in this network")
            if party.me in self._machines:
                raise UsageError(f"party {party.me} is there twice")
            site = network.sites[network.placement[party.me]]
            self._machines[party.me] = _Machine(party, site)
        if not self._machines:
            raise UsageError("a run needs at least one party")
        self._routes = {
            (i, j): network.route(i, j) for i in self._machines for j in self._machines if i != j
        }
        faults = tuple(faults)
        self._faults = FaultPlan(faults, seed)
        self._partitions = [f for f in faults if isinstance(f, Partition)]
        self._crashes = [f for f in faults if isinstance(f, Crash)]
        for machine in self._machines.values():
            if (
                self._crashes
                and not hasattr(machine.party, "rejoin")
                and not isinstance(machine.party, Party)
            ):
                raise UsageError(f"{machine.party!r} cannot crash: it has no method rejoin")
        self._crashed: set[int] = set()
        self._repeated: set[int] = set()
        """Numbers of the messages that waiting parties put out again."""
        self._flows: dict[tuple[PartyId, PartyId], tuple[count[int], tuple[_Leg, ...]]] = {}
        """Numbers for the messages of a flow, and the hops of its way."""
        self._cores: dict[str, list[float]] = {
            site.name: [0.0] * site.cores for site in network.sites.values()
        }
        self._burst = count()
        self._queue: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self._order = count()
        self._messages: list[MessageRecord] = []
        self._transits: dict[int, _Transit] = {}
        """Messages under way, by number."""
        self._work: list[WorkRecord] = []
        self.now_ms = 0.0
        self._begun = False
        self.prepared: dict[PartyId, Any] = {}

    # ------------------------------------------------------------------ running

    @property
    def parties(self) -> dict[PartyId, Participant[Any]]:
        """The parties as they stand now."""
        return {i: machine.party for i, machine in self._machines.items()}

    def run(self) -> Trace:
        """Run to quiescence or to the deadline."""
        limit = MAX_EVENTS * (1 + MAX_RESENDS * (self.resend_ms < math.inf))
        events = 0
        while self.step():
            events += 1
            if events > limit:
                raise RuntimeError("the simulation does not come to rest")
        return self.trace()

    def step(self) -> bool:
        """Let the next event happen; False if nothing more can, or the deadline is over."""
        if not self._begun:
            self._begun = True
            for machine in self._machines.values():
                self._at(0.0, self._start, machine)
                if self.resend_ms < math.inf:
                    self._at(self.resend_ms, self._resend, machine)
        if not self._queue:
            return False
        when, _, action, arguments = self._queue[0]
        if when > self.deadline_ms:
            self.now_ms = self.deadline_ms
            return False
        heapq.heappop(self._queue)
        self.now_ms = when
        action(*arguments)
        return True

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
        ended = machine.party.outcome is not None
        self._perform(
            machine, lambda: machine.party.receive(record.sender, data), ("message", number)
        )
        if ended and number in self._repeated:  # somebody still waits, maybe for this party
            self._send_again(machine, [s for s in machine.sent if s.to == record.sender])
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
            machine.burst = next(self._burst)
        else:
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
                self._send(machine, output, when, by, machine.burst)
                if self.resend_ms < math.inf:
                    machine.sent.append(output)
            elif isinstance(output, Prepared):
                self.prepared[machine.party.me] = output.result
            else:
                machine.ended_ms = clock
        if self._crashes:
            machine.snapshot = inner_party(machine.party).snapshot()

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
        for index, crash in enumerate(self._crashes):
            due = crash.party == machine.party.me and crash.after_messages == machine.handled
            if not due or machine.down or index in self._crashed:
                continue
            self._crashed.add(index)
            machine.down = True
            if crash.down_ms < math.inf:
                self._at(self.now_ms + crash.down_ms, self._restart, machine)

    def _restart(self, machine: _Machine) -> None:
        inner = inner_party(machine.party)
        resumed, outputs = Party.resume(
            inner.definition, machine.snapshot, share=inner.share, listener=machine.watch
        )
        resumed.reproducible = inner.reproducible
        machine.watch.take()  # replayed work was done before the crash
        if isinstance(machine.party, Party):
            machine.party = resumed
        else:
            outputs = machine.party.rejoin(resumed, outputs)  # type: ignore[attr-defined]
        machine.down = False
        machine.busy_until = max(machine.busy_until, self.now_ms)
        machine.sent = [output for output in outputs if isinstance(output, Send)]
        self._send_again(machine, machine.sent)

    def _resend(self, machine: _Machine) -> None:
        """Put everything out again for as long as the party waits."""
        if machine.party.outcome is not None:
            return
        if not machine.down:
            first = len(self._messages)
            self._send_again(machine, machine.sent)
            self._repeated.update(range(first, len(self._messages)))
        self._at(self.now_ms + self.resend_ms, self._resend, machine)

    def _send_again(self, machine: _Machine, sends: Iterable[Send]) -> None:
        """Put out what was put out before, once the party is through with its present work."""
        burst = next(self._burst)
        for send in sends:
            when = max(self.now_ms, machine.busy_until)
            self._send(machine, send, when, machine.last_work, burst)

    # ------------------------------------------------------------------ messages

    def _send(self, machine: _Machine, send: Send, when: float, by: int | None, burst: int) -> None:
        sender = machine.party.me
        number = len(self._messages)
        self._messages.append(
            MessageRecord(
                number,
                machine.session,
                machine.protocol,
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
        fate = self._faults.strike(send.kind, sender, send.to)
        if fate.dropped:
            self._fate(number, "dropped")
            return
        if any(p.separates(sender, send.to, when) for p in self._partitions):
            self._fate(number, "dropped")
            return
        flow = self._flows.get((sender, send.to))
        if flow is None:
            flow = self._flows[sender, send.to] = (count(), self._legs(sender, send.to))
        nth, legs = flow
        key = TransferKey(sender, send.to, next(nth), 0)
        transit = _Transit(number, send, legs, burst, fate.extra_ms, fate.copies_ms)
        self._transits[number] = transit
        self._at(when, self._hop, key, transit)

    def _legs(self, sender: PartyId, receiver: PartyId) -> tuple[_Leg, ...]:
        """The hops of a flow, with new connections."""
        route = self._routes[sender, receiver]
        return tuple(
            _Leg(
                direction,
                self.network.connection.pipe(direction.mbit_per_s, direction.loss),
                self.network.sites[direction.target].service_ms
                if direction is not route[-1]
                else 0.0,
            )
            for direction in route
        )

    def _hop(self, key: TransferKey, transit: _Transit) -> None:
        """Put a message on one hop of its way."""
        if key.hop == len(transit.legs):
            self._arrive(key, transit)
            return
        leg = transit.legs[key.hop]
        direction = leg.direction
        draws = self._draws(key, direction)
        if leg.burst == transit.burst and leg.draws is not None:
            # Packets of one burst meet the same queues.
            draws = Draws(leg.draws.forward_ms, leg.draws.backward_ms, draws.loss)
        leg.burst, leg.draws = transit.burst, draws
        size = len(transit.data) + self.network.connection.overhead_bytes
        transfer = leg.pipe.transfer(self.now_ms, size, draws)
        transit.hops.append(Hop(direction.source, direction.target, transfer, leg.service_ms))
        onward = TransferKey(key.sender, key.receiver, key.nth, key.hop + 1)
        self._at(transfer.arrived_ms + leg.service_ms, self._hop, onward, transit)

    def _arrive(self, key: TransferKey, transit: _Transit) -> None:
        """Hand a message over to its receiver, as often as faults want it."""
        number = transit.number
        del self._transits[number]
        machine = self._machines[key.receiver]
        arrived = self.now_ms + transit.extra_ms
        record = self._messages[number].landed(arrived, tuple(transit.hops))
        self._messages[number] = record
        self._at(arrived, self._deliver, machine, number, transit.data)
        for later in transit.copies_ms:
            copy = len(self._messages)
            self._messages.append(
                replace(record, number=copy, received_ms=arrived + later, fate="duplicate")
            )
            self._at(arrived + later, self._deliver, machine, copy, transit.data)

    def _fate(self, number: int, fate: str) -> None:
        self._messages[number] = replace(self._messages[number], fate=fate)

    # ------------------------------------------------------------------ the end

    def trace(self) -> Trace:
        """What has happened so far; a run that is not over counts as stalled."""
        for number, transit in self._transits.items():  # when the run was stopped
            self._messages[number] = replace(self._messages[number], hops=tuple(transit.hops))
        verdict, endings, outcomes = conclude(
            {i: (m.party, m.ended_ms) for i, m in self._machines.items()},
            self.now_ms,
            self.validate,
        )
        return Trace(
            self.name,
            self.network.name,
            self.seed,
            self.compute.name,
            "virtual",
            verdict,
            tuple(self._messages),
            tuple(self._work),
            endings,
            max(ending.at_ms for ending in endings),
            any(inner_party(m.party).reproducible for m in self._machines.values()),
            outcomes,
        )


def check_resend(what: str, resend_ms: float, deadline_ms: float) -> None:
    """Refuse a repetition that would not end.

    Raises:
        UsageError: not above 0, without a deadline, or with one too far away.
    """
    if not resend_ms > 0:
        raise UsageError(f"{what} resend_ms is {resend_ms}: not above 0")
    if resend_ms < math.inf and not deadline_ms <= MAX_RESENDS * resend_ms:
        raise UsageError(
            f"{what} resend_ms is {resend_ms}, and the session may take {deadline_ms} ms: it needs "
            f"a timeout, at most {MAX_RESENDS} times as long"
        )
