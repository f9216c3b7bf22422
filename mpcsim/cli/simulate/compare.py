"""``mpcsim compare``: how long scenarios take, beside each other."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from mpcsim.cli.command import Command, Options, argument, flag, option
from mpcsim.cli.network import SUFFIX, format_losses, losses, scenario
from mpcsim.cli.outputs import PICTURES, TABLES, prepare_output, save_figure, save_rows
from mpcsim.cli.reference import SCENARIO, reference_option
from mpcsim.errors import UsageError, unknown
from mpcsim.ids import CLIENT, INSTITUTION, MPC_NODES, ROLES, PartyId
from mpcsim.version import __version__

if TYPE_CHECKING:
    from mpcsim.sim import Scenario
    from mpcsim.sim.replay import CompletionTimes, MessageGraph

T = TypeVar("T")

TRACE: Final = ".jsonl"
"""Suffix of trace files."""
SCHEMES: Final = {"ot/80": 1, "ot/80/2": 2, "ot/80/4": 4}
"""Multiplication schemes of the service, and its setting ``ot_extension_k`` for each."""
IDENTICAL: Final = (
    "exactly the times of the first: what differs does not affect the last task "
    "(--help says who signs)"
)
SAMPLES: Final = 10_000
MOST_KEPT: Final = 10_000_000
"""Limit of samples with exact percentiles; they take 8 bytes each."""

EPILOG: Final = """\
A signature is the caller's and the operator's, unless the scenario names other signers: where the
institution is changes nothing then. With --call it does: both MPC nodes open the caller's share.

Columns: n is the number of times; p50, p95, p99, p99.9 are percentiles, each with the 95 %
confidence interval of the true one, by order statistics. "above" and "below": too few times for one
end. "*": fewer than 10 times lie beyond. The second table has the differences to the first scenario
with their intervals; "~": the interval contains 0, so the difference may be noise.
--table and --json have all of it, with scenario, seed, network, losses and version: low_ms and
high_ms are the ends of intervals, difference_ms, difference_low_ms and difference_high_ms those of
differences.
"""


def command() -> Command:
    return Command(
        "compare",
        run,
        [
            argument(
                "scenarios",
                "SCENARIO...",
                nargs=-1,
                help=f"a file (FILE{SUFFIX}), a preset as of --network, or a trace (FILE{TRACE}), "
                "which knows its scenario; the first is what the others are compared with",
            ),
            *replay_options(SAMPLES),
            flag(
                "--call",
                "the whole REST call POST /v3/wallet/sign, vault and all, in place of the protocol",
            ),
            option(
                "--figure",
                "picture of the distributions to write: PNG, SVG or PDF",
                metavar="OUT.png",
            ),
            option("--table", "the rows to write, as CSV", metavar="OUT.csv"),
            flag("--json", "JSON instead of a table"),
            reference_option("scenario files", *SCENARIO),
        ],
        more=EPILOG,
    )


def replay_options(samples: int) -> list[click.Parameter]:
    """Return the options of a replay."""
    return [
        option(
            "--samples",
            "times that each is replayed; above ten million on all cores, with percentiles to 0.1%",
            type=int,
            default=samples,
            metavar="N",
        ),
        flag("--approximate", "replay with fitted transfers, which is quicker"),
    ]


def run(options: Options) -> int:
    """Replay each scenario and print the table."""
    from mpcsim.sim import compare

    prepare_output("--figure", options.figure, PICTURES)
    prepare_output("--table", options.table, TABLES)
    if twice := [name for name, times in Counter(options.scenarios).items() if times > 1]:
        raise UsageError(f"{', '.join(twice)} twice: name each scenario once")
    scenarios = {name: _scenario(name) for name in options.scenarios}
    found = compare({name: _replay(name, what, options) for name, what in scenarios.items()})
    rows = [
        {**row, "losses": losses(scenarios[row["name"]].network), "version": __version__}
        for row in found.rows()
    ]
    if options.json:
        sys.stdout.write(json.dumps(rows, indent=1) + "\n")
    else:
        lost = {name: format_losses(what.network) for name, what in scenarios.items()}
        said = [f"  {name}: {text}" for name, text in lost.items() if text]
        said += [f"  {name}: {IDENTICAL}" for name in _identical(rows)]
        sys.stdout.write("\n".join([str(found), *[""][: len(said)], *said]) + "\n")
    if options.table:
        save_rows(rows, options.table)
    if options.figure:
        seeds = ", ".join(f"{row['name']}: seed {row['seed']}" for row in rows)
        call = " --call" if options.call else ""
        about = f"mpcsim compare{call} --samples={options.samples}; {seeds}"
        save_figure(compare(_labelled(found.runs, scenarios)).plot(), options.figure, about)
    return 0


def _identical(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the names of the scenarios with the mean and the percentiles of the first."""
    differences = {row["name"]: row["difference_ms"] for row in rows[1:]}
    return [
        name
        for name, found in differences.items()
        if found["mean"] == 0 and not any(found.values())
    ]


