"""``mpcsim sim``: run a scenario and print its results."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from mpcsim.cli.command import FILE, Command, Options, argument, flag, option
from mpcsim.cli.network import format_losses, losses, scenario
from mpcsim.cli.reference import SCENARIO, reference_option
from mpcsim.cli.simulate.compare import replay_options, replay_scenario
from mpcsim.errors import UsageError
from mpcsim.sim import Table, counted, milliseconds, size
from mpcsim.version import __version__

if TYPE_CHECKING:
    from mpcsim.sim import Network, Result, Scenario
    from mpcsim.sim.replay import CompletionTimes

PERCENTS: Final = (50.0, 95.0, 99.0)

EPILOG: Final = """\
A scenario file says what is run, over which network, and what goes wrong there:

  run = ["generate", "sign"]
  seed = 1

  [preset]
  region = "seoul"
  institution = "frankfurt"
  access = "lte"

--reference says what else may be in it: faults, links one by one, any number of parties. A network
file is a scenario, too, and so is a preset as --network of mpcsim serve has it.

A signature is the caller's and the operator's, unless the task says otherwise:
{ task = "sign", signers = [1, 3] } is the caller's and the institution's.

Columns of the tasks: verdict; sessions that were run (attempts); the time until the last one ended
(after ms); length of the longest chain of messages (sequential delays); all messages, and the size
of their envelopes without the transport's overhead (sent).
Columns of the replays: see mpcsim compare --help.
"""


def command() -> Command:
    return Command(
        "sim",
        run,
        [
            argument("scenario", "SCENARIO", help="a file (FILE.toml) or a preset"),
            *replay_options(0),
            option(
                "--traces", "write a trace of each task there (JSONL)", type=FILE, metavar="FOLDER"
            ),
            flag("--json", "JSON instead of tables"),
            reference_option("scenario files", *SCENARIO),
        ],
        more=EPILOG,
    )


def run(options: Options) -> int:
    """Run the scenario; return 1 unless everything completed and is valid."""
    if options.approximate and not options.samples:
        raise UsageError("--approximate changes a replay, and there is none: add --samples=N")
    from mpcsim.sim import run_scenario
    from mpcsim.sim.replay import record

    what = scenario(options.scenario)
    results = run_scenario(what)
    replays = [
        replay_scenario(record(result.trace), what, options)
        if options.samples and _completed_at_first(result, what)
        else None
        for result in results
    ]
    written = list(_write_traces(options.traces, results)) if options.traces else []
    if options.json:
        tasks = [_data(*both) for both in zip(results, replays, strict=True)]
        found = {
            "version": __version__,
            "network": what.network.name,
            "losses": losses(what.network),
            "seed": what.seed,
            "scenario": str(what),
            "tasks": tasks,
        }
        sys.stdout.write(json.dumps(found, indent=1) + "\n")
    else:
        sys.stdout.write("\n".join(_format_results(what.network, results, replays)) + "\n")
        sys.stdout.writelines(f"written: {path}\n" for path in written)
    skipped = len(what.run) - len(results)
    if skipped:
        sys.stderr.write(f"no key: {counted(skipped, 'task')} left out\n")
    return 0 if not skipped and all(result.ok for result in results) else 1


def _completed_at_first(result: Result[Any], what: Scenario) -> bool:
    """Return whether it completed at the first attempt: others have no timing of their own."""
    return result.ok and len(result.attempts) == 1 and not what.faults


def _write_traces(folder: Path, results: tuple[Result[Any], ...]) -> Iterator[Path]:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for at, result in enumerate(results, 1):
            for attempt, trace in enumerate(result.attempts, 1):
                again = f"-{attempt}" if len(result.attempts) > 1 else ""
                name = f"{at}-{trace.name.replace(' ', '-')}{again}.jsonl"
                yield trace.save_jsonl(folder / name)
    except OSError as error:
        raise UsageError(f"--traces: {folder}: {error.strerror or error}") from None


def _data(result: Result[Any], replay: CompletionTimes | None) -> dict[str, Any]:
    from mpcsim.sim.traces import sequential_delays

    trace = result.trace
    sent = trace.summary()
    found: dict[str, Any] = {
        "task": trace.name,
        "verdict": trace.verdict.value,
        "attempts": len(result.attempts),
        "elapsed_ms": result.elapsed_ms,
        "messages": sent.messages,
        "bytes": sent.bytes,
        "sequential_delays": sequential_delays(trace),
        "endings": {str(e.party): e.text or e.status for e in trace.endings},
    }
    if replay is not None:
        at = replay.percentiles(PERCENTS)
        found["replay"] = {
            "samples": replay.samples,
            "failed": replay.failed,
            "mean_ms": replay.mean_ms,
            **{f"p{percent:g}_ms": ms for percent, ms in at.items()},
            "interval_ms": {f"p{percent:g}": _interval(replay, percent) for percent in PERCENTS},
            "seed": replay.seed,
            "compute": replay.compute,
        }
    return found


def _format_results(
    network: Network, results: tuple[Result[Any], ...], replays: list[CompletionTimes | None]
) -> Iterator[str]:
    """Yield the page: how many tasks completed, a row for each, and its replays' percentiles."""
    from mpcsim.sim import compare
    from mpcsim.sim.traces import sequential_delays

    over = network.name or "a network"
    good = sum(result.ok for result in results)
    yield f"{over}: {good} of {counted(len(results), 'task')} completed valid"
    yield "  scope protocol"
    if lost := format_losses(network):
        yield f"  {lost}"
    for result in results:
        for ending in result.trace.endings:
            if ending.text:
                yield f"  {result.trace.name}: party {ending.party} {ending.text}"
    columns = ["task", "verdict", "attempts", "after ms", "sequential delays", "messages", "sent"]
    rows = [
        [
            result.trace.name,
            result.verdict.value,
            str(len(result.attempts)),
            milliseconds(result.elapsed_ms),
            str(sequential_delays(result.trace)),
            str(sent.messages),
            size(sent.bytes),
        ]
        for result in results
        for sent in [result.trace.summary()]
    ]
    yield "\n" + Table(columns, rows, frozenset(columns[2:])).text()
    if timed := {
        f"{at} {replay.name}" if len(replays) > 1 else replay.name: replay
        for at, replay in enumerate(replays, 1)
        if replay is not None
    }:
        found = compare(timed)
        yield "\nReplayed:"
        yield from (f"  {note}" for note in found.notes()[1:])
        yield found.table().text()


def _interval(replay: CompletionTimes, percent: float) -> tuple[float | None, float | None]:
    """Return the confidence interval of a percentile; None: an open end."""
    low, high = replay.interval(percent)
    return low or None, high if math.isfinite(high) else None
