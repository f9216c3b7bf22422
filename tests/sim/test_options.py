"""Every option of engine, replay and their commands decides something, or is refused; none can be
forgotten here."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args, get_type_hints

import click
import pytest

from mpcsim.cli import main, program
from mpcsim.errors import UsageError
from mpcsim.ids import PartyId
from mpcsim.sim import Connection, Declared, Link, Measured, Network, Policy, Simulation, Site
from mpcsim.sim.experiments import experiments
from mpcsim.sim.network import GilbertElliott, TimedGilbertElliott
from mpcsim.sim.network.draws import SeededDraws
from mpcsim.sim.network.latency import Uniform
from mpcsim.sim.replay import DrawTable, GraphMessage, MessageGraph, Step, record
from mpcsim.sim.run import drop
from mpcsim.sim.run.engine import VirtualRun
from tests.sim.test_replay import stand_ins
from tests.vectors.network import make

ONE, TWO = PartyId(1), PartyId(2)
ELSEWHERE = object()
"""Another test shows it."""


class Refused(str):
    """What is said of a value that is refused."""


def shown(tables: dict[Any, dict[str, Any]]) -> list[tuple[Any, str]]:
    """Return the rows of all tables that are shown here, by table and name."""
    return [
        (of, name)
        for of, values in tables.items()
        for name, value in values.items()
        if value is not ELSEWHERE
    ]


# ------------------------------------------------------------------ links and connections

GRAPH = MessageGraph(
    "toy",
    (
        Step(ONE, "toy", 1, "ask", (), (0, 1, 2)),
        Step(TWO, "toy", 1, "answer", (0, 1, 2), (3,)),
        Step(ONE, "toy", 2, "wait", (3,), ()),
        Step(ONE, "toy", 3, "again", (), (4,)),
        Step(TWO, "toy", 2, "hear", (4,), ()),
    ),
    (
        *(GraphMessage("Q", ONE, TWO, 90_000, 0) for _ in range(3)),
        GraphMessage("A", TWO, ONE, 90_000, 1),
        GraphMessage("Q", ONE, TWO, 90_000, 3),
    ),
)
COSTS = Declared(
    {("toy", step.name): 3_000.0 if step.name == "wait" else 1.0 for step in GRAPH.steps}
)
SEGMENTS = Connection(cold=True, pool=3, resumption=True)


def over(link: Any = None, site: Any = None, connection: Connection = SEGMENTS) -> Network:
    sites = [Site("a"), Site("b"), replace(Site("x"), **(site or {}))]
    near = {"latency": Uniform(5, 9), "mbit_per_s": 50.0, "loss": 0.02, "queue_bytes": 2e4}
    links = (Link("a", "x", **{**near, **(link or {})}), Link("x", "b", 3.0))
    return Network({s.name: s for s in sites}, links, {ONE: "a", TWO: "b"}, connection)


def engine(network: Network) -> str:
    return str(VirtualRun(stand_ins(GRAPH), network, compute=COSTS, seed=1).run().finished_ms)


def replayed(network: Network) -> str:
    return str(GRAPH.replay(network, 40, costs=COSTS, seed=1).finished_ms.tolist())


NETWORKS: dict[Callable[..., Any], dict[str, Any]] = {
    Link: {
        **dict.fromkeys(("a", "b"), ELSEWHERE),
        "latency": Uniform(9, 10),
        "mbit_per_s": 20.0,
        "loss": GilbertElliott.of(0.1, 4),
        "queue_bytes": math.inf,
        "back_latency": Uniform(20, 30),
        "back_mbit_per_s": 1.0,
        "back_loss": TimedGilbertElliott.of(0.2, 100.0),
        "back_queue_bytes": 2_000.0,
    },
    Site: {"name": ELSEWHERE, "cpu_factor": ELSEWHERE, "cores": ELSEWHERE, "service_ms": 5.0},
    Connection: {
        "cold": False,
        "tls_round_trips": 0,
        "overhead_bytes": 30_000,
        "initial_window": 2,
        "slow_start_after_idle": False,
        "forwarding": "stream",
        "profile": "ns3",
        "congestion": "reno",
        "http": "2",
        "pool": 1,
        "resumption": False,
        "early_data": True,
    },
}


@pytest.mark.parametrize("run", [engine, replayed])
@pytest.mark.parametrize(("of", "name"), shown(NETWORKS))
def test_networks(of: type, name: str, run: Callable[[Network], str]) -> None:
    value = NETWORKS[of][name]
    if of is Connection:
        changed = over(connection=replace(SEGMENTS, **{name: value}))
    else:
        changed = over(**{of.__name__.lower(): {name: value}})
    if run is replayed and name == "forwarding":
        with pytest.raises(UsageError, match="forwarding stream cannot be replayed"):
            run(changed)
        return
    assert run(changed) != run(over())


def test_a_machine_of_two_parties() -> None:
    """Their work takes as long as the machine is slow, and takes turns on one core."""

    def took(**machine: Any) -> float:
        network = Network({"a": Site("a", **machine)}, (), {ONE: "a", TWO: "a"})
        costs = Declared({("toy", step.name): 7.0 for step in GRAPH.steps})
        alone = replace(
            GRAPH, steps=tuple(replace(s, needs=(), sends=()) for s in GRAPH.steps), messages=()
        )
        return VirtualRun(stand_ins(alone), network, compute=costs).run().finished_ms

    assert (took(cores=2), took(cores=1), took(cores=2, cpu_factor=2.0)) == (21.0, 35.0, 42.0)


# ------------------------------------------------------------------ runs and replays

STAR = Network.star(Uniform(5, 9), 5.0, 7.0, loss=0.1)
LOST = (drop(),)


def simulated(**options: Any) -> str:
    more = {"network": STAR, "seed": 1, "secrets_seed": "options", **options}
    sim = Simulation(**more)
    made = sim.generate("ed25519")
    results = [made, sim.sign()] if made.ok else [made]
    traces = [trace for result in results for trace in result.attempts]
    keys = {i: share.public_key for i, share in sim.shares.items()}
    return str(
        [(t.finished_ms, t.verdict, t.compute, t.clock, len(t.contents)) for t in traces]
    ) + str(keys)


def virtual(**options: Any) -> str:
    more = {"parties": stand_ins(GRAPH), "network": over(), "seed": 1, **options}
    trace = VirtualRun(**more).run()
    return f"{trace.name} {trace.finished_ms} {trace.verdict} {len(trace.messages)}"


def replay(**options: Any) -> str:
    more = {"network": over(), "samples": 30, "seed": 1, **options}
    found = GRAPH.replay(**more)
    approximation = found.approximation is not None and found.approximation.is_accepted
    times = found.finished_ms.tolist()
    return f"{times} {len(found.parties_ms)} {found.explanation is None} {approximation}"


def distribution(**options: Any) -> str:
    found = GRAPH.distribution(**{"network": over(), "samples": 30, "seed": 1, **options})
    approximation = found.approximation is not None and found.approximation.is_accepted
    summary = f"{found.samples} {found.mean_ms} {len(found.parties)}"
    return f"{summary} {found.explanation is None} {approximation}"


def point(of: Callable[..., Any]) -> Callable[..., str]:
    def run(**options: Any) -> str:
        more = {"seed": 1, "network": "seoul", "institution": "frankfurt", **options}
        if of is experiments.replay_point:
            more = {"graph": GRAPH_OF_A_SIGNATURE, "samples": 20, **more}
        else:
            more = {"curve": "ed25519", "signers": (1, 3), **more}
        return str(of(**more))

    return run


def recorded() -> MessageGraph:
    sim = Simulation(Network.star(), secrets_seed="options")
    sim.generate("ed25519")
    return record(sim.sign(signers=(1, 3)).trace)


GRAPH_OF_A_SIGNATURE = recorded()
SLOW = Declared({(step.protocol, step.name): 5.0 for step in GRAPH_OF_A_SIGNATURE.steps})
REGION = {
    "seed": 2,
    "network": "tokyo",
    "operator": ELSEWHERE,
    "institution": "virginia",
    "gateway": "frankfurt",
    "access": "lte",
    "loss": 0.9,
    "cold": True,
}
REPLAYED: dict[str, Any] = {
    "self": ELSEWHERE,
    "network": over({"latency": 90.0}),
    "samples": 31,
    "seed": 2,
    "costs": COSTS,
    "parties": True,
    "explain": True,
    "approximate": ELSEWHERE,
    "tolerance": (0.2, Refused("approximate, which is not asked")),
}
ENTRIES: dict[str, tuple[Callable[..., Any], Callable[..., str], dict[str, Any]]] = {
    "Simulation": (
        Simulation,
        simulated,
        {
            "network": Network.star(50.0),
            "seed": 2,
            "compute": Measured(),
            "policy": Policy(timeout_ms=1.0),
            "faults": LOST,
            "corrupt": ELSEWHERE,
            "secrets_seed": "others",
            "listener": ELSEWHERE,
            "draws": SeededDraws(8),
            "clock": "real",
            "contents": True,
            "shares": ELSEWHERE,
            "presignatures": ELSEWHERE,
        },
    ),
    "VirtualRun": (
        VirtualRun,
        virtual,
        {
            "parties": [stand_ins(GRAPH)[0]],
            "network": over({"latency": 90.0}),
            "seed": 2,
            "compute": COSTS,
            "faults": LOST,
            "deadline_ms": 3.0,
            "resend_ms": ELSEWHERE,
            "draws": SeededDraws(8),
            "validate": lambda results: False,
            "name": "other",
            "contents": ELSEWHERE,
        },
    ),
    "replay": (
        MessageGraph.replay,
        replay,
        {**REPLAYED, "draws": DrawTable(30, 9)},
    ),
    "distribution": (
        MessageGraph.distribution,
        distribution,
        {**REPLAYED, "executor": ELSEWHERE, "progress": ELSEWHERE},
    ),
    "signing_point": (
        experiments.signing_point,
        point(experiments.signing_point),
        {
            **REGION,
            "curve": "secp256k1",
            "signers": (1, 2),
            "threshold": ELSEWHERE,
            "scheme": ELSEWHERE,  # of ECDSA
            "compute": SLOW,
            "timeout_ms": 1.0,
            "attempts": ELSEWHERE,
            "resend_ms": ELSEWHERE,
            "faults": LOST,
        },
    ),
    "replay_point": (
        experiments.replay_point,
        point(experiments.replay_point),
        {**REGION, "graph": ELSEWHERE, "samples": 21, "approximate": ELSEWHERE},
    ),
}


@pytest.mark.parametrize(
    ("entry", "name"), shown({entry: values for entry, (_, _, values) in ENTRIES.items()})
)
def test_runs(entry: str, name: str) -> None:
    _, run, values = ENTRIES[entry]
    value = values[name]
    if isinstance(value, tuple) and isinstance(value[-1], Refused):
        with pytest.raises(UsageError, match=value[1]):
            run(**{name: value[0]})
        return
    assert run(**{name: value}) != run()


# ------------------------------------------------------------------ commands

PAIRS = str(Path(make.__file__).parent / "pairs.csv")
FILE = str(Path(make.__file__).parent / "network.toml")
"""Arguments with which a command runs, and of each option others that change what it says or
writes, or what is said of them."""
COMMANDS: dict[str, tuple[list[str], dict[str, Any]]] = {
    "sim": (
        ["sim", "seoul"],
        {
            "scenario": ELSEWHERE,
            "samples": "50",
            "approximate": (None, Refused("--approximate changes a replay")),
            "traces": "traces",
            "json": None,
        },
    ),
    "compare": (
        ["compare", "ed.toml", "--samples=50"],
        {
            "scenarios": ELSEWHERE,
            "samples": "51",
            "approximate": None,
            "call": None,
            "figure": ELSEWHERE,
            "table": ELSEWHERE,
            "json": None,
        },
    ),
    "network fit": (
        ["network", "fit", PAIRS],
        {
            "file": ELSEWHERE,
            "format": ("iperf3", Refused("")),
            "unit": ("us", Refused("not in us by its name")),
            "column": ("time", Refused("")),
            "site": ("client", Refused("a pair has two of them")),
            **dict.fromkeys(("client", "gateway", "operator", "institution"), "gateway"),
            "distribution": "gamma",
            "blocks": "3",
            "mbit": ("20", Refused("--mbit: of a network")),
            "output": "net.toml",
            "figure": "fit.png",
        },
    ),
    "network show": (["network", "show", FILE], {"file": ELSEWHERE, "json": None}),
}


ED = 'run = [{ task = "generate", curve = "ed25519" }, "sign"]\n[preset]\nregion = "seoul"\n'
"""A scenario with little to replay."""
PLAIN: dict[str, str] = {}
"""What a command says without further options."""


def said(arguments: list[str], capsys: Any) -> tuple[str, str]:
    main(arguments)
    return capsys.readouterr()


def said_plainly(command: str, capsys: Any) -> str:
    if command not in PLAIN:
        PLAIN[command] = said(COMMANDS[command][0], capsys)[0]
    return PLAIN[command]


@pytest.mark.parametrize(
    ("command", "name"), shown({command: values for command, (_, values) in COMMANDS.items()})
)
def test_commands(
    command: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("ed.toml").write_text(ED)
    base, values = COMMANDS[command]
    value = values[name]
    expected = value[1] if isinstance(value, tuple) else None
    value = value[0] if isinstance(value, tuple) else value
    out, error = said([*base, f"--{name}" if value is None else f"--{name}={value}"], capsys)
    if expected is None:
        assert error == ""
        assert out != said_plainly(command, capsys)
    else:
        assert error
        assert expected in error


def options_of(command: str) -> set[str]:
    found: click.Command = program()
    for word in command.split():
        assert isinstance(found, click.Group)
        chosen = found.get_command(click.Context(found), word)
        assert chosen is not None
        found = chosen
    return {str(parameter.name) for parameter in found.params} - {"reference"}


def arguments(of: Callable[..., Any]) -> list[str]:
    """The arguments that a function takes, those of ``Unpack`` one by one."""
    names = []
    for name, parameter in inspect.signature(of).parameters.items():
        if parameter.kind is parameter.VAR_KEYWORD:
            made_by = of.__init__ if inspect.isclass(of) else of
            (unpacked,) = get_args(get_type_hints(made_by)[name])
            names += get_type_hints(unpacked)
        elif name[0] != "_":
            names.append(name)
    return names


def test_none_is_forgotten() -> None:
    for of, values in NETWORKS.items():
        assert values.keys() == inspect.signature(of).parameters.keys()
    for of, _, values in ENTRIES.values():
        assert sorted(values) == sorted(arguments(of))
    for command, (_, rows) in COMMANDS.items():
        assert rows.keys() == options_of(command)
