"""Every figure of the package, drawn from small real runs, on one page.

``make figures`` (``python -m tests.helpers.figures [FOLDER]``) writes a PNG of each and
``index.html`` with all of them, to be looked at. The tests hold all of them to the same rules.
"""

import sys
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from mpcsim.attacks.catalogue import ATTACKS
from mpcsim.attacks.picture import matrix_chart
from mpcsim.attacks.report import collect, run
from mpcsim.capacity import Deployment, Part
from mpcsim.crypto.rng import SeededRng
from mpcsim.lab.explorer.data_flow_figure import data_flow
from mpcsim.service.smart_account import setup
from mpcsim.service.smart_account.client import figures as operations
from mpcsim.service.smart_account.client.client import Flow, ServiceTransport, SmartAccountClient
from mpcsim.sim import Network, compare, figures, signing_point, sweep
from mpcsim.sim.call_times import CallTimes
from mpcsim.sim.network.measured.fit import fit
from mpcsim.sim.network.measured.reading import read
from mpcsim.sim.replay import MessageGraph, Replay, record
from tests.helpers.repo import ROOT
from tests.helpers.traces import trace

FOLDER = ROOT / "build" / "figures"
MEASURED = ROOT / "tests" / "vectors" / "network"
LTE = Network.preset("seoul", institution="frankfurt", access="lte")
TRACES = ("two-party signature with compute", "key generation", "cold connections", "aborted")
RECIPIENT = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"

Draw = Callable[[], Figure]


@cache
def signature() -> MessageGraph:
    """With the institution."""
    return record(trace("two-party signature"))


@cache
def generation() -> MessageGraph:
    return record(trace("key generation"))


@cache
def replayed(institution: str = "frankfurt", access: str = "lte") -> Replay:
    network = Network.preset("seoul", institution=institution, access=access)
    return signature().replay(network, 2_000, seed=1, explain=True)


def variants() -> dict[str, Replay]:
    """As it is, and what one might do."""
    return {
        "as it is": replayed(),
        "institution to tokyo": replayed("tokyo"),
        "caller on fibre": replayed(access="fibre"),
        "institution to são paulo": replayed("saopaulo"),
    }


@cache
def swept() -> pd.DataFrame:
    grid = {"network": ["seoul", "frankfurt"], "institution": ["tokyo", "virginia", "saopaulo"]}
    with ThreadPoolExecutor(1) as pool:
        return sweep(grid, signing_point, executor=pool, progress=False)


def counts() -> pd.DataFrame:
    """Magnitudes apart, with long names and with gaps."""
    table = [[3, np.nan, 120, 1], [np.nan, 40, 0, np.nan], [1500, 2, np.nan, 7]]
    rows = ["POST /v3/wallet/generate", "POST /v3/wallet/sign", "GET /v3/wallet/list_keys"]
    return pd.DataFrame(table, rows, ["malformed message", "nonce mismatch", "200", "echo"])


def calls() -> CallTimes:
    """Few, as if a service had been asked so many times."""
    return CallTimes(replayed().finished_ms[:120], 0.0, LTE.name, "virtual")


def by_loss() -> Figure:
    losses = [0.0, 0.0001, 0.001, 0.01, 0.05]
    runs = [
        signature().replay(LTE.with_link("client", "gateway", loss=loss), 1_000, seed=1)
        for loss in losses
    ]
    percents = [100 * loss for loss in losses]
    lines = {f"{p} %": (percents, [run.percentile(p) for run in runs]) for p in (50, 99)}
    return figures.curves(lines, x="loss (%)", y="time (ms)", title="ECDSA over LTE")


def sharing() -> Figure:
    """Lines of parties, with names of all kinds."""
    ends = np.array([0.0, 3.3])
    slopes = {1: (8, -2), 2: (1, 1), 3: (4, 3)}
    return figures.curves(
        {f"f_{i}": (ends, a + b * ends) for i, (a, b) in slopes.items()}
        | {"f": (ends, 13 + 2 * ends)},
        parties={f"f_{i}": i for i in slopes},  # type: ignore[misc]
        dots={"shares": ([1, 2, 3], [15, 17, 19]), "the key": ([0], [13])},
        faint=[(ends, k * ends) for k in (1, 2, 3)],
        across={"two can sign": 10.0},
        along={"request 1": 1.0, "request 2": 1.1, "request 3": 2.5},
        shaded=[(1.0, 1.5)],
        x="x",
        y="height",
        title="Everybody draws a line",
    )


def steps() -> Figure:
    tries = ([0, 4, 6, 10, 46], [120, 20, 8, 3, 3])
    dropped = {"dropped": ([2, 8, 30], [60, 5, 2])}
    return figures.curves(
        {"shortest": tries}, dots=dropped, steps=True, x="runs tried", y="steps in the run"
    )


def over_time() -> Figure:
    at = list(range(0, 120, 10))
    latency = {"p50": (at, [5 + t % 3 for t in at]), "p99": (at, [9 + t % 7 for t in at])}
    calls = {"in flight": (at, [t % 30 for t in at])}
    groups = {"latency (ms)": latency, "calls": calls}
    return figures.panels(groups, x="time (s)", title="A run", shaded=[(30, 60)])


def parts() -> Figure:
    """With names that are no cause of time."""
    rows = {
        "generate": {"vault": 0.0, "round 1": 210.0, "round 2": 200.0, "compute": 45.0},
        "sign": {"vault": 200.0, "round 1": 200.0, "round 2": 800.0, "compute": 9.0},
    }
    return figures.stacked_bars(
        rows, title="POST /v3/wallet", starts=[0.0, 100.0], parties=[None, 1]
    )  # type: ignore[list-item]


