"""Differences of two traces, and the part of a trace that one party sees."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace
from itertools import zip_longest
from typing import Any, Final, TypeVar

from mpcsim.errors import UsageError
from mpcsim.sim.traces.records import Ending, MessageRecord, RunRecord, WorkRecord

T = TypeVar("T", bound=RunRecord)

_LISTS: Final = ("work", "messages", "endings")


def differences(one: RunRecord, other: RunRecord) -> Iterator[str]:
    """Yield the fields in which two traces differ, a line each; contents are not compared."""
    for each in fields(RunRecord):
        before, after = getattr(one, each.name), getattr(other, each.name)
        if each.compare and each.name not in _LISTS and before != after:
            yield f"{each.name}: {_text(before)} and {_text(after)}"
    for name in _LISTS:
        for before, after in zip_longest(getattr(one, name), getattr(other, name)):
            if before is None or after is None:
                which = "second" if before is None else "first"
                yield f"{_describe(after if before is None else before)}: only in the {which} trace"
            elif before != after:
                yield f"{_describe(before)}: " + "; ".join(
                    f"{f.name} {_text(getattr(before, f.name))} and {_text(getattr(after, f.name))}"
                    for f in fields(before)
                    if getattr(before, f.name) != getattr(after, f.name)
                )


def _describe(record: WorkRecord | MessageRecord | Ending) -> str:
    match record:
        case MessageRecord():
            return f"message {record.number} ({record.kind} {record.sender} → {record.receiver})"
        case WorkRecord():
            return f"work {record.number} ({record.name} of party {record.party})"
        case Ending():
            return f"ending of party {record.party}"


def _text(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def view_of(trace: T, party: int) -> T:
    """Return the trace with the party's own work and messages only, numbered anew.

    Causes in other parties' work are left out. All endings remain: they name the parties.

    Raises:
        UsageError: the party takes no part.
    """
    known = sorted(ending.party for ending in trace.endings)
    if party not in known:
        raise UsageError(
            f"party {party} takes no part; the parties are {', '.join(map(str, known))}"
        )
    work = [w for w in trace.work if w.party == party]
    messages = [m for m in trace.messages if party in (m.sender, m.receiver)]
    numbers = {
        "work": {w.number: at for at, w in enumerate(work)},
        "message": {m.number: at for at, m in enumerate(messages)},
    }

    def cause(of: tuple[str, int] | None) -> tuple[str, int] | None:
        at = None if of is None else numbers[of[0]].get(of[1])
        return None if of is None or at is None else (of[0], at)

    return replace(
        trace,
        work=tuple(replace(w, number=at, cause=cause(w.cause)) for at, w in enumerate(work)),
        messages=tuple(
            replace(m, number=at, work=None if m.work is None else numbers["work"].get(m.work))
            for at, m in enumerate(messages)
        ),
        outcomes={i: o for i, o in trace.outcomes.items() if i == party},
        contents={
            at: trace.contents[number]
            for number, at in numbers["message"].items()
            if number in trace.contents
        },
    )
