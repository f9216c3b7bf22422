"""Request traces: the lines of one request id joined by who called whom, on one clock.

Clocks of machines differ. What is certain is that a request lies within the call that led to it:
where that is not so, the clock of who was asked is set right until it is.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from mpcsim.service.request_traces.lines import Call, Line, Phase, Request

ORDER: Final = ("node", "gateway", "operator", "institution")
"""Roles in order of calls: each is called by those before it."""
SLACK_S: Final = 0.0005
"""Seconds by which clocks of one machine's processes may differ: they are read one after
another."""


@dataclass
class CallSpan:
    """A call, with what it led to."""

    call: Call
    handled_by: RequestSpan | None = None
    """None: nothing is known of it where it went to."""


@dataclass
class RequestSpan:
    """Handled request of a trace. Milliseconds from the trace's beginning."""

    request: Request
    began_ms: float = 0.0
    calls: list[CallSpan] = field(default_factory=list)
    unattributed: list[RequestSpan] = field(default_factory=list)
    """Requests that happened meanwhile, and of which no call is known."""
    lines: list[tuple[float, Line]] = field(default_factory=list)
    """Other log lines of this request, with their times."""

    @property
    def ended_ms(self) -> float:
        return self.began_ms + self.request.took_ms

    @property
    def phases(self) -> list[Phase]:
        began = self.began_ms
        return [
            Phase(phase.name, began + phase.began_ms, began + phase.ended_ms)
            for phase in self.request.phases
        ]

    @property
    def children(self) -> list[RequestSpan]:
        """The requests that this one led to."""
        return [
            asked.handled_by for asked in self.calls if asked.handled_by is not None
        ] + self.unattributed

    def walk(self) -> Iterator[RequestSpan]:
        """Yield this span and all below it."""
        yield self
        for span in self.children:
            yield from span.walk()


@dataclass
class RequestTrace:
    """Trace of one request id through all servers."""

    request_id: str
    began_s: float
    """Since 1970 UTC, by the clock of who was asked first."""
    roots: list[RequestSpan]
    """Requests of which nobody's call is known: the first one is the caller's; of several with one
    id, each."""
    lines: list[tuple[float, Line]]
    """Other log lines, outside of all requests."""
    clock_corrections_ms: dict[str, float]
    """Corrections of clocks, by process; of those that needed one."""

    def walk(self) -> Iterator[RequestSpan]:
        """All requests."""
        for span in self.roots:
            yield from span.walk()


def assemble_trace(lines: Sequence[Line]) -> RequestTrace:
    """Return the trace of the lines of one request id; at least one line."""
    return _TraceAssembler(lines).assemble()


_Pair = tuple[RequestSpan, CallSpan, RequestSpan]
"""A caller, its call, and the request that it led to."""