def causes() -> Figure:
    """Every cause there is, of a party and of nobody."""
    rows = {"nobody's": dict.fromkeys(figures.FILLS, 10.0)}
    parties: list[Any] = [None]
    for party in range(1, 8):
        rows[f"party {party}"] = dict.fromkeys(figures.FILLS, 10.0)
        parties.append(party)
    return figures.stacked_bars(rows, parties=parties)


def links() -> Figure:
    fits = [fit(series) for series in read(MEASURED / "pairs.csv").series]
    return figures.measured_links([*fits[:2], fit(read(MEASURED / "mtr.json").series[0])])


def quantiles() -> Figure:
    given, other = replayed().finished_ms, replayed().finished_ms * 1.02
    pairs = {"first exchange": (given, other), "second exchange": (given / 2, other / 2)}
    cases = {f"CUBIC, {loss} % lost": pairs for loss in (0.1, 1, 2)}
    return figures.quantile_plot(cases, ("ns-3", "the model"))


def groups() -> Figure:
    runs = {name: run.finished_ms for name, run in variants().items()}
    return figures.tail_plot({f"ECDSA, {k} (scope protocol)": runs for k in ("fixed", "mobile")})


def of_traces() -> dict[str, Draw]:
    found: dict[str, Draw] = {}
    for name in TRACES:
        for kind in (figures.sequence_diagram, figures.gantt, figures.critical_path):
            found[f"{kind.__name__}, {name}"] = lambda kind=kind, name=name: kind(trace(name))
    found["sequence_diagram, with the gateway"] = lambda: figures.sequence_diagram(
        trace("key generation"), gateway=True
    )
    return found


def of_many() -> dict[str, Draw]:
    """Figures of what comes out of experiments."""
    return {
        "Replay.plot": lambda: replayed().plot(),
        "CallTimes.plot": lambda: calls().plot(),
        "Comparison.plot": lambda: compare(variants()).plot(),
        "Comparison.plot, two scopes": lambda: compare(
            {"protocol": replayed(), "REST call": calls()}
        ).plot(),
        "Comparison.ranked_bars": lambda: compare(variants()).ranked_bars(),
        "Comparison.stacked_bars": lambda: compare(variants()).stacked_bars(),
        "Explanation.plot": lambda: _explained().plot(),
        "tail_plot": groups,
        "quantile_plot": quantiles,
        "ranked_bars": lambda: figures.ranked_bars(
            {"operator": 40.0, "institution": -12.0, "party 7": 3.0}
        ),
        "heat_map": lambda: figures.heat_map(swept(), "network", "institution"),
        "heat_map, counts": lambda: figures.heat_map(
            counts(), text=lambda n: f"{n:.0f}", title="Requests by endpoint and status"
        ),
        "curves, symlog": by_loss,
        "curves": sharing,
        "curves, steps": steps,
        "panels": over_time,
        "stacked_bars": parts,
        "stacked_bars, every cause": causes,
        "measured_links": links,
        "data_flow": data_flow,
        "Deployment.plot": lambda: Deployment(LTE, Part(4, replicas=2, workers=3)).plot(),
    }


def _explained() -> Any:
    return generation().replay(LTE, 2_000, seed=1, explain=True).explanation


def of_operations() -> dict[str, Draw]:
    """Figures of an operation on the chain that runs in this process."""
    return {
        "steps_diagram": lambda: operations.steps_diagram(flow()),
        "digest_anatomy": lambda: operations.digest_anatomy(flow()),
        "gas_chart": lambda: operations.gas_chart({"transfer": flow(), "the same": flow()}),
    }


@cache
def flow() -> Flow:
    """A transfer, signed with a whole key: nobody looks at who signs."""
    service = setup.over_embedded_chain(rng=SeededRng("figures, chain"))
    key = setup.account(SeededRng("figures, owner").bytes(32))
    service.bundler.pay(service.owner_account(key.address), 10**18)
    client = SmartAccountClient(ServiceTransport(service), chain_id=service.chain.chain_id)
    made = client.begin(key.address, to=RECIPIENT)
    client.run(made, lambda digest: bytes(key.unsafe_sign_hash(digest).signature))
    return made


def attacks() -> Figure:
    """Some of the matrix."""
    some = [attack for attack in ATTACKS if attack.id in ("D3", "S5", "O2a", "D1")]
    return matrix_chart(collect(list(run(some))))


def every() -> dict[str, Draw]:
    return of_traces() | of_many() | of_operations() | {"at_a_glance": attacks}


def write(folder: Path, drawn: Mapping[str, Draw]) -> None:
    """A PNG of each, and a page with all of them."""
    folder.mkdir(parents=True, exist_ok=True)
    page = ['<!doctype html><meta charset="utf-8"><title>mpcsim: figures</title>']
    page.append(
        "<style>body{font-family:sans-serif}figure{display:inline-block;margin:12px}</style>"
    )
    for number, (name, draw) in enumerate(drawn.items()):
        file = f"{number:02d}_{name.replace(', ', '_').replace(' ', '_')}.png"
        draw().savefig(folder / file)
        page.append(f'<figure><figcaption>{name}</figcaption><img src="{file}"></figure>')
    (folder / "index.html").write_text("\n".join(page), encoding="utf-8")


def main(arguments: list[str]) -> None:
    folder = Path(arguments[0]) if arguments else FOLDER
    write(folder, every())
    sys.stdout.write(f"written: {folder / 'index.html'}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
