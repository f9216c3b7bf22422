"""What a trace says: figures of a run, who waited for whom, and where the time went.

Nothing here looks at anything but the trace, so a loaded trace gives what the original gave. All
times are milliseconds of the run's clock, from its start.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import fsum
from typing import TYPE_CHECKING, Any, Final

from mpcsim.errors import UsageError
from mpcsim.ids import PartyId
from mpcsim.sim import rich_display
from mpcsim.sim.recording import Hop, MessageRecord, Trace, Verdict, WorkRecord
from mpcsim.sim.rich_display import Table, milliseconds

if TYPE_CHECKING:
    import pandas as pd

RESOLUTION_MS: Final = 1e-9
"""Times closer than this are the same: a femtosecond of rounding is not a wait."""

PARTS: Final[Mapping[str, str]] = {
    "compute": "a party worked",
    "propagation": "on the way",
    "transmission": "bytes going onto the wire",
    "window": "waiting for acknowledgements (slow start)",
    "handshake": "opening the connection (TCP, TLS)",
    "queueing": "behind earlier messages, or to arrive in order",
    "recovery": "lost segments being sent again",
    "service": "a gateway forwarding the message",
    "contention": "ready to work, but the processor was busy elsewhere",
    "fault": "delay that a fault added",
    "flight": "real clock only: what the machinery took, or a fault added",
    "idle": "nothing happened: a party was down, or it waited for an answer or the deadline",
}
"""Where time can go. The first eight are the network's and the machines' own."""


# ---------------------------------------------------------------------- messages


def extra_ms(message: MessageRecord) -> float:
    """What was added to a message's way after its last hop, by a fault."""
    if message.received_ms is None or not message.hops:
        return 0.0
    return max(0.0, message.received_ms - message.hops[-1].transfer.arrived_ms)


def arrived(trace: Trace, message: MessageRecord) -> bool:
    """Whether a message reached its receiver before the run was over."""
    return message.received_ms is not None and message.received_ms <= (
        trace.finished_ms + RESOLUTION_MS
    )


def hop_parts(hop: Hop) -> dict[str, float]:
    """Where the time of one hop went, in order of time; without the service at its end."""
    transfer = hop.transfer
    return {
        "queueing": transfer.queueing_ms,
        "handshake": transfer.handshake_ms,
        "transmission": transfer.transmission_ms,
        "window": transfer.window_ms,
        "propagation": transfer.propagation_ms,
        "recovery": transfer.recovery_ms,
    }


@dataclass(frozen=True)
class Segment:
    """A stretch of time at one place."""

    where: str
    """``party 1``, ``client → gateway`` or, for the service there, ``gateway``."""
    what: str
    """Round or message."""
    start_ms: float
    end_ms: float
    parts: Mapping[str, float]
    """Where the time went (``PARTS``); adds up to ``end_ms - start_ms``."""
    message: int | None = None
    work: int | None = None

    @property
    def duration_ms(self) -> float:
        return self.end_ms - self.start_ms


def label(message: MessageRecord) -> str:
    """``Commit 1 → 3``"""
    return f"{message.kind} {message.sender} → {message.receiver}"


def flight(trace: Trace, message: MessageRecord) -> list[Segment]:
    """A message's way from sending to receipt, or as far as it came."""
    what, found, now = label(message), list[Segment](), message.sent_ms

    def add(where: str, until: float, parts: Mapping[str, float]) -> None:
        nonlocal now
        if until > now or parts:
            nonzero = {part: ms for part, ms in parts.items() if ms}
            found.append(Segment(where, what, now, until, nonzero, message.number))
            now = until

    here = f"party {message.sender}"
    for hop in message.hops:
        if hop.transfer.given_ms > now + RESOLUTION_MS:
            add(here, hop.transfer.given_ms, {"flight": hop.transfer.given_ms - now})
        add(f"{hop.source} → {hop.target}", hop.transfer.arrived_ms, hop_parts(hop))
        if hop.service_ms:
            add(hop.target, now + hop.service_ms, {"service": hop.service_ms})
        here = hop.target
    end = message.received_ms
    if end is not None and end > now + RESOLUTION_MS:
        part = "flight" if trace.clock != "virtual" else "fault"
        way = f"party {message.sender} → party {message.receiver}"
        add(here if message.hops else way, end, {part: end - now})
    return found


