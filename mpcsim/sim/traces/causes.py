"""Causes of work and of messages, and the longest causal chain of messages."""

from __future__ import annotations

from collections import defaultdict

from mpcsim.ids import PartyId
from mpcsim.sim.traces.message_segments import RESOLUTION_MS, has_arrived
from mpcsim.sim.traces.records import MessageRecord, RunRecord, WorkRecord


def sequential_delays(trace: RunRecord) -> int:
    """Return the number of messages in the longest causal chain (sequential delays).

    A round needs its party's earlier rounds, and the messages of earlier rounds that the party had
    received by then; a message that arrives early, for a later round, delays nothing.
    """
    of_work: dict[int, int] = {}
    of_party: dict[PartyId, int] = defaultdict(int)

    def depth(message: MessageRecord) -> int:
        origin = origin_of(trace, message)
        if isinstance(origin, MessageRecord):
            return 1 + depth(origin)
        return 1 + (0 if origin is None else of_work.get(origin.number, 0))

    incoming: dict[PartyId, list[MessageRecord]] = defaultdict(list)
    for message in trace.messages:
        if has_arrived(trace, message):
            incoming[message.receiver].append(message)
    for work in trace.work:
        needed = [of_party[work.party]]
        root = root_of(trace, work)
        if root.cause and root.cause[0] == "message":
            needed.append(depth(trace.messages[root.cause[1]]))
        if work.round:
            needed += [
                depth(m)
                for m in incoming[work.party]
                if 0 < m.round < work.round
                and m.received_ms is not None
                and m.received_ms <= work.start_ms + RESOLUTION_MS
            ]
            of_party[work.party] = max(needed)
        of_work[work.number] = max(needed)
    return max((depth(m) for found in incoming.values() for m in found), default=0)


def origin_of(trace: RunRecord, message: MessageRecord) -> MessageRecord | WorkRecord | None:
    """Return the work or message that made a party send a message; None at the start.

    Handling that takes no time leaves no work record: a message sent after the end of its work
    answers the message that its sender received at that moment, if there is one.
    """
    work = None if message.work is None else trace.work[message.work]
    if work is not None and work.end_ms >= message.sent_ms - RESOLUTION_MS:
        return work
    for other in trace.messages[: message.number]:
        if other.receiver != message.sender or other.received_ms is None:
            continue
        earlier = other.sent_ms < message.sent_ms
        if earlier and abs(other.received_ms - message.sent_ms) <= RESOLUTION_MS:
            return other
    return work


def root_of(trace: RunRecord, work: WorkRecord) -> WorkRecord:
    """Return the handling of the message that let this work begin, or the work itself."""
    while work.cause and work.cause[0] == "work":
        before = trace.work[work.cause[1]]
        if before.round:
            break
        work = before
    return work


def last_event(trace: RunRecord) -> MessageRecord | WorkRecord | None:
    """Return the event that ended the run: the last event of the party that ended last."""
    until = trace.finished_ms + RESOLUTION_MS
    last = {e.party for e in trace.endings if e.at_ms >= trace.finished_ms - RESOLUTION_MS}
    ended = {e.party for e in trace.endings if e.status != "waiting"} & last
    parties = ended or {e.party for e in trace.endings}
    works = [w for w in trace.work if w.end_ms <= until and w.party in parties]
    messages = [
        m
        for m in trace.messages
        if m.receiver in parties and m.received_ms is not None and m.received_ms <= until
    ]
    work = max(works, key=lambda w: (w.end_ms, w.number), default=None)
    message = max(messages, key=lambda m: (m.received_ms or 0.0, m.number), default=None)
    if work is None or message is None:
        return work or message
    later = (message.received_ms or 0.0) > work.end_ms + RESOLUTION_MS
    return message if later else work


def cause_of(trace: RunRecord, work: WorkRecord) -> MessageRecord | WorkRecord | None:
    """Return what a piece of work waited for last: a message, earlier work, or None.

    A message that came while the party was busy is recorded as the cause of its handling, but
    what the handling waited for was the work before.
    """
    if work.cause is None:
        return None
    kind, number = work.cause
    if kind == "work":
        return trace.work[number]
    message = trace.messages[number]
    if work.start_ms > (message.received_ms or 0.0) + RESOLUTION_MS:
        for before in reversed(trace.work[: work.number]):
            if before.party == work.party:
                if abs(before.end_ms - work.start_ms) <= RESOLUTION_MS:
                    return before
                break
    return message
