"""The bench command produces every figure that the project promises."""

import ast
import inspect
import itertools
import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import fields, is_dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mpcsim.bench import (
    capacity,
    notebooks,
    protocols,
    realtime,
    report,
    rest,
    service,
    simulator,
    starting,
)
from mpcsim.bench.defaults import SECTIONS
from mpcsim.bench.protocols import Figures, call_figures, round_trips, signing_parties
from mpcsim.bench.report import TARGETS
from mpcsim.bench.simulator import engine_figures, key_generation_graph, samples_per_s, table
from mpcsim.bench.starting import BROKEN_OFF, fill
from mpcsim.cli import main
from mpcsim.errors import UsageError
from mpcsim.protocols.sample_keys import keys as sample_keys
from mpcsim.service.operations import open_gateway
from mpcsim.sim import Network
from tests.helpers.reviewed import check_reviewed
from tests.helpers.tiers import fast_few

PROMISED = {
    *("scalar_mult_us", "base_mult_us", "share_secp256k1_bytes", "signing_memory_mb"),
    *("sign_secp256k1_2p_ms", "sign_secp256k1_2p_party_ms", "sign_secp256k1_2p_xi512_ms"),
    *("sign_secp256k1_3p_ms", "presign_secp256k1_2p_per_signature_ms"),
    *("sign_presigned_secp256k1_2p_ms", "sign_ed25519_2p_ms", "keygen_secp256k1_ms"),
    *("keygen_ed25519_ms", "reshare_secp256k1_ms", "sign_secp256k1_2p_calls"),
    *("sign_presigned_secp256k1_2p_calls", "sign_ed25519_2p_calls"),
}


def told(value: Any) -> str:
    """A setting, without the fields that are as by default."""
    match value:
        case Network():
            return f"{value.name!r} {told(value.connection)}"
        case tuple() if not hasattr(value, "_fields"):
            return "".join(f"\n  {told(each)}" for each in value)
        case _ if is_dataclass(value):
            given = [(f, getattr(value, f.name)) for f in fields(value)]
            shown = [f"{f.name}={told(each)}" for f, each in given if each != f.default]
            return f"{type(value).__name__}({', '.join(shown)})"
    return repr(value)


RUN = (capacity, notebooks, protocols, realtime, report, rest, service, simulator, starting)


def settings() -> Iterator[str]:
    """What each benchmark runs: its module's own constants."""
    for module in RUN:
        for node in ast.parse(inspect.getsource(module)).body:
            if isinstance(node, ast.AnnAssign) and (name := ast.unparse(node.target))[0] != "_":
                value = getattr(module, name)
                shown = str(value) if isinstance(value, Network) else told(value)
                if "object at" not in shown:
                    yield f"{module.__name__}.{name}: {shown}"
    yield f"mpcsim.bench.simulator.default_network(): {simulator.default_network()}"


def test_what_is_run_is_as_written_down():
    check_reviewed(settings(), Path(__file__).with_name("settings.txt"))


def test_one_run_is_enough(monkeypatch, capsys):
    monkeypatch.setattr("mpcsim.bench.sections", lambda *arguments: iter(()))
    assert main(["bench", "--only", "protocols", "--runs", "1"]) == 0
    assert main(["bench", "--only", "protocols", "--runs", "0"]) == 2
    assert "--runs must be at least 1" in capsys.readouterr().err


def test_a_partys_time_is_that_of_its_start_and_its_messages(monkeypatch):
    clock = itertools.count(0, 5)
    monkeypatch.setattr(protocols.time, "process_time_ns", lambda: next(clock))
    party = protocols.TimedParty(SimpleNamespace(start=list, receive=lambda sender, data: []))
    party.start()
    assert party.cpu_ns == 5
    party.receive(2, b"")
    assert party.cpu_ns == 10


