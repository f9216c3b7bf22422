"""Request traces as traces of the simulator.

Places and parties are those of the simulator's traces of calls.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Final

from mpcsim.ids import PartyId
from mpcsim.service.request_traces.lines import Call
from mpcsim.service.request_traces.request_trace import RequestSpan, RequestTrace
from mpcsim.sim.network.transport import Transfer
from mpcsim.sim.trace import Trace
from mpcsim.sim.traces.records import PARTY_OF, Ending, Hop, MessageRecord, Verdict, WorkRecord

BESIDE: Final = 6
"""The first party number of what goes on beside something else at the same place: slices of one
party lie within each other, or apart."""
CALL: Final = "call"


def to_simulator_trace(trace: RequestTrace) -> Trace:
    """Return the request trace as a trace of the simulator, from its beginning.

    Requests and their phases are work, at the place that handled them. A call is two messages: the
    question is under way until its request begins, and the answer from its end; of a call of which
    nothing is known where it went, there is the question, and it never arrives. What links between
    gateway and MPC nodes took is in the messages.
    """
    return _TraceConverter(trace).convert()


class _TraceConverter:
    def __init__(self, trace: RequestTrace) -> None:
        self._source = trace
        self._works: list[WorkRecord] = []
        self._messages: list[MessageRecord] = []
        self._lanes: dict[str, dict[PartyId, list[tuple[float, float]]]] = defaultdict(dict)
        """Intervals in which each party of a place is busy."""
        self._beside = BESIDE
        self._failed: dict[PartyId, str] = {}

    def convert(self) -> Trace:
        trace = self._source
        for span in trace.roots:
            self._add_span(span, None)
        ended: dict[PartyId, float] = {}
        for work in self._works:
            ended[work.party] = max(ended.get(work.party, 0.0), work.end_ms)
        endings = tuple(
            Ending(party, "aborted", at, self._failed[party])
            if party in self._failed
            else Ending(party, "done", at)
            for party, at in sorted(ended.items())
        )
        first = trace.roots[0].request if trace.roots else None
        return Trace(
            f"{first.method} {first.path}" if first else trace.request_id,
            "",
            0,
            "measured",
            "real",
            Verdict.ABORTED if first is None or first.has_failed else Verdict.VALID,
            tuple(self._messages),
            tuple(self._works),
            endings,
            max(ended.values(), default=0.0),
        )

    def _add_span(self, span: RequestSpan, cause: tuple[str, int] | None) -> int:
        """A request, and what it led to; the number of its work."""
        request = span.request
        name = f"{request.method} {request.path}: {request.status or 'never answered'}"
        work, party = self._add_work(request.role, name, span.began_ms, span.ended_ms, cause)
        if request.has_failed:
            self._failed.setdefault(party, request.error or name)
        asked = {each.call.to for each in span.calls}
        for phase in span.phases:
            # Of whom the request asked something, and the way there: messages.
            if phase.name.removesuffix("-link") not in asked:
                self._add_work(
                    request.role, phase.name, phase.began_ms, phase.ended_ms, ("work", work)
                )
        for each in span.calls:
            self._add_call(span, each.call, each.handled_by, work)
        for other in span.unattributed:
            self._add_span(other, ("work", work))
        return work

    def _add_call(
        self, span: RequestSpan, call: Call, there: RequestSpan | None, work: int
    ) -> None:
        began, ended = _call_interval(span, call)
        kind = call.path.rpartition("/")[2]
        here = span.request.role
        if there is None:
            self._add_message(kind, here, call.to, call.sent, (began, None), work)
            name = f"{call.method} {call.path}: {call.status or 'no answer'}"
            self._add_work(call.to, name, began, began, None)  # its place is in the picture, too
            return
        question = self._add_message(kind, here, call.to, call.sent, (began, there.began_ms), work)
        done = self._add_span(there, ("message", question))
        if ended is not None:
            back = (there.ended_ms, ended)
            self._add_message(f"{kind}: {call.status}", call.to, here, call.got, back, done)

    def _add_message(
        self,
        kind: str,
        source: str,
        target: str,
        size: int,
        way: tuple[float, float | None],
        work: int,
    ) -> int:
        sent, received = way
        there = sent if received is None else max(sent, received)
        transfer = Transfer(sent, there, 0.0, 0.0, 0.0, 0.0, there - sent, 0.0)
        number = len(self._messages)
        self._messages.append(
            MessageRecord(
                number,
                "",
                CALL,
                0,
                kind,
                PARTY_OF[source],
                PARTY_OF[target],
                size,
                sent,
                None if received is None else there,
                (Hop(source, target, transfer),),
                work,
                "lost" if received is None else "delivered",
            )
        )
        return number

    def _add_work(
        self, role: str, name: str, began: float, ended: float, cause: tuple[str, int] | None
    ) -> tuple[int, PartyId]:
        number = len(self._works)
        party = self._party_for(role, began, ended)
        self._works.append(WorkRecord(number, party, role, CALL, 0, name, began, ended, cause))
        return number, party

    def _party_for(self, role: str, began: float, ended: float) -> PartyId:
        """A party of this place that can show this."""
        lanes = self._lanes[role]
        for party, spans in lanes.items():
            if all(_is_nested_or_apart((began, ended), span) for span in spans):
                spans.append((began, ended))
                return party
        party = PARTY_OF[role]
        if lanes:
            party = PartyId(self._beside)
            self._beside += 1
        lanes[party] = [(began, ended)]
        return party


def _call_interval(span: RequestSpan, call: Call) -> tuple[float, float | None]:
    """Return when a call began, and when its answer was there.

    This includes its time on links, which is no part of the call where links are simulated.
    """
    began = span.began_ms + call.began_ms
    if call.ended_ms is None:
        return began, None
    ended = span.began_ms + call.ended_ms
    for phase in span.phases:
        if phase.name == call.to and phase.began_ms <= began <= ended <= phase.ended_ms:
            for link in span.phases:
                if link.name == f"{call.to}-link":
                    began = link.began_ms if link.ended_ms == phase.began_ms else began
                    ended = link.ended_ms if link.began_ms == phase.ended_ms else ended
            break
    return began, ended


def _is_nested_or_apart(one: tuple[float, float], other: tuple[float, float]) -> bool:
    """Return whether two spans are apart, or one is within the other."""
    apart = one[1] <= other[0] or other[1] <= one[0]
    within = one[0] >= other[0] and one[1] <= other[1]
    return apart or within or (other[0] >= one[0] and other[1] <= one[1])
