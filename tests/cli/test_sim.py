"""``mpcsim sim`` and ``mpcsim trace``: scenarios run and traces read on the command line."""

import csv
import json
import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from mpcsim import Scenario, __version__
from mpcsim.cli import main
from mpcsim.cli.simulate.compare import MOST_KEPT, _identical, replay_scenario, signing_call
from mpcsim.errors import UsageError
from mpcsim.sim import Measured, signing_point
from mpcsim.sim.run import duplicate
from mpcsim.sim.tasks import Generate, Presign, Recover, Sign, SignPresigned

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
    assert said.startswith("hub: 2 of 2 tasks completed valid\n  scope protocol\n")
    assert "\n  generate ed25519  completed valid" in said
    _, head, _, signed = said.partition("Replayed:")[2].splitlines()[-6:-2]
    assert head.split()[:4] == ["time", "n", "mean", "ms"]
    p50, p95, p99 = (float(cell.rstrip("*")) for cell in re.split("  +", signed.strip())[3:8:2])
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
    ("run", "faults", "status", "said"),
    [
        ('["generate", "sign", "sign"]', "", 0, "generate ed25519  completed"),
        ('["generate", "sign"]', LOST, 1, "generate ed25519  completed"),  # without its signature
        ('["generate", "sign", "recover"]', LOST, 1, "generate ed25519  completed"),
        ('["generate", "sign"]', LOST.replace("itments", "it"), 1, "waiting in round"),
    ],
)
def test_one_task_that_fails_is_a_status_of_1(
    tmp_path: Path, capsys, run, faults, status, said
) -> None:
    path = tmp_path / "lost.toml"
    tasks = run.replace('"generate"', '{ task = "generate", curve = "ed25519" }')
    path.write_text(f"run = {tasks}\n{faults}")
    assert main(["sim", str(path)]) == status
    out, err = capsys.readouterr()
    assert said in out
    assert ("stalled" in out) == bool(status)
    # Whoever comes first is told before it that rounds are compiled.
    assert err.endswith("no key: 1 task left out\n") if "round" in said else not err


def test_copies_that_a_fault_makes_are_not_sent(tmp_path: Path, capsys) -> None:
    path = tmp_path / "copied.toml"
    copied = LOST.replace("drop", "duplicate")
    path.write_text(f'run = [{{ task = "generate", curve = "ed25519" }}, "sign"]\n{copied}')
    assert main(["sim", str(path), "--json"]) == 0
    signed = json.loads(capsys.readouterr().out)["tasks"][1]
    assert (signed["messages"], signed["bytes"]) == (4, 608)
    point = signing_point(seed=1, curve="ed25519", faults=(duplicate("Commitments"),))
    assert (point["messages"], point["bytes"]) == (4, 608)


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
    assert main(["compare", scenario, trace, "--samples=500"]) == 0
    assert f"  {trace}: exactly the times of the first: " in capsys.readouterr().out
    picture = tmp_path / "new" / "tails.png"
    other = str(tmp_path / "farther.toml")
    Path(other).write_text(THREE_OF_FIVE.replace("20", "40"))
    assert main(["compare", scenario, other, "--samples=500", f"--figure={picture}"]) == 0
    said = capsys.readouterr().out
    assert said.startswith(f"shortest median: {scenario}, p50 ")
    assert "exactly the times" not in said
    assert said.splitlines()[-1].split(other)[1].split()[0].startswith("+8")
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert b"mpcsim compare --samples=500" in picture.read_bytes()


def test_rows_as_a_table(scenario: str, tmp_path: Path) -> None:
    path = tmp_path / "new" / "rows.csv"
    lossy = tmp_path / "lossy.toml"
    lossy.write_text(f"{THREE_OF_FIVE}loss = 0.01")
    assert main(["compare", scenario, str(lossy), "--samples=500", f"--table={path}"]) == 0
    with path.open(newline="") as file:
        row, second = csv.DictReader(file)
    assert (row["losses.gateway → site 1"], second["losses.gateway → site 1"]) == ("", "1.00%")
    assert float(row["low_ms.p50"]) < float(row["p50_ms"]) < float(row["high_ms.p50"])
    assert row["high_ms.p99.9"] == ""
    assert (row["seed"], row["compute"], row["version"]) == ("0", "free", __version__)


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("sim", "[[faults]]"),
        ("network show", "[links.client-gateway]"),
        ("network fit", "seoul,tokyo,virginia"),
        ("capacity", "[workload.arrivals]"),
        ("calibrate", '"format": "mpcsim costs 3"'),
    ],
)
def test_a_reference_shows_the_format_of_files(capsys, command, said) -> None:
    assert main([*command.split(), "--reference"]) == 0
    assert said in capsys.readouterr().out


def test_scenarios_with_the_times_of_the_first_are_named() -> None:
    differences = {"a": (0.0, 0.0), "b": (0.0, 1.0), "c": (1.0, 0.0), "d": (0.0, 0.0)}
    rows = [
        {"name": name, "difference_ms": {"mean": mean, "p50": p50}}
        for name, (mean, p50) in differences.items()
    ]
    assert _identical([{"name": "first"}, *rows]) == ["a", "d"]


@pytest.mark.parametrize(("samples", "kept"), [(MOST_KEPT, True), (MOST_KEPT + 1, False)])
def test_so_many_samples_are_kept_and_no_more(samples: int, kept: bool) -> None:
    what, asked = Scenario(seed=3), []

    def replay(*arguments, **named):
        asked.append((kept, arguments, named))

    def distribution(*arguments, **named):
        asked.append((not kept, arguments, named))

    graph = SimpleNamespace(replay=replay, distribution=distribution)
    replay_scenario(graph, what, SimpleNamespace(samples=samples, approximate=True))
    assert asked == [(True, (what.network, samples), {"seed": 3, "approximate": True})]


@pytest.mark.parametrize(
    ("what", "refused"),
    [
        (Scenario(), None),
        (Scenario(run=(Generate(), Presign(), SignPresigned(signers=(1, 3)))), None),
        (Scenario(run=(Generate(scheme="ot/80/4"), Sign())), None),
        (Scenario(run=(Generate(scheme="ot/128"), Sign())), "unknown scheme of the service"),
        (Scenario(run=(Generate(), Recover())), "no signature"),
        (Scenario(run=(Generate(threshold=3), Sign())), "2 of 3, not 3"),
        (Scenario(compute=Measured()), "compute and clock have no effect"),
        (Scenario(run=(Generate(), Sign(path=(0, 7)))), "path has no effect"),
        (Scenario(run=(Generate(), Sign(signers=(2, 3)))), "the caller (1) signs with"),
        (Scenario(run=(Generate(), SignPresigned(finisher=2))), "the caller (1) finishes"),
    ],
)
def test_all_of_a_file_acts_on_the_call_or_is_refused(what, refused, monkeypatch) -> None:
    recorded = []
    monkeypatch.setattr("node.calls.signing_call", lambda *a, **named: recorded.append((a, named)))
    if refused:
        with pytest.raises(UsageError, match=re.escape(refused)):
            signing_call(what)
        return
    signing_call(what)
    (((_, *signer), named),) = recorded
    assert signer == (["institution"] if what.run[-1].signers else [])
    assert named["presigned"] == isinstance(what.run[-1], SignPresigned)
    assert named["ot_extension_k"] == (4 if what.run[0].scheme else 1)