# ---------------------------------------------------------------------- summary


@dataclass(frozen=True)
class PartySummary:
    """One party's run. Computing, waiting, contention and unanswered add up to ``ended_ms``."""

    party: PartyId
    site: str
    status: str
    """``done``, ``aborted`` or ``waiting``."""
    ended_ms: float
    messages_sent: int
    messages_received: int
    bytes_sent: int
    """Envelopes; without what the transport adds."""
    bytes_received: int
    compute_ms: float
    waited_for: Mapping[PartyId, float]
    """Idle time by the sender of the message that ended the wait: a wait lasts until the message
    that lets the party begin its next round (or end) is there, whatever else came before it."""
    contention_ms: float
    """Ready to work, but another party kept the site's processors busy."""
    unanswered_ms: float
    """Idle at the end, for messages that never came."""
    text: str = ""
    """Why it aborted, or what it was waiting for."""

    @property
    def waiting_ms(self) -> float:
        """All waits that a message ended."""
        return fsum(self.waited_for.values())


@dataclass(frozen=True)
class RoundSummary:
    """One round over all parties."""

    number: int
    """0: notices outside the rounds, i.e. of an abort."""
    name: str
    start_ms: float
    """The first party began it."""
    end_ms: float
    """The last of its work, and the arrival of the last of its messages."""
    messages: int
    bytes: int
    compute_ms: float

    @property
    def duration_ms(self) -> float:
        return self.end_ms - self.start_ms


@dataclass(frozen=True)
class Summary:
    """The figures of a run."""

    name: str
    network: str
    seed: int
    compute: str
    clock: str
    verdict: Verdict
    duration_ms: float
    messages: int
    """Sent by the parties, whether or not they arrived; copies made by a fault do not count."""
    undelivered: int
    """Of these, dropped, lost, or still under way at the end."""
    bytes: int
    """Of all envelopes; without what the transport adds."""
    rounds: int
    """Rounds in which messages were sent."""
    sequential_delays: int
    """The longest chain of messages each of which needed the one before."""
    parties: tuple[PartySummary, ...]
    by_round: tuple[RoundSummary, ...]

    @property
    def headline(self) -> str:
        over = f" over {self.network}" if self.network else ""
        return (
            f"{self.name or 'run'}{over}: {self.verdict.value} after "
            f"{milliseconds(self.duration_ms)} ms"
        )

    def notes(self) -> list[str]:
        """What stands between the headline and the tables."""
        lost = f" ({self.undelivered} undelivered)" if self.undelivered else ""
        notes = [
            f"{self.messages} messages{lost}, {self.bytes:,} bytes, {self.rounds} rounds, "
            f"{self.sequential_delays} sequential delays; "
            f"{self.clock} clock, compute {self.compute}, seed {self.seed}"
        ]
        notes += [f"party {p.party}: {p.text}" for p in self.parties if p.text]
        return notes

    def tables(self) -> list[Table]:
        """One table by party, one by round."""
        busy = any(p.contention_ms for p in self.parties)
        silent = any(p.unanswered_ms for p in self.parties)
        columns = ["party", "site", "ended", "at ms", "sent B", "received B", "compute ms"]
        columns += ["waiting ms", "of which for"]
        columns += ["contention ms"] * busy + ["unanswered ms"] * silent
        rows = []
        for p in self.parties:
            waits = (f"{i}: {milliseconds(ms)}" for i, ms in p.waited_for.items())
            row = [str(p.party), p.site, p.status, milliseconds(p.ended_ms)]
            row += [f"{p.bytes_sent:,}", f"{p.bytes_received:,}", milliseconds(p.compute_ms)]
            row += [milliseconds(p.waiting_ms), ", ".join(waits)]
            row += [milliseconds(p.contention_ms)] * busy
            row += [milliseconds(p.unanswered_ms)] * silent
            rows.append(row)
        parties = Table(columns, rows, frozenset(columns) - {"site", "ended", "of which for"})
        columns = ["round", "name", "messages", "bytes", "from ms", "to ms", "compute ms"]
        rows = [
            [str(r.number), r.name, str(r.messages), f"{r.bytes:,}"]
            + [milliseconds(ms) for ms in (r.start_ms, r.end_ms, r.compute_ms)]
            for r in self.by_round
        ]
        return [parties, Table(columns, rows, frozenset(columns) - {"name"})]

    def __str__(self) -> str:
        blocks = ["\n".join([self.headline, *("  " + note for note in self.notes())])]
        return "\n\n".join(blocks + [table.text() for table in self.tables()])

    def _repr_html_(self) -> str:
        return rich_display.summary_html(self)


