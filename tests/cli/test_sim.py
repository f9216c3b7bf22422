"""``mpcsim sim`` and ``mpcsim trace``: scenarios run and traces read on the command line."""

import json
import re
from pathlib import Path

import pytest

from mpcsim import Scenario
from mpcsim.cli import main

THREE_OF_FIVE = """
run = [{ task = "generate", curve = "ed25519", threshold = 3 }, "sign"]
secrets_seed = "cli"
[hub]
parties = 5
latency = { kind = "log-normal", median_ms = 20, sigma = 0.1 }
"""


@pytest.fixture
def scenario(tmp_path: Path) -> str:
    path = tmp_path / "wallet.toml"
    path.write_text(THREE_OF_FIVE)
    return str(path)


def test_a_scenario_is_run_and_replayed(scenario: str, tmp_path: Path, capsys) -> None:
    traces = tmp_path / "traces"
    assert main(["sim", scenario, "--samples=500", f"--traces={traces}"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("hub, scope protocol\n")
    head, generated, signed = said.splitlines()[1:4]
    assert head.split()[-3:] == ["ms", "p99", "ms"]
    assert generated.startswith("  generate ed25519  completed valid")
    p50, p95, p99 = map(float, signed.split()[-3:])
    assert 80 < p50 < p95 < p99
    names = [path.name for path in sorted(traces.iterdir())]
    assert names == ["1-generate-ed25519.jsonl", "2-sign-ed25519.jsonl"]
    assert f"written: {traces / names[1]}" in said


def test_the_same_as_json(scenario: str, capsys) -> None:
    assert main(["sim", scenario, "--samples=500", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [task["task"] for task in found["tasks"]] == ["generate ed25519", "sign ed25519"]
    signed = found["tasks"][1]
    assert signed["sequential_delays"] == 2
    assert signed["replay"]["samples"] == 500
    assert signed["replay"]["p50_ms"] < signed["replay"]["p99_ms"]


LOST = '[[faults]]\nfault = "drop"\nkind = "Commitments"\n'


@pytest.mark.parametrize(
    ("run", "faults", "status"),
    [
        ('["generate", "sign", "sign"]', "", 0),
        ('["generate", "sign"]', LOST, 1),  # the key is there, its signature is not
        ('["generate", "sign", "recover"]', LOST, 1),
    ],
)
def test_one_task_that_fails_is_a_status_of_1(tmp_path: Path, capsys, run, faults, status) -> None:
    path = tmp_path / "lost.toml"
    tasks = run.replace('"generate"', '{ task = "generate", curve = "ed25519" }')
    path.write_text(f"run = {tasks}\n{faults}")
    assert main(["sim", str(path)]) == status
    out, err = capsys.readouterr()
    assert "generate ed25519  completed" in out
    assert ("stalled" in out) == bool(status)
    assert not err


def test_a_trace_in_every_form(scenario: str, tmp_path: Path, capsys) -> None:
    assert main(["sim", scenario, f"--traces={tmp_path}"]) == 0
    file = str(tmp_path / "2-sign-ed25519.jsonl")
    capsys.readouterr()

    def said(*options: str, status: int = 0) -> str:
        assert main(["trace", file, *options]) == status
        return capsys.readouterr().out

    assert "critical path of sign ed25519" in said()
    assert said("--mermaid").startswith("sequenceDiagram\n")
    assert json.loads(said("--json"))["name"] == "sign ed25519"
    assert Scenario.loads(said("--scenario")) == Scenario.loads(THREE_OF_FIVE)
    assert said("--rerun") == "sign ed25519, run again: the same\n"
    assert said(f"--perfetto={tmp_path / 'p.json'}") == f"written: {tmp_path / 'p.json'}\n"
    assert json.loads((tmp_path / "p.json").read_text())["traceEvents"]
    text = Path(file).read_text()
    Path(file).write_text(re.sub(r'"seed":\d+', '"seed":9', text, count=1))
    assert "NOT the same" in said("--rerun", status=1)
    Path(file).write_text(text.replace('"sign ed25519"', '"sign \\u001b[31m"', 1))
    assert "\x1b" not in said()
    Path(file).write_text(text[:-5])
    assert main(["trace", file]) == 2
    assert "cut off before its end" in capsys.readouterr().err


def test_scenarios_beside_each_other(scenario: str, tmp_path: Path, capsys) -> None:
    assert main(["sim", scenario, f"--traces={tmp_path}"]) == 0
    trace = str(tmp_path / "2-sign-ed25519.jsonl")
    capsys.readouterr()
    assert main(["compare", scenario, trace, "--samples=500", "--json"]) == 0
    first, second = json.loads(capsys.readouterr().out)
    assert first["name"] == scenario
    assert set(second["difference_ms"].values()) == {0.0, None}
    picture = tmp_path / "tails.png"
    other = str(tmp_path / "farther.toml")
    Path(other).write_text(THREE_OF_FIVE.replace("20", "40"))
    assert main(["compare", scenario, other, "--samples=500", f"--figure={picture}"]) == 0
    head, *_, last = capsys.readouterr().out.splitlines()[:3]
    assert "p99 ms" in head
    assert last.split()[-2].startswith("+8")
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_what_failed_is_not_compared(tmp_path: Path, capsys) -> None:
    path = tmp_path / "lost.toml"
    path.write_text('[[faults]]\nfault = "drop"\nkind = "Commit"\n')
    assert main(["compare", str(path)]) == 2
    assert "stalled" in capsys.readouterr().err
