"""Traces in the Trace Event Format, for ui.perfetto.dev and chrome://tracing."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mpcsim.ids import PartyId
from mpcsim.sim.traces.message_segments import (
    PARTS,
    extra_ms,
    has_arrived,
    hop_parts,
    message_label,
)
from mpcsim.sim.traces.records import FORMAT, MessageRecord, RunRecord


def perfetto(trace: RunRecord) -> dict[str, Any]:
    """Return the trace in the Trace Event Format, for ui.perfetto.dev and chrome://tracing.

    Sites are processes, parties their threads. Work is complete events (``X``). Each message is an
    asynchronous span (``b``, ``e``) with a nested span for every hop, and a flow arrow (``s``,
    ``f``) between two markers of one nanosecond on the parties' threads, which viewers need to
    attach the arrow to; markers of one instant are a nanosecond apart. Drops and abnormal ends are
    instants (``i``). Timestamps are microseconds with whole nanoseconds.

    Source:
        Trace Event Format, Google, 2016 (the document that chrome://tracing links to).
    """
    sites = _sites(trace)
    process = {site: number for number, site in enumerate(sites, 1)}
    home = _homes(trace)
    events: list[dict[str, Any]] = []
    for site, pid in process.items():
        events.append(_meta("process_name", pid, 0, {"name": site}))
        events.append(_meta("process_sort_index", pid, 0, {"sort_index": pid}))
    for ending in trace.endings:
        pid = process[home[ending.party]]
        events.append(_meta("thread_name", pid, ending.party, {"name": f"party {ending.party}"}))
    timed: list[dict[str, Any]] = []
    for work in trace.work:
        cause = {} if work.cause is None else {"cause": " ".join(map(str, work.cause))}
        timed.append(
            {
                "name": work.name,
                "cat": "compute",
                "ph": "X",
                **_span(work.start_ms, work.end_ms),
                "pid": process[home[work.party]],
                "tid": work.party,
                "args": {"protocol": work.protocol, "round": work.round, "work": work.number}
                | cause,
            }
        )
    slot = _Slots()
    for message in trace.messages:
        timed += _message_events(trace, message, process, home, slot)
    for ending in trace.endings:
        if ending.status != "done":
            timed.append(
                {
                    "name": ending.status,
                    "cat": "ending",
                    "ph": "i",
                    "s": "t",
                    "ts": _us(ending.at_ms),
                    "pid": process[home[ending.party]],
                    "tid": ending.party,
                    "args": {"text": ending.text},
                }
            )
    # Enclosing slices before enclosed ones; otherwise as they are.
    timed.sort(key=lambda event: (event["ts"], -event.get("dur", 0.0)))
    return {
        "traceEvents": events + timed,
        "displayTimeUnit": "ms",
        "otherData": {
            "format": FORMAT,
            "name": trace.name,
            "network": trace.network,
            "seed": str(trace.seed),
            "compute": trace.compute,
            "clock": trace.clock,
            "scope": trace.scope,
            "verdict": trace.verdict.value,
            "finished_ms": trace.finished_ms,
        },
    }


def save_perfetto(trace: RunRecord, path: str | Path) -> Path:
    """Write the trace for ui.perfetto.dev and chrome://tracing; returns the path."""
    path = Path(path)
    text = json.dumps(perfetto(trace), ensure_ascii=False, allow_nan=False)
    path.write_text(text + "\n", encoding="utf-8")
    return path


def _sites(trace: RunRecord) -> list[str]:
    """Return the parties' sites, then the others, by first appearance."""
    found = dict.fromkeys(_homes(trace).values())
    for message in trace.messages:
        for hop in message.hops:
            found |= {hop.source: None, hop.target: None}
    return list(found)


def _homes(trace: RunRecord) -> dict[PartyId, str]:
    """Return each party's site, as far as the trace shows it."""
    found: dict[PartyId, str] = {work.party: work.site for work in trace.work}
    for message in trace.messages:
        if message.hops:
            found.setdefault(message.sender, message.hops[0].source)
    everyone = [e.party for e in trace.endings]
    everyone += [i for m in trace.messages for i in (m.sender, m.receiver)]
    for party in everyone:
        found.setdefault(party, f"party {party}")
    return dict(sorted(found.items()))


def _meta(name: str, pid: int, tid: int, args: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "ph": "M", "pid": pid, "tid": tid, "args": args}


def _ns(ms: float) -> int:
    return round(ms * 1e6)


def _us(ms: float) -> float:
    return _ns(ms) / 1000


def _span(start_ms: float, end_ms: float) -> dict[str, float]:
    """Return start and duration, at least a nanosecond: viewers drop empty events."""
    return {"ts": _us(start_ms), "dur": max(1, _ns(end_ms) - _ns(start_ms)) / 1000}


class _Slots:
    """Allocator of a thread's nanoseconds, each once, so that no marker hides another."""

    def __init__(self) -> None:
        self._taken: set[tuple[PartyId, int]] = set()

    def __call__(self, party: PartyId, ms: float) -> float:
        at = _ns(ms)
        while (party, at) in self._taken:
            at += 1
        self._taken.add((party, at))
        return at / 1000


def _message_events(
    trace: RunRecord,
    message: MessageRecord,
    process: Mapping[str, int],
    home: Mapping[PartyId, str],
    slot: _Slots,
) -> list[dict[str, Any]]:
    name = message_label(message)
    sender = {"pid": process[home[message.sender]], "tid": message.sender}
    receiver = {"pid": process[home[message.receiver]], "tid": message.receiver}
    sent = _us(message.sent_ms)
    args = {"size": message.size, "round": message.round, "fate": message.fate}
    args |= {"message": message.number, "protocol": message.protocol}
    common = {"cat": "message", "id": str(message.number), **sender}
    marker = {"cat": "message", "ph": "X", "dur": 0.001}
    left = slot(message.sender, message.sent_ms)
    found: list[dict[str, Any]] = [{"name": f"send {name}", **marker, "ts": left, **sender}]
    if message.fate == "dropped":
        drop = {"name": f"dropped {name}", "cat": "message", "ph": "i", "s": "t", "ts": sent}
        return [*found, {**drop, **sender, "args": args}]
    there = has_arrived(trace, message) and message.received_ms is not None
    on_hops = message.hops[-1].transfer.arrived_ms if message.hops else message.sent_ms
    end = message.received_ms if message.received_ms is not None else on_hops
    found.append({"name": name, "ph": "b", "ts": sent, **common, "args": args})
    for hop in message.hops:
        parts = {part: ms for part, ms in hop_parts(hop).items() if ms}
        where = f"{hop.source} → {hop.target}"
        begin, finish = hop.transfer.given_ms, hop.transfer.arrived_ms
        found.append({"name": where, "ph": "b", "ts": _us(begin), **common, "args": parts})
        found.append({"name": where, "ph": "e", "ts": _us(finish), **common})
    found.append({"name": name, "ph": "e", "ts": _us(max(end, on_hops)), **common})
    if there:
        got = slot(message.receiver, message.received_ms or 0.0)
        extra = extra_ms(message)
        note = {"args": {PARTS["fault"]: extra}} if extra else {}
        flow = {"name": message.kind, "cat": "flow", "id": message.number}
        found.append({"name": f"receive {name}", **marker, "ts": got, **receiver, **note})
        found.append({**flow, "ph": "s", "ts": left, **sender})
        found.append({**flow, "ph": "f", "bp": "e", "ts": got, **receiver})
    return found