def summary(trace: Trace) -> Summary:
    """The figures of a run."""
    own = [m for m in trace.messages if not _copy(trace, m)]
    there = [m for m in own if arrived(trace, m) and m.fate != "lost"]
    return Summary(
        trace.name,
        trace.network,
        trace.seed,
        trace.compute,
        trace.clock,
        trace.verdict,
        trace.finished_ms,
        len(own),
        len(own) - len(there),
        sum(m.size for m in own),
        len({m.round for m in own if m.round}),
        sequential_delays(trace),
        tuple(_party(trace, own, ending.party) for ending in trace.endings),
        tuple(_rounds(trace, own)),
    )


def _copy(trace: Trace, message: MessageRecord) -> bool:
    """Whether a fault made the message, not a party.

    The fate of a copy that a crashed receiver lost is ``lost``, so look at its way, too: a copy
    shares the hops of its original.
    """
    if message.fate == "duplicate":
        return True
    if message.fate != "lost" or not message.hops or not message.number:
        return False
    return any(m.hops is message.hops or m.hops == message.hops for m in _before(trace, message))


def _before(trace: Trace, message: MessageRecord) -> Iterator[MessageRecord]:
    flow = (message.sender, message.receiver, message.sent_ms)
    for m in trace.messages[: message.number]:
        if (m.sender, m.receiver, m.sent_ms) == flow:
            yield m


def sequential_delays(trace: Trace) -> int:
    """Messages in the longest causal chain: each was sent only after the one before had come.

    A round needs the messages of earlier rounds that its party had by then, and its party's
    earlier rounds; a message that came early, for a later round, delays nothing.
    """
    of_work: dict[int, int] = {}
    of_party: dict[PartyId, int] = defaultdict(int)

    def depth(message: MessageRecord) -> int:
        origin = _origin(trace, message)
        if isinstance(origin, MessageRecord):
            return 1 + depth(origin)
        return 1 + (0 if origin is None else of_work.get(origin.number, 0))

    incoming: dict[PartyId, list[MessageRecord]] = defaultdict(list)
    for message in trace.messages:
        if arrived(trace, message):
            incoming[message.receiver].append(message)
    for work in trace.work:
        needed = [of_party[work.party]]
        root = _root(trace, work)
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


def _origin(trace: Trace, message: MessageRecord) -> MessageRecord | WorkRecord | None:
    """What made a party send a message.

    Handling that takes no time leaves no work record. So a message sent after the end of its work
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


def _root(trace: Trace, work: WorkRecord) -> WorkRecord:
    """The handling of the message that let this work begin, or the work itself."""
    while work.cause and work.cause[0] == "work":
        before = trace.work[work.cause[1]]
        if before.round:
            break
        work = before
    return work


def _party(trace: Trace, own: Iterable[MessageRecord], party: PartyId) -> PartySummary:
    ending = next(e for e in trace.endings if e.party == party)
    work = [w for w in trace.work if w.party == party]
    end = ending.at_ms
    sent = [m for m in own if m.sender == party]
    got = [
        m for m in trace.messages if m.receiver == party and arrived(trace, m) and m.fate != "lost"
    ]
    waits = party_waits(trace, party)
    waited_for: dict[PartyId, float] = {}
    for wait in waits:
        if wait.sender is not None:
            waited_for[wait.sender] = waited_for.get(wait.sender, 0.0) + wait.duration_ms
    return PartySummary(
        party,
        work[0].site if work else "",
        ending.status,
        end,
        len(sent),
        len(got),
        sum(m.size for m in sent),
        sum(m.size for m in got),
        fsum(min(w.end_ms, end) - min(w.start_ms, end) for w in work),
        dict(sorted(waited_for.items())),
        fsum(wait.duration_ms for wait in waits if wait.why == "contention"),
        fsum(wait.duration_ms for wait in waits if wait.why == "unanswered"),
        ending.text,
    )


@dataclass(frozen=True)
class Wait:
    """A stretch of time in which a party did nothing."""

    party: PartyId
    start_ms: float
    end_ms: float
    why: str
    """``message``, ``contention`` (its processor was busy with another party) or ``unanswered``
    (the run ended first)."""
    message: int | None = None
    """The message that ended the wait."""
    sender: PartyId | None = None
    """Who sent it."""

    @property
    def duration_ms(self) -> float:
        return self.end_ms - self.start_ms


def party_waits(trace: Trace, party: int) -> list[Wait]:
    """A party's idle time up to its end, in order; handling messages meanwhile interrupts it.

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
        """Note the idle time since ``now``, around the work done meanwhile."""
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
        root = _root(trace, work)
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


