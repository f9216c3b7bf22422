"""Traces as JSON Lines files: writing, and strict reading.

A file has a header with the format's name, its version and the run's own fields, then one record
per line: work, messages, endings, each in order of its number. Times read back as exactly the same
floats. An ending says as data why its party aborted or what it waited for. The parties' results
are left out, because they may be secret; contents of messages, and the evidence of an abort, are
included on request."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, Final

from mpcsim.errors import (
    Aborted,
    AbortReason,
    Evidence,
    InRound,
    InvalidEncoding,
    OnReceipt,
    Reason,
    UsageError,
    Where,
)
from mpcsim.ids import PartyId
from mpcsim.protocols.engine import Waiting
from mpcsim.sim.network.transport import Transfer
from mpcsim.sim.traces.records import (
    FORMAT,
    Ending,
    Hop,
    MessageRecord,
    RunRecord,
    Verdict,
    WorkRecord,
)

VERSION: Final = 3
MARK: Final = "SECRETS: what only the receivers of messages may see is in this file"
_PARTS: Final = {"work": "work", "messages": "message", "endings": "ending"}
"""Lists of records, each with the name of its records."""
FATES: Final = frozenset({"delivered", "dropped", "duplicate", "lost"})
STATUSES: Final = frozenset({"done", "aborted", "waiting"})


# ---------------------------------------------------------------------- writing


def to_jsonl(trace: RunRecord, *, contents: bool = False) -> str:
    """Return the trace as JSON Lines.

    Args:
        contents: include the contents of messages: SECRETS, and marked as such.

    Raises:
        ValueError: a time is infinite or not a number.
        UsageError: contents are asked for, and the trace has none.
    """
    counts = {name: len(getattr(trace, name)) for name in _PARTS}
    records = [_header(trace, contents) | counts]
    for part, name in _PARTS.items():
        records += [{"record": name, **record} for record in _records(trace, part, contents)]
    return "".join(
        json.dumps(record, ensure_ascii=False, allow_nan=False, separators=(",", ":")) + "\n"
        for record in records
    )


def to_json(trace: RunRecord, *, contents: bool = False) -> str:
    """Return the trace as one JSON object, with lists ``work``, ``messages`` and ``endings``."""
    parts = {part: _records(trace, part, contents) for part in _PARTS}
    whole = _header(trace, contents) | parts
    return json.dumps(whole, ensure_ascii=False, allow_nan=False, indent=1)


def save_jsonl(trace: RunRecord, path: str | Path, *, contents: bool = False) -> Path:
    """Write the trace as JSON Lines; returns the path. Arguments and errors as of ``to_jsonl``.

    With contents, or with the seed of the secrets in its scenario, only the owner may read the file
    (mode 0600), whatever it was before.
    """
    path = Path(path)
    text = to_jsonl(trace, contents=contents)
    if contents or trace.reproducible:
        path.touch(mode=0o600)
        path.chmod(0o600)
    path.write_text(text, encoding="utf-8", newline="\n")
    return path


def _header(trace: RunRecord, contents: bool) -> dict[str, Any]:
    if contents and not trace.contents:
        raise UsageError(
            f"{trace.name}: this trace has no contents of messages; they are kept when asked for: "
            "Simulation(..., contents=True)"
        )
    try:
        scenario = str(trace.scenario)
    except UsageError:
        scenario = ""  # with a latency of one's own, say: no file can have it
    return {
        "format": FORMAT,
        "version": VERSION,
        "contents": MARK if contents else "",
        "name": trace.name,
        "network": trace.network,
        "seed": trace.seed,
        "compute": trace.compute,
        "clock": trace.clock,
        "verdict": trace.verdict.value,
        "finished_ms": trace.finished_ms,
        "reproducible": trace.reproducible,
        "versions": dict(trace.versions),
        "scenario": scenario,
    }


def _records(trace: RunRecord, part: str, contents: bool) -> list[dict[str, Any]]:
    if part == "endings":
        return [
            {**_flat(ending), "outcome": _failure(trace.outcomes.get(ending.party), contents)}
            for ending in trace.endings
        ]
    if part != "messages":
        return [_flat(record) for record in getattr(trace, part)]
    found = []
    for message in trace.messages:
        hops = [_flat(hop) | {"transfer": _flat(hop.transfer)} for hop in message.hops]
        found.append({**_flat(message), "hops": hops})
        if contents and message.number in trace.contents:
            found[-1]["content"] = trace.contents[message.number]
    return found


def _failure(outcome: object, contents: bool) -> dict[str, Any] | None:
    """Return an abort or a wait as data, without secrets; None for any other outcome."""
    match outcome:
        case Aborted():
            flat = _flat(outcome)
            flat |= {name: sorted(flat[name]) for name in ("culprits", "suspects", "about")}
            shown = outcome.evidence if contents else ()
            evidence = [_flat(each) | {"payload": each.payload.hex()} for each in shown]
            where = _flat(outcome.where)
            return flat | {
                "reason": _reason_name(outcome.reason),
                "where": where,
                "evidence": evidence,
            }
        case Waiting():
            missing = {kind: sorted(who) for kind, who in outcome.missing.items()}
            gave_up = {str(i): reason for i, reason in outcome.gave_up.items()}
            unopened = sorted(outcome.unopened)
            found = {"missing": missing, "unopened": unopened, "gave_up": gave_up}
            return _flat(outcome) | found
    return None


def _reason_name(reason: AbortReason) -> str:
    """Return the name of a reason in files: with its module and class if a protocol defines it."""
    owner = type(reason)
    return (
        reason.name if owner is Reason else f"{owner.__module__}:{owner.__qualname__}.{reason.name}"
    )


def _reasons() -> dict[str, AbortReason]:
    """Return all reasons of imported protocols by their names in files."""
    found: dict[str, AbortReason] = {}
    classes = [AbortReason]
    while classes:
        owner = classes.pop()
        found |= {_reason_name(reason): reason for reason in owner}
        classes += owner.__subclasses__()
    return found


def _flat(record: Any) -> dict[str, Any]:
    return {f.name: getattr(record, f.name) for f in fields(record)}


# ---------------------------------------------------------------------- reading


def load(path: str | Path) -> RunRecord:
    """Read a trace that ``save_jsonl`` wrote; it equals the original, without results.

    Raises:
        InvalidEncoding: not a trace, of another version, or damaged; says in which line.
        OSError: the file cannot be read.
    """
    data = Path(path).read_bytes()
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InvalidEncoding(f"line {line}: not UTF-8 text") from None
    return from_jsonl(text)


def from_jsonl(text: str) -> RunRecord:
    """Parse the trace in a JSON Lines text.

    Raises:
        InvalidEncoding: as for ``load``.
    """
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    if not lines:
        raise InvalidEncoding("line 1: the header is missing: the file is empty")
    header = _Record(1, lines[0], "header")
    if header.values.get("format") != FORMAT:
        raise InvalidEncoding(f"line 1: the header is missing: no format {FORMAT!r}")
    if header.values.get("version") != VERSION:
        found = header.values.get("version")
        raise InvalidEncoding(f"line 1: version is {found!r}; this package reads {VERSION}")
    header.take_field("format", str)
    header.take_field("version", int)
    counts = {name: header.take_field(name, int) for name in ("work", "messages", "endings")}
    expected = 1 + sum(counts.values())
    if text and not text.endswith("\n"):
        raise InvalidEncoding(f"line {len(lines)}: cut off before its end")
    if len(lines) != expected:
        where = min(len(lines), expected) + (len(lines) > expected)
        raise InvalidEncoding(
            f"line {where}: the header announces {expected} lines, the file has {len(lines)}"
        )
    body = enumerate(lines[1:], 2)
    work = tuple(_work(*next(body), at, counts) for at in range(counts["work"]))
    marked = bool(header.take_one_of("contents", {"", MARK}))
    contents: dict[int, Any] = {}
    messages = tuple(
        _message(*next(body), at, counts, contents if marked else None)
        for at in range(counts["messages"])
    )
    for made in work:
        if made.cause and made.cause[0] == "message":
            by = messages[made.cause[1]].work
            if by is not None and by >= made.number:
                raise InvalidEncoding(
                    f"line {made.number + 2}: work: its cause, message {made.cause[1]}, "
                    f"comes from later work"
                )
    outcomes: dict[PartyId, Aborted | Waiting] = {}
    endings = tuple(_ending(*next(body), outcomes) for _ in range(counts["endings"]))
    trace = RunRecord(
        name=header.take_field("name", str),
        network=header.take_field("network", str),
        seed=header.take_field("seed", int),
        compute=header.take_field("compute", str),
        clock=header.take_one_of("clock", {"virtual", "real"}),
        verdict=Verdict(header.take_one_of("verdict", {v.value for v in Verdict})),
        messages=messages,
        work=work,
        endings=endings,
        finished_ms=header.take_time("finished_ms"),
        reproducible=header.take_field("reproducible", bool),
        scenario=header.take_field("scenario", str),
        versions=_texts(header, "versions"),
        outcomes=outcomes,
        contents=contents,
    )
    header.check_empty()
    return trace


class _Record:
    """JSON object read field by field; missing, extra and ill-typed fields are refused."""

    def __init__(self, line: int, source: str | Mapping[str, Any], what: str) -> None:
        self.line = line
        self.what = what
        if isinstance(source, str):
            try:
                parsed = json.loads(source, parse_constant=self._constant)
            except (ValueError, RecursionError) as error:
                reason = error.msg if isinstance(error, json.JSONDecodeError) else str(error)
                raise self.wrong(f"not JSON: {reason}") from None
            source = parsed
        if not isinstance(source, dict):
            raise self.wrong("not a JSON object")
        self.values: dict[str, Any] = dict(source)

    def _constant(self, name: str) -> None:
        raise ValueError(f"{name} is no number")

    def wrong(self, reason: str) -> InvalidEncoding:
        return InvalidEncoding(f"line {self.line}: {self.what}: {reason}")

    def _pop_field(self, name: str) -> Any:
        try:
            return self.values.pop(name)
        except KeyError:
            raise self.wrong(f"{name} is missing") from None

    def take_field(self, name: str, kind: Any) -> Any:
        """Remove and return a field of exactly this type."""
        value = self._pop_field(name)
        if type(value) is not kind:
            raise self.wrong(f"{name} is {_shorten(value)}: not {_KINDS[kind]}")
        if kind is int and name != "seed" and value < 0:
            raise self.wrong(f"{name} is {value}: below 0")
        return value

    def take_one_of(self, name: str, allowed: Iterable[str]) -> str:
        """Remove and return a text field with one of the allowed values."""
        value: str = self.take_field(name, str)
        if value not in allowed:
            raise self.wrong(
                f"{name} is {_shorten(value)}: not one of {', '.join(sorted(allowed))}"
            )
        return value

    def take_time(self, name: str) -> float:
        """Remove and return a finite number of milliseconds, integer or float."""
        value = self._pop_field(name)
        if type(value) not in (int, float):
            raise self.wrong(f"{name} is {_shorten(value)}: not a number")
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if not math.isfinite(number):
            raise self.wrong(f"{name} is not finite")
        return number

    def take_optional(self, name: str, read: Callable[[str], Any]) -> Any:
        """Remove and return a field that may be null."""
        if name in self.values and self.values[name] is None:
            return self.values.pop(name)
        return read(name)

    def check_empty(self) -> None:
        if self.values:
            raise self.wrong(f"unknown field {next(iter(self.values))!r}")


_KINDS: Final = {
    str: "a text",
    int: "a whole number",
    bool: "true or false",
    list: "a list",
    dict: "an object",
}


def _shorten(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 40 else text[:37] + "..."


def _open(line: int, source: str, kind: str) -> _Record:
    record = _Record(line, source, "record")
    found = record.take_field("record", str)
    if found != kind:
        raise record.wrong(f"{kind} expected, {_shorten(found)} found")
    record.what = kind
    return record


def _numbered(record: _Record, at: int) -> int:
    number: int = record.take_field("number", int)
    if number != at:
        raise record.wrong(f"number is {number}: {at} comes next")
    return number


def _work(line: int, source: str, at: int, counts: Mapping[str, int]) -> WorkRecord:
    record = _open(line, source, "work")

    def cause(name: str) -> tuple[str, int]:
        value = record.take_field(name, list)
        if len(value) != 2 or value[0] not in ("message", "work") or type(value[1]) is not int:
            raise record.wrong(f"cause is {_shorten(value)}: not a kind of record and a number")
        # Causes come first, so following them ends.
        limit = counts["messages"] if value[0] == "message" else at
        if not 0 <= value[1] < limit:
            raise record.wrong(f"cause is {_shorten(value)}: there is no such record before it")
        return value[0], value[1]

    made = WorkRecord(
        number=_numbered(record, at),
        party=PartyId(record.take_field("party", int)),
        site=record.take_field("site", str),
        protocol=record.take_field("protocol", str),
        round=record.take_field("round", int),
        name=record.take_field("name", str),
        start_ms=record.take_time("start_ms"),
        end_ms=record.take_time("end_ms"),
        cause=record.take_optional("cause", cause),
    )
    record.check_empty()
    return made


def _texts(record: _Record, name: str) -> dict[str, str]:
    found: dict[str, str] = record.take_field(name, dict)
    if not all(type(value) is str for value in found.values()):
        raise record.wrong(f"{name} is {_shorten(found)}: not texts by name")
    return found


def _message(
    line: int, source: str, at: int, counts: Mapping[str, int], contents: dict[int, Any] | None
) -> MessageRecord:
    record = _open(line, source, "message")
    if contents is not None and "content" in record.values:
        contents[at] = record.take_field("content", dict)

    def work(name: str) -> int:
        number: int = record.take_field(name, int)
        if number >= counts["work"]:
            raise record.wrong(f"work is {number}: there is no such record")
        return number

    made = MessageRecord(
        number=_numbered(record, at),
        session=record.take_field("session", str),
        protocol=record.take_field("protocol", str),
        round=record.take_field("round", int),
        kind=record.take_field("kind", str),
        sender=PartyId(record.take_field("sender", int)),
        receiver=PartyId(record.take_field("receiver", int)),
        size=record.take_field("size", int),
        sent_ms=record.take_time("sent_ms"),
        received_ms=record.take_optional("received_ms", record.take_time),
        hops=tuple(_hop(line, hop) for hop in record.take_field("hops", list)),
        work=record.take_optional("work", work),
        fate=record.take_one_of("fate", FATES),
    )
    record.check_empty()
    return made


def _hop(line: int, source: Any) -> Hop:
    record = _Record(line, _no_text(source), "hop")
    inner = _Record(line, _no_text(record._pop_field("transfer")), "transfer")
    transfer = Transfer(**{f.name: inner.take_time(f.name) for f in fields(Transfer)})
    inner.check_empty()
    hop = Hop(
        record.take_field("source", str),
        record.take_field("target", str),
        transfer,
        record.take_time("service_ms"),
    )
    record.check_empty()
    return hop


def _no_text(source: Any) -> Any:
    """Return the value, or None for a text, which ``_Record`` would parse as JSON."""
    return None if isinstance(source, str) else source


def _ending(line: int, source: str, outcomes: dict[PartyId, Aborted | Waiting]) -> Ending:
    record = _open(line, source, "ending")
    made = Ending(
        party=PartyId(record.take_field("party", int)),
        status=record.take_one_of("status", STATUSES),
        at_ms=record.take_time("at_ms"),
        text=record.take_field("text", str),
    )
    readers: dict[str, Callable[[_Record], Aborted | Waiting]]
    readers = {"aborted": _aborted, "waiting": _waiting}
    read = readers.get(made.status)

    def outcome(name: str) -> Aborted | Waiting:
        source = record.take_field(name, dict)
        if read is None:
            raise record.wrong("outcome of a party that is done: results are in no file")
        inner = _Record(line, source, "outcome")
        found = read(inner)
        inner.check_empty()
        return found

    found = record.take_optional("outcome", outcome)
    if found is not None:
        outcomes[made.party] = found
    record.check_empty()
    return made


def _aborted(record: _Record) -> Aborted:
    name = record.take_field("reason", str)
    reason = _reasons().get(name)
    if reason is None:
        hint = "; import the module that defines it first" if ":" in name else ""
        raise record.wrong(f"reason is {name!r}: unknown{hint}")
    return Aborted(
        reason=reason,
        where=_where(_Record(record.line, record.take_field("where", dict), "where")),
        culprits=_parties(record, "culprits"),
        suspects=_parties(record, "suspects"),
        about=_parties(record, "about"),
        detail=record.take_field("detail", str),
        evidence=tuple(
            _evidence(_Record(record.line, _no_text(each), "evidence"))
            for each in record.take_field("evidence", list)
        ),
        unsealed=record.take_field("unsealed", bool),
        prepared=record.take_field("prepared", bool),
        reported_by=record.take_optional(
            "reported_by", lambda name: PartyId(record.take_field(name, int))
        ),
    )


def _where(record: _Record) -> Where:
    found: Where
    if "round" in record.values:
        found = InRound(record.take_field("round", int), record.take_field("name", str))
    else:
        found = OnReceipt(record.take_field("sender", int), record.take_field("kind", str))
    record.check_empty()
    return found


def _evidence(record: _Record) -> Evidence:
    sender, kind = record.take_field("sender", int), record.take_field("kind", str)
    payload = record.take_field("payload", str)
    try:
        found = Evidence(sender, kind, bytes.fromhex(payload))
    except ValueError:
        raise record.wrong(f"payload is {_shorten(payload)}: not hexadecimal") from None
    record.check_empty()
    return found


def _waiting(record: _Record) -> Waiting:
    missing = _Record(record.line, record.take_field("missing", dict), "missing")
    gave_up = _texts(record, "gave_up")
    if not all(i.isascii() and i.isdecimal() for i in gave_up):
        raise record.wrong(f"gave_up is {_shorten(gave_up)}: not texts by number of a party")
    return Waiting(
        round=record.take_field("round", int),
        name=record.take_field("name", str),
        missing={kind: _parties(missing, kind) for kind in [*missing.values]},
        unopened=_parties(record, "unopened"),
        gave_up={PartyId(int(i)): reason for i, reason in gave_up.items()},
    )


def _parties(record: _Record, name: str) -> frozenset[PartyId]:
    found = record.take_field(name, list)
    if not all(type(i) is int and i >= 0 for i in found):
        raise record.wrong(f"{name} is {_shorten(found)}: not numbers of parties")
    return frozenset(map(PartyId, found))
