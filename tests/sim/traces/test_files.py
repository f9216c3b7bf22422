"""Traces as files: what is written reads back the same, and what is damaged is refused."""

import json
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpcsim.errors import (
    Aborted,
    AbortReason,
    Blame,
    Consequence,
    Evidence,
    InRound,
    InvalidEncoding,
    OnReceipt,
    Reason,
    UsageError,
)
from mpcsim.protocols.engine import Waiting
from mpcsim.sim import Trace
from mpcsim.sim.traces import jsonl
from mpcsim.sim.traces.critical_path import critical_path
from mpcsim.sim.traces.jsonl import from_jsonl, load, to_jsonl
from mpcsim.sim.traces.perfetto import perfetto
from mpcsim.sim.traces.records import Ending
from tests.helpers.reviewed import check_calls
from tests.helpers.traces import NAMES, trace

EVERY = pytest.mark.parametrize("name", NAMES)

# ---------------------------------------------------------------------- JSON Lines


@EVERY
def test_what_is_written_reads_back(name: str, tmp_path: Path) -> None:
    found = trace(name)
    path = found.save_jsonl(tmp_path / "trace.jsonl")
    loaded = Trace.load(path)
    assert loaded == found
    failed = {i: o for i, o in found.outcomes.items() if isinstance(o, Aborted | Waiting)}
    assert loaded.outcomes == {i: _without_evidence(o) for i, o in failed.items()}
    assert loaded.waiting == found.waiting
    assert loaded.aborted == (found.aborted and _without_evidence(found.aborted))
    assert to_jsonl(loaded) == to_jsonl(found)
    assert str(loaded) == str(found)


def _without_evidence(outcome: Aborted | Waiting) -> Aborted | Waiting:
    return replace(outcome, evidence=()) if isinstance(outcome, Aborted) else outcome


class WeatherReason(AbortReason):
    RAIN = ("it rains", Consequence.RETRY, Blame.NOBODY)


OWN = Aborted(WeatherReason.RAIN, OnReceipt(1, "Offer"), reported_by=2, prepared=True)
BLAMED = Aborted(
    Reason.OT_EXTENSION_CHECK, InRound(2, "reply"), frozenset({1, 4}), frozenset({2, 5}),
    frozenset({3}), "a detail", (Evidence(1, "Offer", b"SECRET"),), unsealed=True,
)  # fmt: skip
GAVE_UP = Waiting(3, "finish", {"Offer": frozenset({1, 4})}, frozenset({2, 3}), {1: "no"})  # type: ignore[dict-item]


@pytest.mark.parametrize("outcome", [OWN, BLAMED, GAVE_UP])
def test_how_a_party_failed_reads_back(outcome: Aborted | Waiting) -> None:
    status = "waiting" if isinstance(outcome, Waiting) else "aborted"
    ending = Ending(1, status, 1.0)  # type: ignore[arg-type]
    made = replace(GOOD, endings=(ending,), outcomes={1: outcome}, contents={0: {}})
    assert from_jsonl(to_jsonl(made)).outcomes == {1: _without_evidence(outcome)}
    assert from_jsonl(to_jsonl(made, contents=True)).outcomes == {1: outcome}
    assert b"SECRET".hex() not in to_jsonl(made)


def test_the_parties_of_a_failure_are_in_order() -> None:
    assert (ABORT["culprits"], ABORT["suspects"]) == ([1, 4], [2, 5])
    assert (WAIT["missing"], WAIT["unopened"]) == ({"Offer": [1, 4]}, [2, 3])


# ---------------------------------------------------------------------- views and differences


@EVERY
def test_the_view_of_a_party(name: str) -> None:
    found = trace(name)
    for party in {ending.party for ending in found.endings}:
        view = found.of(party)
        assert [w.start_ms for w in view.work] == [
            w.start_ms for w in found.work if w.party == party
        ]
        assert [m.sent_ms for m in view.messages] == [
            m.sent_ms for m in found.messages if party in (m.sender, m.receiver)
        ]
        assert all(m.work is None or view.work[m.work].party == party for m in view.messages)
        read = Trace(**vars(from_jsonl(to_jsonl(view))))
        assert view.of(party) == read == view
        assert view.outcomes == {party: found.outcomes[party]}
        assert [row.party for row in view.summary().parties] == [party]
        assert view.summary() == read.summary()
    with pytest.raises(UsageError, match="party 9 takes no part; the parties are"):
        found.of(9)