def _last_message(trace: Trace, party: PartyId, until_ms: float) -> MessageRecord | None:
    """The last message that reached a party."""
    found = [
        m
        for m in trace.messages
        if m.receiver == party
        and m.received_ms is not None
        and m.received_ms <= until_ms + RESOLUTION_MS
    ]
    return max(found, key=lambda m: (m.received_ms or 0.0, m.number), default=None)


def _rounds(trace: Trace, own: Iterable[MessageRecord]) -> Iterator[RoundSummary]:
    works: dict[int, list[WorkRecord]] = defaultdict(list)
    sent: dict[int, list[MessageRecord]] = defaultdict(list)
    for work in trace.work:
        if work.round:
            works[work.round].append(work)
    for message in own:
        sent[message.round].append(message)
    for number in sorted({*works, *sent}):
        done, out = works[number], sent[number]
        starts = [w.start_ms for w in done] + [m.sent_ms for m in out]
        ends = [w.end_ms for w in done] + [m.sent_ms for m in out]
        ends += [m.received_ms for m in out if m.received_ms is not None and arrived(trace, m)]
        names = {w.name: None for w in done}
        yield RoundSummary(
            number,
            " / ".join(names) if names else "notice" if not number else "",
            min(starts),
            max(ends),
            len(out),
            sum(m.size for m in out),
            fsum(w.end_ms - w.start_ms for w in done),
        )


# ---------------------------------------------------------------------- critical path