@pytest.mark.soak
def test_bench_writes_its_figures(tmp_path, capsys):
    file = tmp_path / "bench.json"
    assert main(["bench", "--only", "protocols", "--runs", "1", "--json", str(file)]) == 0
    figures = json.loads(file.read_text())
    assert figures.pop("about")["runs"] == 1
    assert figures.keys() >= PROMISED | TARGETS.keys()
    assert all(isinstance(value, int | float) for value in figures.values())
    # Not timings: these follow from the protocols.
    assert figures["sign_secp256k1_2p_round_trips"] == 2
    assert figures["sign_ed25519_2p_round_trips"] == 1
    assert figures["sign_secp256k1_2p_delays"] == 4
    assert figures["sign_presigned_secp256k1_2p_round_trips"] == 1
    assert figures["sign_presigned_secp256k1_2p_messages"] == 1
    assert figures["sign_presigned_secp256k1_2p_bytes"] <= 250
    assert figures["keygen_secp256k1_delays"] == 3
    assert figures["share_secp256k1_bytes"] < 20_000
    printed = capsys.readouterr().out
    assert "sign_secp256k1_2p" in printed
    assert "where the time goes" in printed


@pytest.mark.parametrize("case", fast_few([*rest.TARGETS, *rest.TARGET_MS], 2))
def test_a_rest_call_takes_the_round_trips_that_are_promised(case):
    """In virtual time: no timing, but what follows from the messages."""
    (found,) = [each for each in rest.CASES if each.name == case]
    drawn = rest.DRAWS if case in rest.TARGET_MS else 1
    assert rest.reached(case, rest.call_ms(found, "virtual", drawn))


@pytest.mark.parametrize(("name", "most"), rest.TARGET_MS.items())
def test_a_target_is_reached_by_what_is_as_slow(name, most):
    assert (rest.reached(name, most), rest.reached(name, most + 0.1)) == (True, False)


def test_a_real_call_is_shown_beside_the_virtual_one():
    virtual = {f"{case.name}_virtual_ms": 1000.0 for case in rest.CASES}
    lines = rest.table(virtual | {"secp256k1_real_ms": 1037.2}).splitlines()
    assert len(lines) == 1 + len(rest.CASES)
    (full,) = [line for line in lines if line.startswith("secp256k1  ")]
    assert full.split() == ["secp256k1", "1000.0", "1037", "5.0"]
    assert sum("NOT reached" in line for line in lines) == len(rest.TARGETS) + len(rest.TARGET_MS)
    ratios = {"x_real_ms": 6.5, "x_virtual_ms": 6.25, "x_ratio": 1.04, "x_best_ratio": 1.0}
    *_, line = realtime.table(ratios).splitlines()
    assert line.split() == ["x", "6.50", "6.25", "1.040", "1.000"]


@pytest.mark.parametrize(
    ("made", "targets"),
    [
        (service.table, {name: bound for name, (bound, _) in service.TARGETS.items()}),
        (starting.table, starting.TARGETS_S),
        (lambda flat: report.render(flat, {"sign_ed25519_2p": Figures(2, 1, 3, 4, 5)}), TARGETS),
    ],
)
def test_targets_are_reached_by_as_much_as_they_say(monkeypatch, made, targets):
    monkeypatch.setattr(report, "step_times", lambda runs: {"sign_ed25519_2p": {"commit": 0.5}})
    others = {"ed25519_scalar_mult_us": 50.0, "sign_ed25519_2p_curve_floor_ms": 0.25}
    shown = {name: f"{value:.2f}".removesuffix(".00") for name, value in targets.items()}
    for off in (0.0, 0.01, -0.01):
        said = made(others | {name: value + off for name, value in targets.items()})
        lines = [line for line in said.splitlines() if " target " in line]
        assert len(lines) == len(shown)
        upper = {name: name not in service.TARGETS or service.TARGETS[name][1] for name in targets}
        for line in lines:
            missed = off > 0 if upper[line.split()[0]] else off < 0
            assert line.endswith(": NOT reached" if missed else ": reached"), line
            assert f"{targets[line.split()[0]]:g}: " in line
    if made not in (service.table, starting.table):
        assert "sign_ed25519_2p                   2.00        1.00          40" in said
        assert "   0.500 ms  commit" in said


@pytest.mark.parametrize(
    ("twin", "verdict"), [(105.0, "within 5%"), (94.0, "NOT within 5%"), (95.1, "within 5%")]
)
def test_a_twin_may_be_off_by_its_bound_or_what_repeats_scatter(twin, verdict):
    assert verdict in capacity.Comparison("calls", (100.0,), twin, 0.05).row()
    scattered = capacity.Comparison("calls", (90.0, 100.0, 110.0), twin, 0.05)
    assert scattered.scatter == pytest.approx(0.1)
    assert "   within 20%" in scattered.row()


