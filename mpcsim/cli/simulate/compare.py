"""``mpcsim compare``: how long scenarios take, beside each other."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any, Final

from mpcsim.cli.network import SUFFIX, scenario
from mpcsim.cli.simulate.trace import load
from mpcsim.errors import UsageError
from mpcsim.ids import CLIENT, INSTITUTION, ROLES, PartyId
from mpcsim.sim import Generate, Scenario, Sign, compare, run_scenario
from mpcsim.sim.replay import CompletionTimes, MessageGraph, record

TRACE: Final = ".jsonl"
"""Suffix of trace files."""
SAMPLES: Final = 10_000
MOST_KEPT: Final = 10_000_000
"""Limit of samples with exact percentiles; they take 8 bytes each."""


def add(subparsers: Any) -> None:
    """Declare the subcommand."""
    parser = subparsers.add_parser(
        "compare", help="how long the last task of each scenario takes, over its network"
    )
    parser.add_argument(
        "scenarios",
        nargs="+",
        metavar="SCENARIO",
        help=f"a file (FILE{SUFFIX}), a preset as of --network, or a trace (FILE{TRACE}), which "
        "knows its scenario; the first is what the others are compared with",
    )
    add_replay(parser, SAMPLES)
    parser.add_argument(
        "--call",
        action="store_true",
        help="the whole REST call POST /v3/wallet/sign, vault and all, in place of the protocol",
    )
    parser.add_argument("--figure", metavar="OUT.png", help="picture of the distributions to write")
    parser.add_argument("--json", action="store_true", help="JSON instead of a table")
    parser.set_defaults(run=run)


def add_replay(parser: argparse.ArgumentParser, samples: int) -> None:
    """Declare the options of a replay."""
    parser.add_argument(
        "--samples",
        type=int,
        default=samples,
        metavar="N",
        help="times that each is replayed (default %(default)s); above ten million on all cores, "
        "with percentiles to 0.1%%",
    )
    parser.add_argument(
        "--approximate", action="store_true", help="replay with fitted transfers, which is quicker"
    )


def run(options: argparse.Namespace) -> int:
    """Replay each scenario and print the table."""
    found = compare({name: _replay(name, options) for name in options.scenarios})
    if options.json:
        sys.stdout.write(json.dumps(found.rows(), indent=1) + "\n")
    else:
        sys.stdout.write(f"{found}\n")
    if options.figure:
        try:
            found.plot().savefig(options.figure)
        except OSError as error:
            raise UsageError(f"--figure: {options.figure}: {error.strerror or error}") from None
    return 0


def _replay(name: str, options: argparse.Namespace) -> CompletionTimes:
    what = _scenario(name)
    if options.call:
        graph = signing_call(what)
    else:
        *_, last = run_scenario(what)
        if not last.ok:
            raise UsageError(f"{name}: {last}: nothing to replay")
        graph = record(last.trace)
    return replay_scenario(graph, what, options)


def replay_scenario(
    graph: MessageGraph, what: Scenario, options: argparse.Namespace
) -> CompletionTimes:
    """Replay a scenario's run, as often as the options say (``add_replay``)."""
    replay = graph.replay if options.samples <= MOST_KEPT else graph.distribution
    return replay(what.network, options.samples, seed=what.seed, approximate=options.approximate)


def _scenario(name: str) -> Scenario:
    """Return the scenario of a file, a preset or a trace."""
    if not name.endswith(TRACE):
        return scenario(name)
    if not (known := load(name).scenario):
        raise UsageError(f"{name}: this trace does not say what made it")
    return Scenario.loads(str(known), name)


def signing_call(what: Scenario) -> MessageGraph:
    """Return the REST call that signs with the scenario's curve and with its signers.

    Raises:
        UsageError: no service has such parties, threshold or signers.
    """
    # The service is loaded only for those who ask for it.
    from node.calls import signing_call as recorded

    what.check_service()
    curve = next((task.curve for task in what.run if isinstance(task, Generate)), Generate.curve)
    signs = [task.signers for task in what.run if isinstance(task, Sign) and task.signers]
    others = [i for i in (signs[-1] if signs else ()) if i != CLIENT]
    if signs and (CLIENT not in signs[-1] or len(others) != 1):
        raise UsageError(
            f"signers {list(signs[-1])}: the caller (1) signs with the operator (2) or the "
            f"institution ({INSTITUTION})"
        )
    return recorded(curve, *(ROLES[PartyId(i)] for i in others))