class _TraceAssembler:
    """Assembles a trace, from the first callers to the last callees."""

    def __init__(self, lines: Sequence[Line]) -> None:
        self._id = lines[0].request_id
        self._lines = [line for line in lines if not isinstance(line, Request)]
        found = sorted((line for line in lines if isinstance(line, Request)), key=lambda r: r.at_s)
        self._spans = [RequestSpan(request) for request in found]
        self._unmatched = list(self._spans)
        """Spans whose caller is not known."""
        self._corrections_s: dict[str, float] = defaultdict(float)
        """Seconds to add to a process's clock."""

    def assemble(self) -> RequestTrace:
        for role in ORDER:
            self._match_calls_of([span for span in self._spans if span.request.role == role])
        roots = [span for span in self._unmatched if not self._attach_to_enclosing(span)]
        roots.sort(key=lambda span: self._corrected_time(span.request))
        earliest = roots[0].request if roots else self._lines[0]
        began_s = min(
            self._corrected_time(line) for line in (earliest, *(root.request for root in roots))
        )
        for span in self._spans:
            span.began_ms = (self._corrected_time(span.request) - began_s) * 1e3
        outside: list[tuple[float, Line]] = []
        for line in self._lines:
            moment = ((self._corrected_time(line) - began_s) * 1e3, line)
            inside = self._span_of_line(line)
            (outside if inside is None else inside.lines).append(moment)
        off_ms = {source: off * 1e3 for source, off in self._corrections_s.items() if off}
        return RequestTrace(self._id, began_s, roots, outside, off_ms)

    def _corrected_time(self, line: Line) -> float:
        return line.at_s + self._corrections_s[line.source]

    # ------------------------------------------------------------------ who was asked

    def _match_calls_of(self, callers: list[RequestSpan]) -> None:
        """Find what the calls of requests of one role led to, and set the clocks of who was asked
        right."""
        for caller in callers:
            calls = sorted(caller.request.calls, key=lambda call: call.began_ms)
            caller.calls = [CallSpan(call) for call in calls]
        asked = [(caller, each) for caller in callers for each in caller.calls]
        asked.sort(key=lambda pair: self._call_interval(*pair)[0])
        for role in {each.call.to for _, each in asked}:
            self._match_role(
                [(caller, each) for caller, each in asked if each.call.to == role],
                [span for span in self._unmatched if span.request.role == role],
            )

    def _match_role(
        self, asked: list[tuple[RequestSpan, CallSpan]], waiting: list[RequestSpan]
    ) -> None:
        """Match the calls of one role with the requests that they led to."""
        pairs = self._pair_by_time(asked, waiting)
        bounds: dict[str, list[tuple[float, float]]] = {}
        if len(pairs) < len(waiting):  # clocks differ, or some other log is not here
            ordered = self._pair_in_order(asked, waiting)
            bounds = self._correction_bounds(ordered)
            if all(
                _lower_bound(found) <= _upper_bound(found) + 2 * SLACK_S
                for found in bounds.values()
            ):
                pairs = ordered
            else:
                bounds = {}
        for _, each, span in pairs:
            each.handled_by = span
            self._unmatched.remove(span)
        for source, found in bounds.items():
            if not _lower_bound(found) - SLACK_S <= 0.0 <= _upper_bound(found) + SLACK_S:
                self._corrections_s[source] = (_lower_bound(found) + _upper_bound(found)) / 2

    def _call_interval(self, caller: RequestSpan, asked: CallSpan) -> tuple[float, float]:
        """Return the beginning and end of a call."""
        began, call = self._corrected_time(caller.request), asked.call
        ended = caller.request.took_ms if call.ended_ms is None else call.ended_ms
        return began + call.began_ms / 1e3, began + max(ended, call.began_ms) / 1e3

    def _pair_by_time(
        self, asked: list[tuple[RequestSpan, CallSpan]], waiting: list[RequestSpan]
    ) -> list[_Pair]:
        """Requests that lie within a call, as clocks have it."""
        left, pairs = list(waiting), []
        for caller, each in asked:
            began, ended = self._call_interval(caller, each)
            for span in left:
                request = span.request
                if (
                    _is_same_request(each.call, request)
                    and began - SLACK_S <= request.at_s
                    and request.ended_s <= ended + SLACK_S
                ):
                    left.remove(span)
                    pairs.append((caller, each, span))
                    break
        return pairs

    def _pair_in_order(
        self, asked: list[tuple[RequestSpan, CallSpan]], waiting: list[RequestSpan]
    ) -> list[_Pair]:
        """Requests that were answered as a call was, one after the other."""
        left, pairs = list(waiting), []
        for caller, each in asked:
            for span in left:
                if (
                    _is_same_request(each.call, span.request)
                    and each.call.status == span.request.status
                ):
                    left.remove(span)
                    pairs.append((caller, each, span))
                    break
        return pairs

    def _correction_bounds(self, pairs: list[_Pair]) -> dict[str, list[tuple[float, float]]]:
        """Return how far each process's clock may be moved, so that each request lies within its
        call."""
        bounds: dict[str, list[tuple[float, float]]] = defaultdict(list)
        for caller, each, span in pairs:
            began, ended = self._call_interval(caller, each)
            request = span.request
            bounds[request.source].append((began - request.at_s, ended - request.ended_s))
        return bounds

    # ------------------------------------------------------------------ what is left

    def _attach_to_enclosing(self, span: RequestSpan) -> bool:
        """Attach a request without a known call to one that was running then, of a role that makes
        such calls."""
        rank = _rank(span.request)
        at, ended = (
            self._corrected_time(span.request),
            self._corrected_time(span.request) + span.request.took_ms / 1e3,
        )
        for other in reversed(self._spans):
            began = self._corrected_time(other.request)
            if (
                _rank(other.request) < rank
                and began <= at
                and ended <= began + other.request.took_ms / 1e3
            ):
                other.unattributed.append(span)
                return True
        return False

    def _span_of_line(self, line: Line) -> RequestSpan | None:
        """The request in which something was logged: the last one that had begun by then, of the
        same process."""
        found = [
            span
            for span in self._spans
            if span.request.source == line.source and span.request.at_s <= line.at_s
        ]
        return max(found, key=lambda span: span.request.at_s, default=None)


def _is_same_request(call: Call, request: Request) -> bool:
    return (request.method, request.path) == (call.method, call.path)


def _lower_bound(bounds: list[tuple[float, float]]) -> float:
    return max(least for least, _ in bounds)


def _upper_bound(bounds: list[tuple[float, float]]) -> float:
    return min(most for _, most in bounds)


def _rank(request: Request) -> int:
    """Return a role's rank: callers come before those they call; both MPC nodes call nobody."""
    place = ORDER.index(request.role) if request.role in ORDER else len(ORDER)
    return min(place, ORDER.index("operator"))
