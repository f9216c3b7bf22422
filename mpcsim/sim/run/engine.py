"""Discrete-event simulation of protocol parties over a network model, in virtual time.

Model: events are ordered by (time, sequence number); a party processes one message at a time, on
the site's core that is free first; crashes lose messages that arrive meanwhile. Deterministic: the
same parties, network, faults and seed give the same trace. An empty event queue is quiescence, so a
run can stall but never hang. Left out: preemption, and the time of serialisation."""

from __future__ import annotations

import heapq
import math
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import count
from typing import Any, Unpack

from mpcsim.errors import UsageError
from mpcsim.protocols.engine import Output, Party, Send
from mpcsim.protocols.local_run import Participant
from mpcsim.sim.network.topology import Network, Site
from mpcsim.sim.network.traffic import Arrival
from mpcsim.sim.run.completion import inner_party
from mpcsim.sim.run.compute import Compute, Free
from mpcsim.sim.run.faults import Crash, Fault
from mpcsim.sim.run.session import (
    Cause,
    MessageInTransit,
    PlacedParty,
    RunOptions,
    SessionRun,
    run_settings,
)
from mpcsim.sim.trace import Trace

MAX_EVENTS = 1_000_000
"""Number of events after which a run is taken for a bug; a session of three has some hundred."""
MAX_RESENDS = 10_000
"""Most repetitions of a waiting party's messages before the deadline."""


class _VirtualParty(PlacedParty):
    """Party that may crash and be restarted."""

    handled = 0
    down = False
    snapshot = b""

    def __init__(self, party: Participant[Any], site: Site) -> None:
        super().__init__(party, site)
        self.sent: list[Send] = []
        """Messages sent so far, kept if they may have to be sent again."""


