"""Stories, and lists of calls, for people. Whoever wrote what is in them controls no terminal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from mpcsim.errors import escape_unprintable
from mpcsim.service.request_traces.lines import Call, Line, Request
from mpcsim.service.request_traces.request_trace import ORDER, RequestSpan, RequestTrace

LEAST_MS: Final = 0.1
"""Shorter phases are not shown."""
INDENT: Final = "  "
PROBES: Final = frozenset(
    ("GET", path) for path in ("/", "/.well-known/jwks.json", "/mpc/v1/nodes")
)
"""Requests that are repeated to see whether a server is there."""
COLUMNS: Final = f"{'at ms':>9} {'took ms':>9}"


def format_trace(trace: RequestTrace) -> str:
    """Return a trace as text: the request, how it ended, and all that happened on the way."""
    lines = [f"request {trace.request_id}"]
    for span in trace.roots[:1]:
        request = span.request
        lines[0] += f": {request.method} {request.path}, {describe_outcome(request)}"
    lines += [f"began {_time(trace.began_s)}", *_subject_lines(trace)]
    for process, off_ms in trace.clock_corrections_ms.items():
        way = "behind" if off_ms > 0 else "ahead"
        name = Path(process).name
        lines.append(f"the clock of {name} was {abs(off_ms):.1f} ms {way}, and is set right here")
    lines += ["", COLUMNS]
    for span in trace.roots:
        lines += _span_rows(span, 0)
    lines += (_row(at, None, 0, _log_line_text(line)) for at, line in trace.lines)
    return "\n".join(map(escape_unprintable, lines))


def describe_outcome(request: Request) -> str:
    """Return in words how a request ended."""
    took = f"{request.took_ms:.1f} ms"
    if not request.status:
        return f"never answered, for {took}"
    said = f"{request.status} in {took}"
    if request.broken_off:
        said += ", and the answer broke off"
    return said + _error_suffix(request)


def _error_suffix(request: Request) -> str:
    code = f" ({request.code})" if request.code else ""
    return (f": {request.error}" if request.error else "") + code


def _subject_lines(trace: RequestTrace) -> Iterator[str]:
    """Users, keys and sessions."""
    for what in ("user", "key", "session"):
        names = {getattr(span.request, f"{what}_id"): None for span in trace.walk()}
        known = [name for name in names if name]
        if known:
            yield f"{what}{'s' if len(known) > 1 else ''} {', '.join(known)}"


def _span_rows(span: RequestSpan, depth: int) -> Iterator[str]:
    request = span.request
    status = str(request.status) if request.status else "never answered"
    if request.broken_off:
        status += ", broken off"
    said = f"{request.role}: {request.method} {request.path}: {status}{_error_suffix(request)}"
    yield _row(span.began_ms, request.took_ms, depth, said)
    if request.why:
        yield _row(None, None, depth + 1, request.why)
    for place in request.exception:
        yield _row(None, None, depth + 1, place)
    inside: list[tuple[float, list[str]]] = []
    asked_of = {called.call.to for called in span.calls}
    for phase in span.phases:
        took = phase.ended_ms - phase.began_ms
        if took >= LEAST_MS and phase.name not in asked_of:  # those have rows of their own
            row = _row(phase.began_ms, took, depth + 1, f"- {phase.name}")
            inside.append((phase.began_ms, [row]))
    for called in span.calls:
        at = span.began_ms + called.call.began_ms
        if called.handled_by is None:
            inside.append((at, [_call_row(called.call, at, depth + 1)]))
        else:
            inside.append(
                (called.handled_by.began_ms, list(_span_rows(called.handled_by, depth + 1)))
            )
    for other in span.unattributed:
        inside.append((other.began_ms, list(_span_rows(other, depth + 1))))
    for at, line in span.lines:
        inside.append((at, [_row(at, None, depth + 1, _log_line_text(line))]))
    for _, rows in sorted(inside, key=lambda each: round(each[0], 2)):  # phases first
        yield from rows


def _call_row(call: Call, at_ms: float, depth: int) -> str:
    """Return the row of a call that its callee's log does not have."""
    took = None if call.ended_ms is None else call.ended_ms - call.began_ms
    answer = f"answered {call.status}; its log has nothing of it" if call.status else "no answer"
    return _row(at_ms, took, depth, f"{call.to}: {call.method} {call.path}: {answer}")


def _log_line_text(line: Line) -> str:
    return f"! {line.role}: {line.level} {line.event}"


def _row(at_ms: float | None, took_ms: float | None, depth: int, said: str) -> str:
    at = "" if at_ms is None else f"{at_ms:.1f}"
    took = "" if took_ms is None else f"{took_ms:.1f}"
    return f"{at:>9} {took:>9} {INDENT * depth}{said}"


# ---------------------------------------------------------------------- lists


def caller_requests(requests: Iterable[Request], *, errors: bool = False) -> list[Request]:
    """Return the requests of callers: of each request id, the one to its first server.

    Requests of the gateway's own to MPC nodes are none, nor are ``PROBES``, unless they fail.

    Args:
        errors: only those that failed.
    """
    first: dict[str, int] = {}
    found = list(requests)
    for request in found:
        place = _role_rank(request)
        first[request.request_id] = min(first.get(request.request_id, place), place)
    return [
        request
        for request in found
        if _role_rank(request) == first[request.request_id] < ORDER.index("operator")
        and (request.has_failed or not (errors or (request.method, request.path) in PROBES))
    ]


def format_requests(requests: Sequence[Request]) -> Iterator[str]:
    """A line for each."""
    for request in requests:
        status = str(request.status or "none")
        row = (
            f"{_time(request.at_s, 'milliseconds')}  {status:>4} {request.took_ms:9.1f} ms  "
            f"{request.request_id:<16}  {request.method} {request.path}{_error_suffix(request)}"
        )
        yield escape_unprintable(row)


def _role_rank(request: Request) -> int:
    return ORDER.index(request.role) if request.role in ORDER else len(ORDER)


def _time(at_s: float, unit: str = "microseconds") -> str:
    return datetime.fromtimestamp(at_s, UTC).isoformat(" ", unit).replace("+00:00", " UTC")
