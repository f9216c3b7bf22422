"""Traces executed again: what comes out the same is told apart from what does not."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from mpcsim import Network, Scenario, Simulation
from mpcsim.errors import UsageError
from mpcsim.sim import Free, Measured, Trace, Verdict, rerun
from mpcsim.sim.scenario import SECRET_MARK
from mpcsim.sim.traces.jsonl import MARK
from tests.helpers.traces import trace


def simulation(**options: object) -> Simulation:
    settings = {"seed": 5, "compute": Free(), "secrets_seed": "rerun", **options}
    sim = Simulation(Network.preset("seoul", access="lte", loss=0.02), **settings)  # type: ignore[arg-type]
    sim.generate("ed25519")
    return sim


@pytest.mark.parametrize("contents", [False, True])
def test_a_trace_from_a_file_comes_out_the_same(contents: bool, tmp_path: Path) -> None:
    sim = simulation(contents=contents)
    sim.sign(b"before")
    made = sim.sign(b"this one", signers=(1, 3)).trace
    path = made.save_jsonl(tmp_path / "trace.jsonl", contents=contents)
    loaded = Trace.load(path)
    found = rerun(loaded)
    assert found.same, str(found)
    assert found.open == ()
    assert found.trace.messages == made.messages
    assert loaded.contents == made.contents
    assert loaded.versions == made.versions
    assert loaded.versions["mpcsim"]
    assert str(found) == "sign ed25519, run again: the same"


def test_what_is_otherwise_is_said() -> None:
    made = simulation().sign().trace
    later = replace(made.messages[0], sent_ms=1e6)
    found = rerun(replace(made, messages=(later, *made.messages[1:])))
    assert not found.same
    assert "times" in found.differences[0]
    assert "NOT the same" in str(found)
    longer = replace(made.messages[0], size=9)
    assert "(9 bytes, delivered)" in rerun(replace(made, messages=(longer,))).differences[1]
    other = replace(made, verdict=Verdict.ABORTED, seed=99)
    assert rerun(other).differences == ("there was no attempt with the seed 99",)
    assert "verdict" in rerun(replace(other, seed=made.seed)).differences[0]
    old = replace(made, versions={**made.versions, "numpy": "0.1"})
    assert rerun(old).same
    assert "it was 0.1" in rerun(old).open[0]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *[("round", 9), ("kind", "Other"), ("sender", 2), ("receiver", 2), ("size", 1)],
        *[("fate", "lost"), ("sent_ms", 0.5), ("received_ms", None)],
        *[("party", 2), ("status", "waiting"), ("text", "in vain"), ("at_ms", 0.5)],
    ],
)
def test_every_message_and_ending_is_compared(field: str, value: object) -> None:
    """Each field of the first message and of the first ending alone; and whether they are there."""
    made = simulation().sign(signers=(1, 3)).trace
    what = "messages" if hasattr(made.messages[0], field) else "endings"
    first, *others = getattr(made, what)
    assert getattr(first, field) != value
    for changed in ([replace(first, **{field: value}), *others], others):
        assert not rerun(replace(made, **{what: tuple(changed)})).same
    assert not rerun(replace(made, finished_ms=0.5)).same


def test_what_no_seed_decides_is_not_compared() -> None:
    sim = simulation(compute=Measured(), secrets_seed=None, contents=True)
    found = rerun(sim.sign().trace)
    assert found.same
    assert [text.split(":")[0] for text in found.open] == ["times", "what messages say"]
    seeded = simulation(contents=True).sign().trace
    changed = {**seeded.contents, 0: {"sealed": False, "fields": {}}}
    assert rerun(replace(seeded, contents=changed)).differences == ("messages say something else",)


def test_a_trace_that_cannot_run_again_says_so() -> None:
    with pytest.raises(UsageError, match="does not say how it came about"):
        rerun(replace(simulation().sign().trace, scenario=""))
    sim = simulation(corrupt={1: lambda party: party})
    with pytest.raises(UsageError, match="somebody cheated"):
        rerun(sim.sign().trace)


def test_all_messages_as_json() -> None:
    sim = Simulation(contents=True, secrets_seed="json")
    sim.generate("secp256k1")
    made = sim.sign(signers=(1, 3)).trace
    whole = json.loads(made.to_json(contents=True))
    assert whole["contents"] == MARK
    assert Scenario.loads(whole["scenario"]) == sim.scenario
    commit = next(m for m in whole["messages"] if m["kind"] == "Commit")
    assert len(bytes.fromhex(commit["content"]["fields"]["commitment"])) == 32
    sealed = next(m for m in whole["messages"] if m["kind"] == "Respond")
    assert sealed["content"]["sealed"]
    assert "fields" in sealed["content"]
    assert all("content" in message for message in whole["messages"])


def test_without_being_asked_a_trace_keeps_nothing() -> None:
    made = simulation().sign().trace
    assert made.contents == {}
    assert json.loads(made.to_json())["contents"] == ""
    with pytest.raises(UsageError, match="contents=True"):
        made.to_json(contents=True)
    kept = simulation(contents=True).sign().trace
    assert 'content"' not in kept.to_json()
    some = kept.contents[0]["fields"]
    assert all(str(value) not in repr(kept) for value in some.values())


def test_mermaid() -> None:
    text = trace("two-party signature").mermaid()
    lines = text.splitlines()
    assert lines[0] == "sequenceDiagram"
    assert sum("->>" in line for line in lines) == 8
    assert lines[-1].startswith("    Note over P")
    last_first = trace("two-party signature").messages[::-1]
    assert replace(trace("two-party signature"), messages=last_first).mermaid() == text
    lost = trace("two-party signature")
    lost = replace(lost, messages=(replace(lost.messages[0], received_ms=None, fate="lost"),))
    assert "-xP" in lost.mermaid()
    named = replace(lost, messages=(replace(lost.messages[0], kind="A\n    P1->>P2: B;"),))
    assert len(named.mermaid().splitlines()) == len(lost.mermaid().splitlines())
    assert "->>" not in named.mermaid()


def test_a_file_with_secrets_is_the_owners_and_a_result_prints_in_a_line(tmp_path: Path) -> None:
    sim = simulation(contents=True)
    result = sim.sign()
    path = tmp_path / "trace.jsonl"
    path.touch(mode=0o644)
    result.trace.save_jsonl(path, contents=True)
    assert path.stat().st_mode & 0o777 == 0o600
    for save in (result.trace.save_jsonl, result.trace.scenario.save):  # type: ignore[attr-defined]
        path.chmod(0o644)
        save(path)  # with the seed of the secrets
        assert path.stat().st_mode & 0o777 == 0o600
        assert SECRET_MARK in path.read_text()
    assert len(repr(result)) < 200
    assert len(repr(sim)) < 200
