"""The view of a run: what happens in which step, and that all of it is plain data."""

import json
from dataclasses import replace
from types import SimpleNamespace

import pytest

from mpcsim import Network
from mpcsim.lab.explorer import Explorer
from mpcsim.lab.explorer.model.model import as_json, details, view
from mpcsim.lab.explorer.model.steps import StepOrder
from mpcsim.sim import Trace
from mpcsim.sim.traces.jsonl import from_jsonl, to_jsonl
from tests.helpers import traces
from tests.lab.explorer.rules import check_sound

STAR = Network.star(20.0, 5.0, 140.0, mbit_per_s=100)


def test_the_last_round_that_a_party_has_begun():
    order = object.__new__(StepOrder)
    work = [SimpleNamespace(number=n, party=1, round=n + 1) for n in range(3)]
    order.trace, order.home = SimpleNamespace(work=work), {0: 0, 1: 1, 2: None}
    assert [order.last_round_begun(1, step) for step in (-1, 0, 1)] == [0, 1, 2]


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


def test_what_a_reader_is_told_at_each_step(wallet):
    made = Explorer.live(wallet, "sign", signers=(1, 3)).view
    first, second, third, *_, last = made.steps
    assert first.title == "Party 1 starts"
    assert [r.name for r in first.rounds] == ["commit"]
    assert first.rounds[0].steps == ("step 5: sample r_i, phi_i; commit to R_i",)
    assert first.standing == "waits in round 2 (offer) for Commit from party 3"
    assert second.title == "Party 3 starts"
    assert third.title == "Party 1 receives Commit from party 3"
    assert last.standing == "done"
    assert [s.ended for s in made.steps].count("done") == 2
    names = ["commit", "offer", "respond", "share", "assemble"]
    assert [(r.number, r.name) for r in made.rounds] == list(enumerate(names, 1))
    assert [p.role for p in made.parties] == ["client", "institution"]
    assert sum(m.critical for m in made.messages) == 4


def test_details_of_a_message(wallet):
    found = Explorer.live(wallet, "sign", signers=(1, 3)).details
    respond = found["3>1 Respond"]
    assert respond.sealed
    assert not respond.broadcast
    assert respond.payload_bytes == sum(f.size for f in respond.fields)
    assert respond.doc.startswith("Round 3, direct")
    commit = found["3>1 Commit"]
    assert commit.broadcast
    assert all(f.value for f in commit.fields)
    bare = Explorer(wallet.sign(signers=(1, 3))).details["3>1 Respond"]
    assert bare.sealed is None
    assert [f.name for f in bare.fields] == [f.name for f in respond.fields]
    assert bare.operations == ()


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