def test_differences_name_record_and_field() -> None:
    first, *rest = GOOD.messages
    other = replace(GOOD, seed=5, messages=(replace(first, size=1), *rest[:-1]))
    assert GOOD.diff(GOOD) == ()
    assert GOOD.diff(other) == (
        f"seed: {GOOD.seed} and 5",
        f"message 0 ({first.kind} 1 → 3): size {first.size} and 1",
        f"message 7 ({rest[-1].kind} {rest[-1].sender} → {rest[-1].receiver}): "
        "only in the first trace",
    )


# ---------------------------------------------------------------------- damaged files

GOOD = trace("two-party signature")
LINES = to_jsonl(GOOD).splitlines()
ABORT = jsonl._failure(BLAMED, contents=False) or {}
WAIT = jsonl._failure(GAVE_UP, contents=False) or {}


def test_what_is_wrong_in_a_file_is_named_with_its_line(tmp_path: Path) -> None:
    """One field of the first line of a kind is another one; or whole lines are."""

    def file(*lines: str, end: str = "\n") -> None:
        path = tmp_path / "damaged.jsonl"
        path.write_text("\n".join(lines) + end if lines else "", encoding="utf-8")
        load(path)

    def first_of(at: int) -> Callable[..., None]:
        def changed(**fields: object) -> None:
            record = json.dumps(json.loads(LINES[at]) | fields)
            with pytest.raises(InvalidEncoding, match=rf"^line {at + 1}: ") as caught:
                file(*LINES[:at], record, *LINES[at + 1 :])
            raise caught.value

        return changed

    work, messages = len(GOOD.work), len(GOOD.messages)
    kinds = {"header": 0, "work": 1, "message": 1 + work, "ending": 1 + work + messages}
    names: dict[str, Any] = {kind: first_of(at) for kind, at in kinds.items()}
    names |= {"file": file, "LINES": LINES, "ABORT": ABORT, "WAIT": WAIT}
    names["HOP"] = json.loads(LINES[kinds["message"]])["hops"][0]
    copy = Path(__file__).with_name("wrong_files.txt")
    check_calls(copy, refusal=InvalidEncoding, **names)
    with pytest.raises(InvalidEncoding, match="line 5: record: not JSON"):
        file(*LINES[:4], "[" * 9999, *LINES[5:])


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    path = tmp_path / "damaged.jsonl"
    path.write_bytes("\n".join(LINES[:3]).encode() + b"\n\xff\n")
    with pytest.raises(InvalidEncoding, match="line 4: not UTF-8"):
        load(path)


@given(st.data())
def test_any_damage_is_refused_or_harmless(data: st.DataObject) -> None:
    text = to_jsonl(GOOD)
    start = data.draw(st.integers(0, len(text)))
    stop = start + data.draw(st.integers(0, 40))
    put = data.draw(st.text(st.sampled_from('{}[]",:0129.-eE \n\\abnulltrue'), max_size=6))
    try:
        loaded = from_jsonl(text[:start] + put + text[stop:])
    except InvalidEncoding as error:
        refusal = str(error)
    else:
        critical_path(loaded)  # whatever loads can be looked at
        assert from_jsonl(to_jsonl(loaded)) == loaded
        return
    assert refusal.startswith("line ")


# ---------------------------------------------------------------------- trace events


def events(name: str, *phases: str) -> list[dict[str, Any]]:
    return [e for e in perfetto(trace(name))["traceEvents"] if e["ph"] in phases]


@EVERY
def test_the_file_is_json(name: str, tmp_path: Path) -> None:
    path = trace(name).save_perfetto(tmp_path / "trace.json")
    assert json.loads(path.read_text(encoding="utf-8")) == perfetto(trace(name))