GIVEN: dict[str, tuple[tuple[float, ...], ...]] = {
    **dict.fromkeys(("protocols", "simulator"), ((1,), (60,))),
    **dict.fromkeys(("accuracy", "starting"), ((1,), (5,))),
    "rest": ((1,), (3,)),
    "service": ((167,), (10_000,)),
    "notebooks": ((), ()),
    "capacity": ((2, 5.0), (5, 30.0)),
}
"""How much is measured with --runs 1, and without."""


@pytest.mark.parametrize("chosen", SECTIONS)
def test_what_is_chosen_alone_is_measured(monkeypatch, chosen):
    asked = []

    def of(name, found):
        return lambda *given, **named: asked.append((name, *given, *named.values())) or found

    monkeypatch.setattr(report, "all_figures", of("protocols", ({"x": 1.0}, {})))
    monkeypatch.setattr(report, "render", lambda *_: "x")
    monkeypatch.setattr(realtime, "accuracy_figures", of("accuracy", {"x": 1.0}))
    monkeypatch.setattr(capacity, "capacity_figures", of("capacity", ("x", {"x": 1.0})))
    for module in (simulator, rest, service, starting, notebooks):
        name = module.__name__.rpartition(".")[2]
        monkeypatch.setattr(module, f"{name.removesuffix('s')}_figures", of(name, {"x": 1.0}))
        monkeypatch.setattr(module, "table", lambda found: "x")
    for runs in ((1,), ()):
        ((_, found),) = report.sections([chosen], *runs)
        assert found == {"x": 1.0}
    assert asked == [(chosen, *given) for given in GIVEN[chosen]]


def test_notebooks_are_timed_in_their_order(tmp_path, monkeypatch):
    for name in ("02_second", "01_first"):
        (tmp_path / f"{name}.ipynb").touch()
    client = SimpleNamespace(execute=lambda env: None)
    monkeypatch.setattr("nbformat.read", lambda *_, **__: None)
    monkeypatch.setattr("nbclient.NotebookClient", lambda *_, **__: client)
    assert [*notebooks.notebook_figures(tmp_path)] == [
        *("notebook_01_first_s", "notebook_02_second_s")
    ]


def test_round_trips_are_counted():
    trips = {"secp256k1": 2, "ed25519": 1}
    for curve, count in trips.items():
        assert round_trips(signing_parties(sample_keys(curve), (1, 2))) == count


def test_a_signature_keeps_to_its_calls():
    """A count, not a timing: it is the same on every machine with this version of Python."""
    figures = call_figures()
    assert figures["sign_secp256k1_2p_calls"] <= TARGETS["sign_secp256k1_2p_calls"] == 5000
    assert figures["sign_ed25519_2p_calls"] <= 1500
    assert figures["sign_presigned_secp256k1_2p_calls"] <= 1000


def test_simulator_figures():
    figures = engine_figures(1)
    assert set(figures) == {"des_us_per_message", "des_overhead_percent"}
    graph, network = key_generation_graph(4)
    assert len(graph.messages) == 3 * 12
    assert samples_per_s(graph, network, 100) > 0
    assert "des_us_per_message" in table(figures)


def test_a_filled_gateway(tmp_path):
    """What the starts are measured on: keys in all three stores, and a log that a crash leaves."""
    clean, crashed = tmp_path / "clean", tmp_path / "crashed"
    fill(clean, crashed, 3)
    assert not list(clean.rglob("*-wal"))
    assert len([file for file in crashed.rglob("*-wal") if file.stat().st_size]) == 3
    for folder in (clean, crashed):
        with closing(open_gateway(folder)) as gateway:
            registry = gateway.gateway.registry
            users = [registry.user_by_name(f"user-{n}") for n in range(3 + BROKEN_OFF)]
            for n, user in enumerate(users):
                held = [registry.key(user.user_id, "secp256k1")]
                held += [
                    link.node.store.active_share(user.user_id, "secp256k1")
                    for link in gateway.links.values()
                ]
                if n < 3:
                    assert len({share.key_id for share in held}) == 1
                else:
                    assert held == [None, None, None]


def test_notebooks_are_looked_for_and_a_slow_one_is_told(tmp_path):
    assert "NOT reached" in notebooks.table({"notebook_slow_s": 31.0})
    with pytest.raises(UsageError, match="no notebooks in"):
        notebooks.notebook_figures(tmp_path)