def _labelled(runs: Mapping[str, T], scenarios: Mapping[str, Scenario]) -> dict[str, T]:
    """Return the runs by labels for a figure: a file is named by its network, or its stem."""
    files = [name for name in runs if name.endswith((SUFFIX, TRACE))]
    stems = {name: Path(name).stem for name in files}
    networks = {name: scenarios[name].network.name or stems[name] for name in files}
    for labels in (networks, stems):
        labelled = {labels.get(name, name): run for name, run in runs.items()}
        if len(labelled) == len(runs):
            return labelled
    return dict(runs)


def _replay(name: str, what: Scenario, options: Options) -> CompletionTimes:
    from mpcsim.sim import Policy, run_scenario
    from mpcsim.sim.replay import record

    if what.faults or what.policy != Policy():
        raise UsageError(
            f"{name}: a replay has no faults and no policy: take them out, or run mpcsim sim {name}"
        )
    if options.call:
        try:
            graph = signing_call(what)
        except UsageError as error:
            raise UsageError(f"{name}: --call: {error}") from None
    else:
        *_, last = run_scenario(what)
        if not last.ok:
            raise UsageError(f"{name}: {last}: nothing to replay")
        graph = record(last.trace)
    return replay_scenario(graph, what, options)


def replay_scenario(graph: MessageGraph, what: Scenario, options: Options) -> CompletionTimes:
    """Replay a scenario's run, as often as the options say (``add_replay``)."""
    replay = graph.replay if options.samples <= MOST_KEPT else graph.distribution
    return replay(what.network, options.samples, seed=what.seed, approximate=options.approximate)


def _scenario(name: str) -> Scenario:
    """Return the scenario of a file, a preset or a trace."""
    from mpcsim.cli.simulate.trace import load
    from mpcsim.sim import Scenario

    if not name.endswith(TRACE):
        return scenario(name)
    if not (known := load(name).scenario):
        raise UsageError(f"{name}: this trace does not say what made it")
    return Scenario.loads(str(known), name)


def signing_call(what: Scenario) -> MessageGraph:
    """Return the REST call of the scenario's last task, a signature: with its curve, its scheme
    and its signers.

    Raises:
        UsageError: no service has such parties, threshold, scheme or signers, or an entry of the
            scenario would have no effect.
    """
    from mpcsim.sim import Generate, Scenario, Sign, SignPresigned
    from node.calls import signing_call as recorded

    what.check_service()
    key = next((task for task in what.run if isinstance(task, Generate)), Generate())
    last = what.run[-1] if what.run else None
    if not isinstance(last, Sign | SignPresigned):
        raise UsageError("the last task is no signature")
    if what.compute != Scenario.compute or what.clock != Scenario.clock:
        raise UsageError("compute and clock have no effect: computing takes no time in it")
    if last.path:
        raise UsageError("path has no effect: the call signs with the key itself")
    if isinstance(last, SignPresigned) and last.finisher not in (None, CLIENT):
        raise UsageError(f"finisher {last.finisher}: in the service the caller ({CLIENT}) finishes")
    k = 1
    if key.scheme is not None:
        if key.scheme not in SCHEMES:
            raise UsageError(unknown("scheme of the service", key.scheme, SCHEMES))
        k = SCHEMES[key.scheme]
    signers = last.signers or ()
    others = [i for i in signers if i != CLIENT]
    if signers and (CLIENT not in signers or len(others) != 1 or others[0] not in MPC_NODES):
        raise UsageError(
            f"signers {list(signers)}: the caller (1) signs with the operator (2) or the "
            f"institution ({INSTITUTION})"
        )
    return recorded(
        key.curve,
        *(ROLES[PartyId(i)] for i in others),
        ot_extension_k=k,
        presigned=isinstance(last, SignPresigned),
    )
