"""Every option of engine, replay and their commands decides something, or is refused; none can be
forgotten here."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import chain
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
from mpcsim.sim.run.adversary import Adversary
from mpcsim.sim.run.engine import VirtualRun
from tests.helpers.options import Shown
from tests.helpers.sessions import session
from tests.sim.test_replay import stand_ins
from tests.vectors.network import make

ONE, TWO = PartyId(1), PartyId(2)
HEARD: list[Any] = []
"""What callbacks of a run were called with."""


class Refused(str):
    """What is said of a value that is refused."""


@dataclass(frozen=True)
class With:
    """A value that has an effect where other options have theirs."""

    value: Any
    others: dict[str, Any]


class Slow(With):
    """One that takes seconds to show."""


class Instead(str):
    """An argument in place of the last one of a command."""


class Counted(ThreadPoolExecutor):
    """Threads that note their work."""

    def submit(self, *work: Any, **options: Any) -> Any:
        HEARD.append(work)
        return super().submit(*work, **options)


def shown(tables: dict[Any, dict[str, Any]]) -> list[Any]:
    """Return the rows of all tables that are shown here, by table and name."""
    return [
        pytest.param(of, name, marks=[pytest.mark.soak] if isinstance(value, Slow) else [])
        for of, values in tables.items()
        for name, value in values.items()
        if not isinstance(value, Shown)
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
SMALL = MessageGraph(
    "small",
    (Step(ONE, "toy", 1, "ask", (), (0,)), Step(TWO, "toy", 1, "hear", (0,), ())),
    (GraphMessage("Q", ONE, TWO, 9_000, 0),),
)
COSTS = Declared(
    {("toy", step.name): 3_000.0 if step.name == "wait" else 1.0 for step in GRAPH.steps}
)
SEGMENTS = Connection(cold=True, pool=3, resumption=True)


def over(link: Any = None, site: Any = None, connection: Connection = SEGMENTS) -> Network:
    sites = [Site("a"), Site("b"), replace(Site("x"), **(site or {}))]
    near = {"latency": Uniform(5, 9), "mbit_per_s": 50.0, "loss": 0.02, "queue_bytes": 2e4}
    links = (replace(Link("a", "x", **near), **(link or {})), Link("x", "b", 3.0))
    return Network({s.name: s for s in sites}, links, {ONE: "a", TWO: "b"}, connection)


def engine(network: Network) -> str:
    return str(VirtualRun(stand_ins(GRAPH), network, compute=COSTS, seed=1).run().finished_ms)


def replayed(network: Network) -> str:
    return str(GRAPH.replay(network, 40, costs=COSTS, seed=1).finished_ms.tolist())


MACHINE = "tests/sim/test_options.py::test_a_machine_of_two_parties"
NETWORKS: dict[Callable[..., Any], dict[str, Any]] = {
    Link: {
        "a": ("b", Refused("two links join the same sites")),
        "b": ("nowhere", Refused("nowhere")),
        "latency": Uniform(9, 10),
        "mbit_per_s": 20.0,
        "loss": GilbertElliott.of(0.1, 4),
        "queue_bytes": math.inf,
        "back_latency": Uniform(20, 30),
        "back_mbit_per_s": 1.0,
        "back_loss": TimedGilbertElliott.of(0.2, 100.0),
        "back_queue_bytes": 2_000.0,
    },
    Site: {
        "name": ("y", Refused("unknown site 'x'")),
        **dict.fromkeys(("cpu_factor", "cores"), Shown(MACHINE)),
        "service_ms": 5.0,
    },
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
    if isinstance(value, tuple):
        with pytest.raises(UsageError, match=value[1]):
            over(**{of.__name__.lower(): {name: value[0]}})
        return
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
    HEARD.clear()
    sim = Simulation(**more)
    results: list[Any] = [] if sim.shares else [sim.generate("ed25519")]
    if sim.presignatures:
        results.append(sim.sign_presigned(signers=(1, 3)))
    elif sim.shares:
        results.append(sim.sign())
    traces = [trace for result in results for trace in result.attempts]
    keys = {i: share.public_key for i, share in sim.shares.items()}
    return str(
        [(t.finished_ms, t.verdict, t.compute, t.clock, len(t.contents)) for t in traces]
    ) + str((keys, len(HEARD)))


def virtual(**options: Any) -> str:
    more = {"parties": stand_ins(GRAPH), "network": over(), "seed": 1, **options}
    more["parties"] = more["parties"] or session("frost-2").parties()
    trace = VirtualRun(**more).run()
    kept = len(trace.contents)
    return f"{trace.name} {trace.finished_ms} {trace.verdict} {len(trace.messages)} {kept}"


def replay(**options: Any) -> str:
    more = {"network": over(), "samples": 30, "seed": 1, **options}
    found = more.pop("self", GRAPH).replay(**more)
    approximation = found.approximation is not None and found.approximation.is_accepted
    times = found.finished_ms.tolist()
    return f"{times} {len(found.parties_ms)} {found.explanation is None} {approximation}"


def distribution(**options: Any) -> str:
    HEARD.clear()
    more = {"network": over(), "samples": 30, "seed": 1, **options}
    found = more.pop("self", GRAPH).distribution(**more)
    approximation = found.approximation is not None and found.approximation.is_accepted
    summary = f"{found.samples} {found.mean_ms} {len(found.parties)}"
    return f"{summary} {found.explanation is None} {approximation} {len(HEARD)}"


def point(of: Callable[..., Any]) -> Callable[..., str]:
    def run(**options: Any) -> str:
        more = {"seed": 1, "network": "seoul", "institution": "frankfurt", **options}
        if of is experiments.replay_point:
            more = {"graph": GRAPH_OF_A_SIGNATURE, "samples": 20, **more}
        else:
            more = {"curve": "ed25519", "signers": (1, 2, 3), **more}
        return str(of(**more))

    return run


KEY = Simulation(Network.star(), secrets_seed="options")
KEY.generate("ed25519")
GRAPH_OF_A_SIGNATURE = record(KEY.sign(signers=(1, 2, 3)).trace)
SLOW = Declared({(step.protocol, step.name): 5.0 for step in GRAPH_OF_A_SIGNATURE.steps})
REGION = {
    "seed": 2,
    "network": "tokyo",
    "operator": "virginia",
    "institution": "virginia",
    "gateway": "frankfurt",
    "access": "lte",
    "loss": 0.9,
    "cold": True,
}
FITTED = "tests/sim/test_replay_fitted.py::test_too_far_off_in_time_is_not_used"
REPLAYED: dict[str, Any] = {
    "self": SMALL,
    "network": over({"latency": 90.0}),
    "samples": 31,
    "seed": 2,
    "costs": COSTS,
    "parties": True,
    "explain": True,
    "approximate": Shown(FITTED),
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
            "corrupt": {2: lambda party: Adversary(party, lambda *message: None)},
            "secrets_seed": "others",
            "listener": HEARD.append,
            "draws": SeededDraws(8),
            "clock": "real",
            "contents": True,
            "shares": KEY.shares,
            "presignatures": Shown("tests/sim/test_simulation.py::test_signing_with_presignatures"),
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
            "resend_ms": (5.0, Refused("resend_ms")),
            "draws": SeededDraws(8),
            "validate": lambda results: False,
            "name": "other",
            "contents": With(True, {"parties": None}),
        },
    ),
    "replay": (MessageGraph.replay, replay, {**REPLAYED, "draws": DrawTable(30, 9)}),
    "distribution": (
        MessageGraph.distribution,
        distribution,
        {**REPLAYED, "executor": Counted(1), "progress": HEARD.append},
    ),
    "signing_point": (
        experiments.signing_point,
        point(experiments.signing_point),
        {
            **REGION,
            "curve": "secp256k1",
            "signers": (1, 2),
            "threshold": With(3, {"signers": None}),
            "scheme": ("ot/80", Refused("scheme")),
            "compute": SLOW,
            "timeout_ms": 1.0,
            "attempts": With(2, {"timeout_ms": 1.0}),
            "resend_ms": With(100.0, {"faults": LOST, "timeout_ms": 1_000.0}),
            "faults": LOST,
        },
    ),
    "replay_point": (
        experiments.replay_point,
        point(experiments.replay_point),
        {**REGION, "graph": GRAPH, "samples": 21, "approximate": Slow(True, {"graph": SMALL})},
    ),
}


@pytest.mark.parametrize(
    ("entry", "name"), shown({entry: values for entry, (_, _, values) in ENTRIES.items()})
)
def test_runs(entry: str, name: str) -> None:
    _, run, values = ENTRIES[entry]
    value = values[name]
    others = value.others if isinstance(value, With) else {}
    value = value.value if isinstance(value, With) else value
    if isinstance(value, tuple) and isinstance(value[-1], Refused):
        with pytest.raises(UsageError, match=value[1]):
            run(**{name: value[0]})
        return
    assert run(**{name: value, **others}) != run(**others)


# ------------------------------------------------------------------ commands

VECTORS = Path(make.__file__).parent
FILE = str(VECTORS / "network.toml")
CURVES = "tests/cli/test_sim.py::test_scenarios_beside_each_other"
"""Arguments with which a command runs, and of each option others that change what it says or
writes, or what is said of them."""
COMMANDS: dict[str, tuple[list[str], dict[str, Any]]] = {
    "sim": (
        ["sim", "ed.toml"],
        {
            "scenario": Instead("seoul"),
            "samples": "50",
            "approximate": (None, Refused("--approximate changes a replay")),
            "traces": "traces",
            "json": None,
        },
    ),
    "compare": (
        ["compare", "--samples=50", "ed.toml"],
        {
            "scenarios": Instead("seoul"),
            "samples": "51",
            "approximate": Slow(None, {}),
            "call": None,
            "figure": Shown(CURVES),
            "table": "times.csv",
            "json": None,
        },
    ),
    "network fit": (
        ["network", "fit", "pairs.csv"],
        {
            "file": Instead(str(VECTORS / "regions.csv")),
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
    "network show": (
        ["network", "show", FILE],
        {"file": (Instead("missing"), Refused("unknown region 'missing'")), "json": None},
    ),
}


ED = 'run = [{ task = "generate", curve = "ed25519" }, "sign"]\n[preset]\nregion = "seoul"\n'
"""A scenario with little to replay."""
FEW_PAIRS = "\n".join((VECTORS / "pairs.csv").read_text().splitlines()[::4])
"""Its heading, and a quarter of the round trips."""
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
    Path("pairs.csv").write_text(FEW_PAIRS)
    base, values = COMMANDS[command]
    value = values[name].value if isinstance(values[name], With) else values[name]
    expected = value[1] if isinstance(value, tuple) else None
    value = value[0] if isinstance(value, tuple) else value
    option = f"--{name}" if value is None else f"--{name}={value}"
    words = [*base[:-1], value] if isinstance(value, Instead) else [*base, option]
    out, error = said(words, capsys)
    if expected is None:
        assert error == ""
        assert out != said_plainly(command, capsys) or len([*tmp_path.iterdir()]) > 2
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
    """What another test shows is the option of a test that there is."""
    tables: list[dict[str, Any]] = [
        *NETWORKS.values(),
        *(values for *_, values in ENTRIES.values()),
    ]
    for name, value in chain.from_iterable(values.items() for values in tables):
        assert not isinstance(value, Shown) or value.names(name)
    for of, values in NETWORKS.items():
        assert values.keys() == inspect.signature(of).parameters.keys()
    for of, _, values in ENTRIES.values():
        assert sorted(values) == sorted(arguments(of))
    for command, (_, rows) in COMMANDS.items():
        assert rows.keys() == options_of(command)