class VirtualRun(SessionRun[_VirtualParty]):
    """Session in virtual time."""

    clock = "virtual"

    def __init__(
        self,
        parties: Iterable[Participant[Any]],
        network: Network,
        *,
        compute: Compute | None = None,
        deadline_ms: float = math.inf,
        resend_ms: float = math.inf,
        **options: Unpack[RunOptions],
    ) -> None:
        """Prepare a run.

        Args:
            compute: compute model; by default computation takes no time.
            deadline_ms: time when the run is stopped, finished or not; work that began before
                counts.
            resend_ms: interval at which a waiting party sends all its messages again; one that has
                ended answers with what it had sent to that party. Never by default; needs a
                deadline, since a party may wait in vain.
            options: the fields of ``RunSettings``: ``seed``, ``faults``, ``draws``, ``validate``,
                ``name``, ``contents``.

        Raises:
            UsageError: no party, one that is there twice or has no site, or a bad time.
        """
        if not deadline_ms >= 0:
            raise UsageError(f"deadline_ms is {deadline_ms}: below 0")
        check_resend("run", resend_ms, deadline_ms)
        self.compute = compute or Free()
        settings = run_settings(options)
        super().__init__(parties, network, _VirtualParty, settings, compute=self.compute.name)
        self.deadline_ms = deadline_ms
        self.resend_ms = resend_ms
        self._crashes = [f for f in settings.faults if isinstance(f, Crash)]
        for party in self.parties.values() if self._crashes else ():
            if not hasattr(party, "replace_party") and not isinstance(party, Party):
                raise UsageError(f"{party!r} cannot crash: it has no method replace_party")
        self._crashed: set[int] = set()
        self._repeated: set[int] = set()
        """Numbers of the messages that waiting parties sent again."""
        self._cores: dict[str, list[float]] = {
            site.name: [0.0] * site.cores for site in network.sites.values()
        }
        self._queue: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self._order = count()
        self.now_ms = 0.0
        self._begun = False

    @property
    def idle_faults(self) -> tuple[Fault, ...]:
        """Message faults and crashes that have not taken place so far."""
        crashes = [c for k, c in enumerate(self._crashes) if k not in self._crashed]
        return (*super().idle_faults, *crashes)

    # ------------------------------------------------------------------ running

    def run(self) -> Trace:
        """Run to quiescence or to the deadline, and return the trace."""
        limit = MAX_EVENTS * (1 + MAX_RESENDS * (self.resend_ms < math.inf))
        events = 0
        while self.step():
            events += 1
            if events > limit:
                raise RuntimeError("the simulation does not come to rest")
        return self.trace()

    def step(self) -> bool:
        """Process the next event; return False at quiescence or after the deadline."""
        if not self._begun:
            self._begun = True
            for placed in self._parties.values():
                self._at(0.0, self._start, placed)
                if self.resend_ms < math.inf:
                    self._at(self.resend_ms, self._resend, placed)
        due = self._queue[0][0] if self._queue else math.inf
        arrival = self._traffic.advance(self.now_ms, min(due, self.deadline_ms))
        if arrival is not None:
            self.now_ms = arrival.at_ms
            self._on_arrival(arrival)
            return True
        if not self._queue:
            if self._on_links:
                self.now_ms = self.deadline_ms
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

    def _start(self, placed: _VirtualParty) -> None:
        self._perform(placed, placed.party.start, None)
        self._crash_if_due(placed)

    def _deliver(self, placed: _VirtualParty, number: int, data: bytes) -> None:
        record = self._messages[number]
        if placed.down:
            self._messages[number] = replace(record, received_ms=None, fate="lost")
            return
        if placed.busy_until > self.now_ms:  # one message at a time, in order of arrival
            self._at(placed.busy_until, self._deliver, placed, number, data)
            return
        ended = placed.party.outcome is not None
        self._perform(
            placed, lambda: placed.party.receive(record.sender, data), ("message", number)
        )
        if ended and number in self._repeated:  # the sender still waits, maybe for this party
            self._send_again(placed, [s for s in placed.sent if s.to == record.sender])
        placed.handled += 1
        self._crash_if_due(placed)

    def _perform(
        self,
        placed: _VirtualParty,
        call: Callable[[], list[Output[Any]]],
        cause: Cause | None,
    ) -> None:
        """Run a party's handler, advance its time by the compute model, and send its messages."""
        began = time.process_time_ns()
        outputs = call()
        whole_ms = (time.process_time_ns() - began) / 1e6
        rounds = placed.watch.take()
        cores = self._cores[placed.site.name]
        core = cores.index(min(cores))
        clock = max(self.now_ms, placed.busy_until, cores[core])
        if placed.busy_until != clock or placed.last_work is None:
            placed.burst = next(self._bursts)
        elif rounds and self._work[placed.last_work].end_ms == clock:
            cause = ("work", placed.last_work)
        factor = placed.site.cpu_factor
        handling = self.compute.handling_ms(whole_ms, rounds) * factor
        if handling:
            cause = self._record_work(placed, None, clock, clock + handling, cause)
            clock += handling
        ends: dict[int, tuple[float, int]] = {}
        for work in rounds:
            end = clock + self.compute.round_ms(work) * factor
            cause = self._record_work(placed, work, clock, end, cause)
            ends[work.number] = end, cause[1]
            clock = end
        placed.busy_until = cores[core] = clock
        self._handle_outputs(placed, outputs, ends, clock)
        if self.resend_ms < math.inf:
            placed.sent += [output for output in outputs if isinstance(output, Send)]
        if self._crashes:
            placed.snapshot = inner_party(placed.party).snapshot()

    def _crash_if_due(self, placed: _VirtualParty) -> None:
        for index, crash in enumerate(self._crashes):
            due = crash.party == placed.party.me and crash.after_messages == placed.handled
            if not due or placed.down or index in self._crashed:
                continue
            self._crashed.add(index)
            placed.down = True
            if crash.down_ms < math.inf:
                self._at(self.now_ms + crash.down_ms, self._restart, placed)

    def _restart(self, placed: _VirtualParty) -> None:
        inner = inner_party(placed.party)
        resumed, outputs = Party.resume(
            inner.definition, placed.snapshot, share=inner.share, listener=placed.watch
        )
        resumed.reproducible = inner.reproducible
        placed.watch.take()  # replayed work was done before the crash
        if isinstance(placed.party, Party):
            placed.party = resumed
        else:
            outputs = placed.party.replace_party(resumed, outputs)  # type: ignore[attr-defined]
        placed.down = False
        placed.busy_until = max(placed.busy_until, self.now_ms)
        placed.sent = [output for output in outputs if isinstance(output, Send)]
        self._send_again(placed, placed.sent)

    def _resend(self, placed: _VirtualParty) -> None:
        """Send all messages again, at intervals, for as long as the party waits."""
        if placed.party.outcome is not None:
            return
        if not placed.down:
            first = len(self._messages)
            self._send_again(placed, placed.sent)
            self._repeated.update(range(first, len(self._messages)))
        self._at(self.now_ms + self.resend_ms, self._resend, placed)

    def _send_again(self, placed: _VirtualParty, sends: Iterable[Send]) -> None:
        """Send messages again, once the party has finished its present work."""
        burst = next(self._bursts)
        for send in sends:
            when = max(self.now_ms, placed.busy_until)
            self._send(placed, send, when, placed.last_work, burst)

    # ------------------------------------------------------------------ messages

    def _send(
        self,
        placed: _VirtualParty,
        send: Send,
        when: float,
        by: int | None,
        burst: int | None = None,
    ) -> None:
        """Send a message on its route; by default it belongs to the burst of its sender's work."""
        burst = placed.burst if burst is None else burst
        transit = self._dispatch(placed, send, when, by, burst)
        if transit is not None:
            self._at(when, self._start_hop, transit, self._size(transit))

    def _start_hop(self, transit: MessageInTransit, available: int) -> None:
        """Start a message, or its first bytes, on the next hop of its route."""
        if transit.route:
            self._send_on_hop(transit, self.now_ms, available)
        else:
            self._deliver_to_receiver(transit)

    def _on_arrival(self, arrival: Arrival) -> None:
        """Handle a message, or more of one, at the end of a hop: forward or deliver it."""
        transit, at = self._complete_hop(arrival)
        if arrival.failed:
            self._record_loss(transit)
            return
        if at + 1 == len(transit.route):
            self._deliver_to_receiver(transit)
            return
        goes_on = self.now_ms + transit.route[at].service_ms
        before = transit.forwarded[at]
        transit.forwarded[at] = arrival.size
        if before:
            self._at(goes_on, self._extend_transfer, transit, at + 1, arrival.size - before)
        else:
            self._at(goes_on, self._start_hop, transit, arrival.size)

    def _extend_transfer(self, transit: MessageInTransit, at: int, size: int) -> None:
        self._traffic.extend(transit.transfer_numbers[at], self.now_ms, size)

    def _deliver_to_receiver(self, transit: MessageInTransit) -> None:
        """Deliver a message to its receiver, with the copies and delays of faults."""
        placed = self._parties[transit.key.receiver]
        arrived = self.now_ms + transit.extra_ms
        record = self._record_arrival(transit, arrived)
        self._at(arrived, self._deliver, placed, transit.number, transit.data)
        for later in transit.copies_ms:
            copy = len(self._messages)
            self._messages.append(
                replace(record, number=copy, received_ms=arrived + later, fate="duplicate")
            )
            self._at(arrived + later, self._deliver, placed, copy, transit.data)

    # ------------------------------------------------------------------ the end

    def trace(self) -> Trace:
        """Return the trace of the events so far; an unfinished run counts as stalled."""
        return self._trace(self.now_ms)


def check_resend(what: str, resend_ms: float, deadline_ms: float) -> None:
    """Refuse an interval of repetition without end.

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