@dataclass(frozen=True)
class CriticalPath:
    """What the run's duration was made of: the chain of work and messages that ended it.

    Segments follow each other without a gap from the start to ``total_ms``. Shortening anything
    that is not on the path does not shorten the run.
    """

    name: str
    segments: tuple[Segment, ...]
    total_ms: float

    @property
    def parts(self) -> dict[str, float]:
        """Total by part, in the order of ``PARTS``, zeros included; adds up to ``total_ms``."""
        return {part: fsum(s.parts.get(part, 0.0) for s in self.segments) for part in PARTS}

    @property
    def places(self) -> dict[str, float]:
        """Total by party, link and gateway, in the order of their first appearance."""
        found: dict[str, list[float]] = {}
        for segment in self.segments:
            found.setdefault(segment.where, []).append(segment.duration_ms)
        return {where: fsum(times) for where, times in found.items()}

    @property
    def messages(self) -> tuple[int, ...]:
        """Numbers of the messages on the path, in order."""
        numbers = {s.message: None for s in self.segments if s.message is not None}
        return tuple(numbers)

    @property
    def headline(self) -> str:
        return f"critical path of {self.name or 'run'}: {milliseconds(self.total_ms)} ms"

    def tables(self) -> list[Table]:
        """One table by part, one by place, and the segments."""

        def share(ms: float) -> str:
            return f"{ms / self.total_ms:.1%}" if self.total_ms else ""

        parts = Table(
            ("part", "ms", "share", "meaning"),
            [(p, milliseconds(ms), share(ms), PARTS[p]) for p, ms in self.parts.items() if ms],
            frozenset({"ms", "share"}),
        )
        places = Table(
            ("place", "ms", "share"),
            [(where, milliseconds(ms), share(ms)) for where, ms in self.places.items()],
            frozenset({"ms", "share"}),
        )
        segments = Table(
            ("from ms", "to ms", "where", "what", "parts"),
            [
                (
                    milliseconds(s.start_ms),
                    milliseconds(s.end_ms),
                    s.where,
                    s.what,
                    ", ".join(f"{part} {milliseconds(ms)}" for part, ms in s.parts.items()),
                )
                for s in self.segments
            ],
            frozenset({"from ms", "to ms"}),
        )
        return [parts, places, segments]

    def to_frame(self) -> pd.DataFrame:
        """One row per segment: where, what, start_ms, end_ms, and a column ``<part>_ms`` a part.

        Raises:
            UsageError: pandas is not installed.
        """
        rows = [
            {"where": s.where, "what": s.what, "start_ms": s.start_ms, "end_ms": s.end_ms}
            | {f"{part}_ms": s.parts.get(part, 0.0) for part in PARTS}
            for s in self.segments
        ]
        columns = ["where", "what", "start_ms", "end_ms", *(f"{part}_ms" for part in PARTS)]
        return _pandas().DataFrame(rows, columns=columns)

    def __str__(self) -> str:
        return "\n\n".join([self.headline, *(table.text() for table in self.tables())])

    def _repr_html_(self) -> str:
        return rich_display.critical_path_html(self)


def critical_path(trace: Trace) -> CriticalPath:
    """From what ended the run back through its causes to the start.

    A run that was still waiting at its end has the path of the last thing that happened, and
    ``idle`` time from there.
    """
    backwards: list[Segment] = []
    now = trace.finished_ms

    def gap(until: float, where: str, what: str, part: str) -> None:
        """Time between a cause and what it led to."""
        nonlocal now
        if now > until + RESOLUTION_MS:
            backwards.append(Segment(where, what, until, now, {part: now - until}))
        now = min(now, until)

    step: MessageRecord | WorkRecord | None = _last(trace)
    if step is not None:
        end = step.end_ms if isinstance(step, WorkRecord) else step.received_ms or 0.0
        gap(end, "nobody", "the run waited", "idle")
    while step is not None:
        if isinstance(step, WorkRecord):
            where = f"party {step.party}"
            spent = now - step.start_ms
            # Work of no duration is on the path, too: it says what led to what.
            backwards.append(
                Segment(
                    where,
                    step.name,
                    step.start_ms,
                    now,
                    {"compute": spent} if spent else {},
                    None,
                    step.number,
                )
            )
            now = step.start_ms
            cause = _cause(trace, step)
            if cause is None:
                gap(0.0, where, step.name, "contention")
            elif isinstance(cause, WorkRecord):
                gap(cause.end_ms, where, step.name, "contention")
            else:
                gap(cause.received_ms or 0.0, where, step.name, "contention")
            step = cause
        else:
            legs = flight(trace, step)
            backwards += reversed(legs)
            now = step.sent_ms
            by = _origin(trace, step)
            if isinstance(by, MessageRecord):
                until = by.received_ms or 0.0
            else:
                until = 0.0 if by is None else by.end_ms
            gap(until, f"party {step.sender}", f"before {label(step)}", "idle")
            step = by
    gap(0.0, "nobody", "the run waited", "idle")
    return CriticalPath(trace.name, tuple(reversed(backwards)), trace.finished_ms)


def _last(trace: Trace) -> MessageRecord | WorkRecord | None:
    """What ended the run: the last event of the party that ended last."""
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


