"""Steps of a run: a party starts, or a message reaches a party."""

from __future__ import annotations

from dataclasses import dataclass

from mpcsim.errors import Aborted, OnReceipt
from mpcsim.ids import PartyId
from mpcsim.lab.explorer.model.checks import Progress
from mpcsim.protocols.engine import Done
from mpcsim.protocols.engine.envelope import AbortNotice
from mpcsim.sim.trace import Trace
from mpcsim.sim.traces.message_segments import RESOLUTION_MS
from mpcsim.sim.traces.records import MessageRecord, WorkRecord


@dataclass(frozen=True)
class ExploredEvent:
    """Step of a run."""

    party: PartyId
    message: MessageRecord | None
    """Message that arrives; None: the party starts."""
    at_ms: float


def handled(trace: Trace) -> dict[int, int]:
    """Return the message that each piece of handling is about, by the numbers of both.

    Messages that arrive while a party is busy are handled in the order of arrival; of those, the
    trace only says which work they waited for.
    """
    found: dict[int, int] = {}
    waiting: dict[PartyId, list[MessageRecord]] = {}
    for m in sorted(trace.messages, key=lambda m: (m.received_ms or 0.0, m.number)):
        if m.received_ms is not None and m.fate != "lost":
            waiting.setdefault(m.receiver, []).append(m)
    for work in trace.work:
        if work.round or work.cause is None:
            continue
        queue = waiting.get(work.party, [])
        for message in queue:
            named = work.cause == ("message", message.number)
            came = (message.received_ms or 0.0) <= work.start_ms + RESOLUTION_MS
            if named or (work.cause[0] == "work" and came):
                found[work.number] = message.number
                queue.remove(message)
                break
    return found


class StepOrder:
    """Steps of a run in order, and the step to which each piece of work and message belongs."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.parties = [ending.party for ending in trace.endings]
        self.ended = {ending.party: ending for ending in trace.endings}
        begun = {i: [w.round for w in trace.work if w.party == i] for i in self.parties}
        self.progress = {
            i: Progress(
                trace.outcomes.get(i) or (Done(None) if self.ended[i].status == "done" else None),
                max(begun[i], default=0),
            )
            for i in self.parties
        }
        self.steps = self._steps()
        self._arrival = {s.message.number: at for at, s in enumerate(self.steps) if s.message}
        self._of_party = {
            i: [at for at, s in enumerate(self.steps) if s.party == i] for i in self.parties
        }
        self._handled = handled(trace)
        self.home: list[int | None] = []
        """The step of every piece of work; None after the run is over."""
        for work in trace.work:
            self.home.append(self._step_of_work(work))
        self.last = {
            i: self._final_step(i) for i in self.parties if self.ended[i].status != "waiting"
        }
        """The step in which a party ended."""

    def has_arrived(self, message: MessageRecord) -> bool:
        """Return whether a message reached its receiver before the run was over."""
        if message.received_ms is None or message.fate in ("lost", "dropped"):
            return False
        until = self.trace.finished_ms + RESOLUTION_MS
        return message.receiver in self.ended and message.received_ms <= until

    def is_late(self, message: MessageRecord) -> bool:
        """Return whether a message arrived after its receiver had ended."""
        ending = self.ended.get(message.receiver)
        if ending is None or ending.status == "waiting" or message.received_ms is None:
            return False
        return message.received_ms > ending.at_ms + RESOLUTION_MS

    def last_round_begun(self, party: PartyId, step: int) -> int:
        """Return the last round that a party had begun by a step."""
        return max(
            (
                w.round
                for w in self.trace.work
                if w.party == party and (home := self.home[w.number]) is not None and home <= step
            ),
            default=0,
        )

    def sending_step(self, message: MessageRecord) -> int:
        """Return the step in which a message was sent."""
        if message.kind == AbortNotice.__name__ and message.sender in self.last:
            return self.last[message.sender]
        if message.work is not None:
            work = self.trace.work[message.work]
            home = self.home[work.number]
            if home is not None and work.end_ms >= message.sent_ms - RESOLUTION_MS:
                return home
        return self._latest_step(message.sender, message.sent_ms)

    # ------------------------------------------------------------------ helpers

    def _steps(self) -> list[ExploredEvent]:
        found = []
        for i in self.parties:
            first = [w.start_ms for w in self.trace.work if w.party == i and w.cause is None]
            found.append(ExploredEvent(i, None, min(first, default=0.0)))
        arrivals = [
            ExploredEvent(m.receiver, m, m.received_ms)
            for m in self.trace.messages
            if m.received_ms is not None and self.has_arrived(m)
        ]
        return found + sorted(arrivals, key=lambda s: s.at_ms)  # ties in the order of sending

    def _step_of_work(self, work: WorkRecord) -> int | None:
        if work.cause is None:
            return self._of_party[work.party][0]
        kind, number = work.cause
        if kind == "message":
            return self._arrival.get(number)
        latest = self._latest_step(work.party, work.start_ms)
        before = self.trace.work[number]
        if not work.round:
            return self._arrival.get(self._handled.get(work.number, -1), latest)
        if not before.round or before.party != work.party:
            return self.home[number]
        # The next round follows at once, or a message enabled it while the party was busy.
        return max(self.home[number] or 0, latest)

    def _latest_step(self, party: PartyId, until_ms: float) -> int:
        """Return the last step of a party up to some time; its start, if there is none."""
        steps = self._of_party[party]
        return max(
            (at for at in steps if self.steps[at].at_ms <= until_ms + RESOLUTION_MS),
            default=steps[0],
        )

    def _final_step(self, party: PartyId) -> int:
        ending, progress = self.ended[party], self.progress[party]
        state = progress.state
        if isinstance(state, Aborted) and isinstance(state.where, OnReceipt):
            for at in self._of_party[party]:
                message = self.steps[at].message
                if message and state.where == OnReceipt(message.sender, message.kind):
                    return at
        works = [
            w
            for w in self.trace.work
            if w.party == party and w.round and w.end_ms <= ending.at_ms + RESOLUTION_MS
        ]
        if works and (ending.status == "done" or progress.aborted_in):
            return self.home[works[-1].number] or 0
        return self._latest_step(party, ending.at_ms)


def is_rejected(state: object, message: MessageRecord) -> bool:
    """Return whether a party aborted on receipt of a message because of its content."""
    return (
        isinstance(state, Aborted)
        and state.reported_by is None
        and state.where == OnReceipt(message.sender, message.kind)
    )