@EVERY
def test_every_event_has_what_viewers_need(name: str) -> None:
    needed = {
        "M": {"name", "pid", "tid", "args"},
        "X": {"name", "cat", "ts", "dur", "pid", "tid"},
        "b": {"name", "cat", "id", "ts", "pid", "tid"},
        "e": {"name", "cat", "id", "ts", "pid", "tid"},
        "s": {"name", "cat", "id", "ts", "pid", "tid"},
        "f": {"name", "cat", "id", "ts", "pid", "tid", "bp"},
        "i": {"name", "cat", "s", "ts", "pid", "tid"},
    }
    found = perfetto(trace(name))["traceEvents"]
    for event in found:
        assert needed[event["ph"]] <= set(event)
        assert event.get("ts", 0) >= 0
        assert event.get("dur", 1) > 0
    times = [event["ts"] for event in found if "ts" in event]
    assert times == sorted(times)


@EVERY
def test_processes_are_sites_and_threads_are_parties(name: str) -> None:
    found = trace(name)
    sites = {w.site for w in found.work}
    sites |= {end for m in found.messages for h in m.hops for end in (h.source, h.target)}
    named = {e["args"]["name"]: e["pid"] for e in events(name, "M") if e["name"] == "process_name"}
    assert set(named) == sites
    threads = {e["tid"]: e for e in events(name, "M") if e["name"] == "thread_name"}
    assert {t: e["args"]["name"] for t, e in threads.items()} == {
        e.party: f"party {e.party}" for e in found.endings
    }
    for work in found.work:
        assert threads[work.party]["pid"] == named[work.site]


@EVERY
def test_work_and_messages_are_all_there(name: str) -> None:
    found = trace(name)
    work = [e for e in events(name, "X") if e["cat"] == "compute"]
    assert [e["name"] for e in sorted(work, key=lambda e: e["args"]["work"])] == [
        w.name for w in found.work
    ]
    for event in work:
        made = found.work[event["args"]["work"]]
        assert event["ts"] == pytest.approx(made.start_ms * 1000, abs=1e-3)
        assert event["dur"] == pytest.approx((made.end_ms - made.start_ms) * 1000, abs=2e-3)
    drops = [e for e in events(name, "i") if e["cat"] == "message"]
    assert len(drops) == sum(m.fate == "dropped" for m in found.messages)
    flows = {e["id"] for e in events(name, "s")}
    assert flows == {e["id"] for e in events(name, "f")}
    assert flows == {
        m.number
        for m in found.messages
        if m.received_ms is not None and m.received_ms <= found.finished_ms
    }
    ends = [e for e in events(name, "i") if e["cat"] == "ending"]
    assert len(ends) == sum(e.status != "done" for e in found.endings)


@EVERY
def test_slices_nest(name: str) -> None:
    """Slices of a thread enclose each other or do not touch; spans end where they began."""
    stacks: dict[Any, list[int]] = defaultdict(list)
    for event in events(name, "X"):
        stack = stacks[event["pid"], event["tid"]]
        start, end = (round(1000 * t) for t in (event["ts"], event["ts"] + event["dur"]))
        while stack and stack[-1] <= start:
            stack.pop()
        assert not stack or end <= stack[-1]
        stack.append(end)
    spans: dict[str, list[str]] = defaultdict(list)
    for event in events(name, "b", "e"):
        if event["ph"] == "b":
            spans[event["id"]].append(event["name"])
        else:
            assert spans[event["id"]].pop() == event["name"]
    assert not any(spans.values())


@EVERY
def test_arrows_attach_to_their_own_markers(name: str) -> None:
    """The innermost slice where a flow begins or ends is the message's marker."""
    slices = events(name, "X")
    for event in events(name, "s", "f"):
        message = trace(name).messages[event["id"]]
        verb = "send" if event["ph"] == "s" else "receive"
        around = [
            s
            for s in slices
            if (s["pid"], s["tid"]) == (event["pid"], event["tid"])
            and s["ts"] <= event["ts"] < s["ts"] + s["dur"] - 1e-6
        ]
        expected = f"{verb} {message.kind} {message.sender} → {message.receiver}"
        assert around[-1]["name"] == expected
        assert event["tid"] == (message.sender if verb == "send" else message.receiver)