def _cause(trace: Trace, work: WorkRecord) -> MessageRecord | WorkRecord | None:
    """What a piece of work had to wait for last.

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


# ---------------------------------------------------------------------- data frame

FRAME_COLUMNS: Final[Mapping[str, str]] = {
    "event": "``work``, ``message`` (from sending to receipt) or ``leg`` (one hop of a message)",
    "number": "of the work or message record; a leg has its message's",
    "leg": "hop of the message, counted from 0; missing for other events",
    "protocol": "",
    "round": "0 for the handling of a message, and for notices of an abort",
    "name": "round's name, or kind of message",
    "party": "who works or sends",
    "peer": "who receives; missing for work",
    "source": "site of the work, or where the message or the leg starts",
    "target": "site where the message or the leg ends; missing for work, or if it went nowhere",
    "start_ms": "from the run's start",
    "end_ms": "from the run's start; missing if it never arrived",
    "duration_ms": "",
    "size_bytes": "envelope; missing for work",
    "fate": "delivered, dropped, duplicate or lost; missing for work",
    "cause": "what led to it: ``message`` or ``work``; missing for the start",
    "cause_number": "number of that record",
    **{
        f"{part}_ms": f"{PARTS[part]}; a message has the sum over its way, work has only compute"
        for part in (*list(PARTS)[:8], "fault", "flight")
    },
}
"""Columns of ``to_frame`` and what they hold."""


def to_frame(trace: Trace) -> pd.DataFrame:
    """The trace as a tidy table: one row per event, columns as in ``FRAME_COLUMNS``.

    Rows are in order of their start; a message comes before its legs. Whole numbers are of the
    nullable type ``Int64``.

    Raises:
        UsageError: pandas is not installed.
    """
    pandas = _pandas()
    rows = sorted(_frame_rows(trace), key=lambda row: row["start_ms"])
    frame = pandas.DataFrame(rows, columns=list(FRAME_COLUMNS))
    numbers = ("number", "leg", "round", "party", "peer", "size_bytes", "cause_number")
    times = [name for name in FRAME_COLUMNS if name.endswith("_ms")]
    kinds = dict.fromkeys(numbers, "Int64") | dict.fromkeys(times, "float64")
    return frame.astype(kinds)


def _frame_rows(trace: Trace) -> Iterator[dict[str, Any]]:
    for work in trace.work:
        cause = work.cause or (None, None)
        yield {
            "event": "work",
            "number": work.number,
            "protocol": work.protocol,
            "round": work.round,
            "name": work.name,
            "party": work.party,
            "source": work.site,
            "start_ms": work.start_ms,
            "end_ms": work.end_ms,
            "duration_ms": work.end_ms - work.start_ms,
            "cause": cause[0],
            "cause_number": cause[1],
            "compute_ms": work.end_ms - work.start_ms,
        }
    for message in trace.messages:
        common = {
            "number": message.number,
            "protocol": message.protocol,
            "round": message.round,
            "name": message.kind,
            "party": message.sender,
            "peer": message.receiver,
            "size_bytes": message.size,
            "fate": message.fate,
            "cause": None if message.work is None else "work",
            "cause_number": message.work,
        }
        end = message.received_ms
        way = flight(trace, message)
        yield {
            **common,
            "event": "message",
            "source": message.hops[0].source if message.hops else None,
            "target": message.hops[-1].target if message.hops else None,
            "start_ms": message.sent_ms,
            "end_ms": end,
            "duration_ms": None if end is None else end - message.sent_ms,
            **_columns([s.parts for s in way]),
        }
        for at, hop in enumerate(message.hops):
            start, end = hop.transfer.given_ms, hop.transfer.arrived_ms
            yield {
                **common,
                "event": "leg",
                "leg": at,
                "cause": "message",
                "cause_number": message.number,
                "source": hop.source,
                "target": hop.target,
                "start_ms": start,
                "end_ms": end + hop.service_ms,
                "duration_ms": end + hop.service_ms - start,
                **_columns([{**hop_parts(hop), "service": hop.service_ms}]),
            }


def _columns(found: Iterable[Mapping[str, float]]) -> dict[str, float]:
    names = [name.removesuffix("_ms") for name in FRAME_COLUMNS if name.endswith("_ms")]
    parts = list(found)
    return {f"{name}_ms": fsum(p.get(name, 0.0) for p in parts) for name in names if name in PARTS}


def _pandas() -> Any:
    try:
        import pandas
    except ImportError:
        raise UsageError("this needs pandas: install mpcsim[workbench]") from None
    return pandas
