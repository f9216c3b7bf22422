"""The view of a run: what happens in which step, and that all of it is plain data."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from mpcsim import Network
from mpcsim.lab.explorer import Explorer
from mpcsim.lab.explorer.model.fields import PLUS_ONE, WITHHOLD
from mpcsim.lab.explorer.model.model import _waiting_text, as_json, details, view
from mpcsim.lab.explorer.model.retime import observed_network
from mpcsim.lab.explorer.model.steps import StepOrder, handled
from mpcsim.lab.explorer.model.views import Detail, View
from mpcsim.sim import Trace
from mpcsim.sim.traces.jsonl import from_jsonl, to_jsonl
from tests.helpers import traces
from tests.helpers.reviewed import check_reviewed
from tests.lab.explorer.rules import check_sound
from tests.lab.explorer.wallets import SESSIONS, simulation

STAR = Network.star(20.0, 5.0, 140.0, mbit_per_s=100)


def everything() -> Iterator[str]:
    """Some views and all that is in them, times to a nanosecond."""
    frost = SESSIONS["frost, 2 signers"]()
    yield from shown("frost", frost.view, frost.details)
    slow = {"one_way_ms": 80.0, "mbit_per_s": 2.0, "loss": 0.1}
    yield from shown("over another network", frost.set_link("client", "gateway", **slow).view)
    signing = Explorer.live(simulation(), "sign", signers=(1, 3))
    yield from shown("signing", signing.view, signing.details)
    altered = signing.edit(3, 1, "Respond", "psi", PLUS_ONE)
    yield from shown("altered", altered.view)
    yield from shown("withheld", signing.reset().edit(3, 1, "Respond", "", WITHHOLD).view)
    for name in ("duplicated", "crashed", "deadline", "two-party signature"):
        trace = traces.trace(name)
        seen = observed_network(trace).with_link("client", "gateway", back_mbit_per_s=50.0)
        yield repr(seen.table())
        yield from shown(name, view(trace, network=seen), details(trace, None))


def shown(name: str, made: View, contents: dict[str, Detail] | None = None) -> Iterator[str]:
    whole = as_json(made) | {"details": [as_json(each) for each in (contents or {}).values()]}
    for key, value in whole.items():
        for each in value if isinstance(value, list) else [value]:
            plain = json.loads(json.dumps(each), parse_float=lambda text: round(float(text), 6))
            yield f"{name}, {key}: {json.dumps(plain)}"


def test_views_are_as_written_down():
    check_reviewed(everything(), Path(__file__).with_name("views.txt"))


def test_the_last_round_that_a_party_has_begun():
    order = object.__new__(StepOrder)
    work = [SimpleNamespace(number=n, party=1, round=n + 1) for n in range(3)]
    order.trace, order.home = SimpleNamespace(work=work), {0: 0, 1: 1, 2: None}
    assert [order.last_round_begun(1, step) for step in (-1, 0, 1)] == [0, 1, 2]


def record(number, **fields):
    known = {"party": 1, "round": 0, "start_ms": 6.0, "receiver": 1, "fate": "delivered"}
    return SimpleNamespace(number=number, **{**known, **fields})


def test_messages_that_waited_are_handled_in_order_of_arrival():
    messages = [
        record(0, received_ms=5.0),
        record(1, received_ms=2.0),
        record(2, received_ms=None, fate="dropped"),
        record(3, received_ms=1.0, fate="lost"),
        record(4, received_ms=7.0),
    ]
    causes = [None, ("work", 0), ("work", 1), ("work", 2), ("message", 4)]
    work = [record(n, cause=cause) for n, cause in enumerate(causes)]
    assert handled(SimpleNamespace(messages=messages, work=work)) == {1: 1, 2: 0, 4: 4}


@pytest.mark.parametrize(
    ("mine", "before", "step"),
    [
        ({"number": 1}, {"round": 1}, 3),  # the handling of message 5
        ({"number": 2}, {"round": 1}, 7),
        ({"number": 2, "round": 2}, {"round": 1}, 7),
        ({"number": 2, "round": 2}, {"round": 0}, 2),
        ({"number": 2, "round": 2}, {"round": 1, "party": 2}, 2),
    ],
)
def test_the_step_of_work_that_waited_for_other_work(mine, before, step):
    order = object.__new__(StepOrder)
    order.trace, order.home = SimpleNamespace(work=[record(0, **before)]), [2]
    order._arrival, order._handled = {5: 3}, {1: 5}
    order._latest_step = lambda party, until_ms: 7
    assert order._step_of_work(record(cause=("work", 0), **mine)) == step


def test_who_is_waited_for_is_told_in_order():
    class Deal: ...

    round_ = SimpleNamespace(needs=(Deal,), where="in round 2")
    messages = [SimpleNamespace(sender=j, receiver=1, kind="Deal") for j in (9, 3, 2)]
    told = _waiting_text(round_, 1, {("Deal", 2)}, SimpleNamespace(messages=messages))
    assert told == "waits in round 2 for Deal from party 3, 9"


def test_live_sessions(session):
    made = session.view
    check_sound(made)
    assert made.verdict == "completed valid"
    assert [p.status for p in made.parties] == ["done"] * len(made.parties)
    assert made.rounds[-1].number == len(session.recording.parties[1].definition.rounds)
    for step in made.steps:
        for round_ in step.rounds:
            assert round_.steps or made.protocol in ("dkg", "reshare", "frost", "presigned")
    assert set(session.details) == {m.key for m in made.messages}
    json.loads(json.dumps({key: as_json(d) for key, d in session.details.items()}))


def test_the_same_steps_with_and_without_a_recording(session):
    live = session.view
    bare = Explorer(session.trace, network=session.network).view
    check_sound(bare)
    for a, b in zip(live.steps, bare.steps, strict=True):
        assert (a.title, a.sent, a.ended, a.standing) == (b.title, b.sent, b.ended, b.standing)
        assert [r.number for r in a.rounds] == [r.number for r in b.rounds]
    assert [m.checks for m in live.messages] == [m.checks for m in bare.messages] or (
        live.protocol == "reshare"  # which messages between dealers are sealed, only bytes say
    )


@pytest.mark.parametrize("name", traces.NAMES)
def test_traces_with_every_kind_of_trouble(name):
    trace = traces.trace(name)
    made = view(trace, network=STAR)
    check_sound(made)
    assert made.verdict == trace.verdict.value
    assert set(details(trace, None)) == {m.key for m in made.messages}


def test_a_trace_from_a_file_shows_how_it_aborted():
    trace = traces.trace("aborted")
    made = view(Trace(**vars(from_jsonl(to_jsonl(trace)))), network=STAR)
    check_sound(made)
    assert made.verdict == "aborted"
    assert made.aborts == view(trace, network=STAR).aborts != ()


def test_an_unknown_protocol_still_has_its_steps():
    trace = traces.trace("two-party signature")
    renamed = replace(
        trace,
        work=tuple(replace(w, protocol="other") for w in trace.work),
        messages=tuple(replace(m, protocol="other") for m in trace.messages),
    )
    made = view(renamed, network=STAR)
    check_sound(made)
    assert not any(step.gained for step in made.steps)
    assert details(renamed, None)["1>3 Commit"].fields == ()
