"""Traces as data frames: one row per event. Times are milliseconds from the run's start."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from math import fsum
from typing import TYPE_CHECKING, Any, Final

from mpcsim.errors import needs_extra
from mpcsim.sim.traces.message_segments import PARTS, hop_parts, message_segments
from mpcsim.sim.traces.records import RunRecord

if TYPE_CHECKING:
    import pandas as pd


FRAME_COLUMNS: Final[Mapping[str, str]] = {
    "event": "``work``, ``message`` (from sending to receipt) or ``hop`` (one hop of a message)",
    "number": "of the work or message record; a hop has its message's",
    "hop": "hop of the message, counted from 0; missing for other events",
    "protocol": "",
    "round": "0 for the handling of a message, and for notices of an abort",
    "name": "round's name, or kind of message",
    "party": "who works or sends",
    "peer": "who receives; missing for work",
    "source": "site of the work, or where the message or the hop starts",
    "target": "site where the message or the hop ends; missing for work, or if it went nowhere",
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


def to_frame(trace: RunRecord) -> pd.DataFrame:
    """Return the trace as a tidy table: one row per event, columns as in ``FRAME_COLUMNS``.

    Rows are in order of their start; a message comes before its hops. Whole numbers are of the
    nullable type ``Int64``.

    Raises:
        UsageError: pandas is not installed.
    """
    pandas = load_pandas()
    rows = sorted(_frame_rows(trace), key=lambda row: row["start_ms"])
    frame = pandas.DataFrame(rows, columns=list(FRAME_COLUMNS))
    numbers = ("number", "hop", "round", "party", "peer", "size_bytes", "cause_number")
    times = [name for name in FRAME_COLUMNS if name.endswith("_ms")]
    kinds = dict.fromkeys(numbers, "Int64") | dict.fromkeys(times, "float64")
    return frame.astype(kinds)


def _frame_rows(trace: RunRecord) -> Iterator[dict[str, Any]]:
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
        segments = message_segments(trace, message)
        yield {
            **common,
            "event": "message",
            "source": message.hops[0].source if message.hops else None,
            "target": message.hops[-1].target if message.hops else None,
            "start_ms": message.sent_ms,
            "end_ms": end,
            "duration_ms": None if end is None else end - message.sent_ms,
            **_columns([s.parts for s in segments]),
        }
        for at, hop in enumerate(message.hops):
            start, end = hop.transfer.given_ms, hop.transfer.arrived_ms
            yield {
                **common,
                "event": "hop",
                "hop": at,
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


def load_pandas(what: str = "this") -> Any:
    with needs_extra("workbench", what):
        import pandas
    return pandas
