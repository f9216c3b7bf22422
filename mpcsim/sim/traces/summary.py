"""The figures of a run: by party, by round and in all.

All times are milliseconds of the run's clock, from its start.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import fsum
from typing import ClassVar

from mpcsim.ids import PartyId
from mpcsim.sim.rich_display import Table, document, milliseconds
from mpcsim.sim.traces.causes import sequential_delays
from mpcsim.sim.traces.message_segments import has_arrived
from mpcsim.sim.traces.records import MessageRecord, RunRecord, Scope, Verdict, WorkRecord
from mpcsim.sim.traces.waits import party_waits


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

    scope: ClassVar[Scope] = "protocol"
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
            f"{self.clock} clock, compute {self.compute}, seed {self.seed}, "
            f"scope {self.scope}"
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
        return document(self.headline, self.tables(), notes=self.notes())


def summary(trace: RunRecord) -> Summary:
    """The figures of a run."""
    own = [m for m in trace.messages if not _is_copy(trace, m)]
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
        tuple(_summarise_party(trace, own, ending.party) for ending in trace.endings),
        tuple(_summarise_rounds(trace, own)),
    )


def _is_copy(trace: RunRecord, message: MessageRecord) -> bool:
    """Whether a fault made the message, not a party.

    The fate of a copy that a crashed receiver lost is ``lost``, so look at its way, too: a copy
    shares the hops of its original.
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
