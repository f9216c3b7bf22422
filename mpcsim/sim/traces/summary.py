"""Key figures of a run: by party, by round and in total.

All times are milliseconds of the run's clock, from its start.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import fsum
from typing import ClassVar

from mpcsim.ids import PartyId
from mpcsim.sim.rich_display import Table, document, milliseconds, page
from mpcsim.sim.traces.causes import sequential_delays
from mpcsim.sim.traces.message_segments import has_arrived
from mpcsim.sim.traces.records import MessageRecord, RunRecord, Scope, Verdict, WorkRecord
from mpcsim.sim.traces.waits import party_waits


@dataclass(frozen=True)
class PartySummary:
    """Key figures of one party; computing, waiting, contention, unanswered add up to
    ``ended_ms``."""

    party: PartyId
    site: str
    status: str
    """``done``, ``aborted`` or ``waiting``."""
    ended_ms: float
    messages_sent: int
    messages_received: int
    bytes_sent: int
    """Size of all envelopes sent, without the transport's overhead."""
    bytes_received: int
    compute_ms: float
    waited_for: Mapping[PartyId, float]
    """Idle time by the sender of the message that ended the wait. A wait lasts until the arrival of
    the message that lets the party begin its next round (or end), whatever came before it."""
    contention_ms: float
    """Time ready to work while other parties kept the site's processors busy."""
    unanswered_ms: float
    """Idle time at the end, for messages that never came."""
    text: str = ""
    """Reason of an abort, or what the party was waiting for."""

    @property
    def waiting_ms(self) -> float:
        """Total time of waits that a message ended."""
        return fsum(self.waited_for.values())


@dataclass(frozen=True)
class RoundSummary:
    """Key figures of one round over all parties."""

    number: int
    """Number of the round; 0: notices of an abort, outside the rounds."""
    name: str
    start_ms: float
    """Time when the first party began the round."""
    end_ms: float
    """Time when its last work ended and its last message had arrived."""
    messages: int
    bytes: int
    compute_ms: float

    @property
    def duration_ms(self) -> float:
        return self.end_ms - self.start_ms


@dataclass(frozen=True)
class Summary:
    """Key figures of a run."""

    scope: ClassVar[Scope] = "protocol"
    name: str
    network: str
    seed: int
    compute: str
    clock: str
    verdict: Verdict
    duration_ms: float
    messages: int
    """Messages that the parties sent, arrived or not; copies made by a fault do not count."""
    undelivered: int
    """Messages that were dropped, lost, or still under way at the end."""
    bytes: int
    """Size of all envelopes, without the transport's overhead."""
    rounds: int
    """Number of rounds in which messages were sent."""
    sequential_delays: int
    """Length of the longest causal chain of messages."""
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
        """Return the lines between the headline and the tables: totals, and parties' remarks."""
        lost = f", {self.undelivered} of them undelivered" if self.undelivered else ""
        notes = [
            f"{self.messages} messages{lost}, {self.bytes:,} bytes",
            f"{self.rounds} rounds, {self.sequential_delays} sequential delays",
            f"{self.clock} clock, compute {self.compute}, seed {self.seed}, scope {self.scope}",
        ]
        notes += [f"party {p.party}: {p.text}" for p in self.parties if p.text]
        return notes

    def tables(self) -> list[Table]:
        """Return a table by party and a table by round."""
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
        return page(self.headline, self.tables(), notes=self.notes())

    def _repr_html_(self) -> str:
        return document(self.headline, self.tables(), notes=self.notes())


def summary(trace: RunRecord) -> Summary:
    """Return the key figures of a run."""
    own = [m for m in trace.messages if not _is_copy(trace, m)]
    # The view of one party has the endings of all, and the work and outcome of that one; a trace
    # from a file has no outcomes of parties that are done.
    known = {w.party for w in trace.work} | trace.outcomes.keys()
    seen = [e.party for e in trace.endings if e.party in known or not known]
    there = [m for m in own if has_arrived(trace, m) and m.fate != "lost"]
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
        tuple(_summarise_party(trace, own, party) for party in seen),
        tuple(_summarise_rounds(trace, own)),
    )


def _is_copy(trace: RunRecord, message: MessageRecord) -> bool:
    """Return whether a fault, not a party, made the message.

    A copy that a crashed receiver lost has the fate ``lost``; it is recognised by its hops, which
    are those of its original.
    """
    if message.fate == "duplicate":
        return True
    if message.fate != "lost" or not message.hops or not message.number:
        return False
    return any(
        m.hops is message.hops or m.hops == message.hops for m in _earlier_copies(trace, message)
    )


def _earlier_copies(trace: RunRecord, message: MessageRecord) -> Iterator[MessageRecord]:
    flow = (message.sender, message.receiver, message.sent_ms)
    for m in trace.messages[: message.number]:
        if (m.sender, m.receiver, m.sent_ms) == flow:
            yield m


def _summarise_party(
    trace: RunRecord, own: Iterable[MessageRecord], party: PartyId
) -> PartySummary:
    ending = next(e for e in trace.endings if e.party == party)
    work = [w for w in trace.work if w.party == party]
    end = ending.at_ms
    sent = [m for m in own if m.sender == party]
    got = [
        m
        for m in trace.messages
        if m.receiver == party and has_arrived(trace, m) and m.fate != "lost"
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


def _summarise_rounds(trace: RunRecord, own: Iterable[MessageRecord]) -> Iterator[RoundSummary]:
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
        ends += [m.received_ms for m in out if m.received_ms is not None and has_arrived(trace, m)]
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
