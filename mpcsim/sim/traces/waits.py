"""Waits of parties for each other. Times are milliseconds of the run's clock, from its start."""

from __future__ import annotations

from dataclasses import dataclass

from mpcsim.errors import UsageError
from mpcsim.ids import PartyId
from mpcsim.sim.traces.causes import root_of
from mpcsim.sim.traces.message_segments import RESOLUTION_MS
from mpcsim.sim.traces.records import MessageRecord, RunRecord


@dataclass(frozen=True)
class Wait:
    """Interval in which a party was idle."""

    party: PartyId
    start_ms: float
    end_ms: float
    why: str
    """Reason of the wait: ``message``, ``contention`` (its processor was busy with another party)
    or ``unanswered`` (the run ended first)."""
    message: int | None = None
    """Number of the message that ended the wait."""
    sender: PartyId | None = None
    """Sender of that message."""

    @property
    def duration_ms(self) -> float:
        return self.end_ms - self.start_ms


def party_waits(trace: RunRecord, party: int) -> list[Wait]:
    """Return a party's waits up to its end, in order; handling a message interrupts a wait.

    Raises:
        UsageError: the party was not in the run.
    """
    ending = next((e for e in trace.endings if e.party == party), None)
    if ending is None:
        raise UsageError(f"party {party} was not in this run")
    end = ending.at_ms
    works = sorted((w for w in trace.work if w.party == party), key=lambda w: w.number)
    waits: list[Wait] = []
    now = 0.0

    def idle(until: float, why: str, message: MessageRecord | None = None) -> None:
        """Add the idle time since ``now``, around the work done meanwhile."""
        nonlocal now
        until = min(until, end)
        by = (None, None) if message is None else (message.number, message.sender)
        for w in works:
            if w.end_ms > now and w.start_ms < until:
                if w.start_ms > now + RESOLUTION_MS:
                    waits.append(Wait(PartyId(party), now, w.start_ms, why, *by))
                now = max(now, w.end_ms)
        if until > now + RESOLUTION_MS:
            waits.append(Wait(PartyId(party), now, until, why, *by))
        now = max(now, until)

    for work in works:
        if not work.round:
            continue
        root = root_of(trace, work)
        if root.cause and root.cause[0] == "message":
            message = trace.messages[root.cause[1]]
            idle(min(message.received_ms or 0.0, root.start_ms), "message", message)
        idle(root.start_ms, "contention")
        now = max(now, min(work.end_ms, end))
    if ending.status == "waiting":
        idle(end, "unanswered")
    else:
        last = _last_message(trace, PartyId(party), end)
        if last is not None:
            idle(last.received_ms or 0.0, "message", last)
        idle(end, "contention")
    return waits


def _last_message(trace: RunRecord, party: PartyId, until_ms: float) -> MessageRecord | None:
    """Return the last message that reached a party by a time."""
    found = [
        m
        for m in trace.messages
        if m.receiver == party
        and m.received_ms is not None
        and m.received_ms <= until_ms + RESOLUTION_MS
    ]
    return max(found, key=lambda m: (m.received_ms or 0.0, m.number), default=None)
