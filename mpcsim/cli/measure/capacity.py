"""``mpcsim capacity``: simulate a workload on a deployment, and search for a better one."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from mpcsim.capacity.model import EXACTNESSES
from mpcsim.cli.command import FILE, Command, Options, argument, flag, option, repeatable
from mpcsim.cli.outputs import PICTURES, prepare_output, save_figure
from mpcsim.cli.outputs import TABLES as TABLE_ENDINGS
from mpcsim.cli.progress import ProgressBar
from mpcsim.cli.reference import PLAN, reference_option
from mpcsim.errors import UsageError, unknown
from mpcsim.sim import Table
from mpcsim.version import __version__

if TYPE_CHECKING:
    import pandas as pd

    from mpcsim.capacity import Cheapest, Plan, Run

FIGURES: Final = ("timeline", "utilisation", "slowest", "deployment", "curve")
TABLES: Final = ("run", "curve", "sensitivity", "cheapest")

EXAMPLE: Final = """\
# 40 signatures a second, and 200 for two minutes; mpcsim capacity answers what comes of it.
minutes = 20
seed = 1
deadline_ms = 500          # later answers are no use

[preset]                   # the network; or [star], or network = "net.toml"
region = "seoul"
institution = "frankfurt"

[node]                     # also [gateway], [operator], [institution], [caller]
cores = 4                  # of each machine
replicas = 2
workers = 1                # processes of each replica

[workload]
users = 100_000            # each has a key; two calls for one key meet each other
mix = { "sign secp256k1" = 1 }
client = { timeout_s = 10, attempts = 2, pause_s = 1, jitter = 1 }

[workload.arrivals]
kind = "bursts"            # or steady, profile, times, users
per_s = 40
burst_per_s = 200
first_s = 600
lasting_s = 120
"""

EPILOG: Final = """\
CONFIG says the deployment, the workload, for how long, and what else is asked; --example prints
one, and --reference has everything that may be in it. Without a CONFIG that asks for them, --curve,
--sensitivity and --cheapest ask for further answers:

  mpcsim capacity wallet.toml --hours 1 --figure timeline.png --figure utilisation.png
  mpcsim capacity wallet.toml --curve --figure curve.png --table curve.csv --workers 2
  mpcsim capacity wallet.toml --cheapest node_replicas=1,2,3 --cheapest operator_cores=1,2 --p99 400

Latencies are of calls that came after the first tenth of the run and succeeded, from when they
were due, earlier attempts included. Intervals come from batches of windows; "-": the run is too
short for one. Tables have config, seed, costs and version in each row. run: a row for each window
and operation, with attempts by outcome, calls that ended and that came, percentiles, and the mean
time by part. curve: a row for each run, with its own seed. cheapest: a row for each candidate.
sensitivity: the percentile with less and more of an input, by how much that moves it, and the noise
of that.

The status is 1 if more calls come than can be answered.
"""


def command() -> Command:
    return Command(
        "capacity",
        run,
        [
            argument("config", "[CONFIG]", needed=False, help="a file (FILE.toml)"),
            flag("--example", "print a CONFIG, and no more"),
            flag("--dry-run", "show the deployment and the most it can do, and run nothing"),
            *(
                option(f"--{unit}", "length of the run", type=float, metavar="N")
                for unit in ("hours", "minutes", "seconds")
            ),
            option("--seed", "of all that is random", type=int, metavar="N"),
            option("--costs", "what mpcsim calibrate has measured", metavar="FILE"),
            option(
                "--exactness",
                "recorded: the messages of recorded calls, for hours of load; real: the service "
                "itself, for minutes",
                type=click.Choice(EXACTNESSES),
            ),
            option("--deadline", "answers that come later are no use", type=float, metavar="MS"),
            flag("--curve", "latency against offered load"),
            flag("--sensitivity", "which input moves the p99 most"),
            repeatable(
                "--cheapest",
                "values of a part's field, such as node_replicas=1,2,3: the cheapest configuration "
                "that keeps --p99",
                metavar="FIELD=VALUE,...",
            ),
            option("--p99", "what --cheapest has to keep", type=float, metavar="MS"),
            repeatable(
                "--figure",
                "picture to write; its name says which: " + ", ".join(FIGURES),
                type=FILE,
                metavar="NAME.png",
            ),
            repeatable(
                "--table",
                "table to write; its name says which: " + ", ".join(TABLES),
                type=FILE,
                metavar="NAME.csv",
            ),
            option(
                "--workers",
                "processes for --curve (default: one for each core)",
                type=int,
                metavar="N",
            ),
            reference_option("CONFIG and files of calls", *PLAN),
        ],
        more=EPILOG,
    )


def run(options: Options) -> int:
    """Run the plan; return 1 if more calls come than can be answered."""
    if options.example:
        sys.stdout.write(EXAMPLE)
        return 0
    plan = _plan(options)
    from mpcsim.capacity import (
        Overloaded,
        running,  # here: it comes with the compiled simulation
    )
    from mpcsim.sim.experiments import PointFailed

    _check(options, plan)
    about = {
        "config": options.config,
        "seed": plan.seed,
        "costs": plan.costs or "measured.json",
        "version": __version__,
    }
    out = _Outputs(options.figure, options.table, about)
    out.draw("deployment", plan.deployment.plot)
    try:
        if options.dry_run:
            asked = running.demand_of(plan.deployment, plan.workload, plan.costs)
            _print(str(plan.deployment), f"  {asked.at_most}: then the {asked.bottleneck} is full")
            return 0
        with ProgressBar("run") as bar:
            found = plan.run(bar.update)
        _print(*_page(found, plan))
        out.of_run(found)
        _run_many(plan, options.workers, out)
    except (Overloaded, PointFailed) as error:
        raise UsageError(str(error)) from None
    except FileNotFoundError as error:  # of costs: everything else has been read
        raise UsageError(f"{error.filename}: {error.strerror}") from None
    return 1 if found.overload else 0


def _run_many(plan: Plan, workers: int | None, out: _Outputs) -> None:
    """Answer questions that take many runs."""
    from mpcsim.capacity import experiments

    deployment, workload = plan.deployment, plan.workload
    always: Any = {"seed": plan.seed, "costs": plan.costs}
    if plan.curve is not None:
        with _executor(workers) as executor:
            curve = experiments.load_curve(
                deployment,
                workload,
                rates_per_s=plan.curve.rates_per_s or None,
                minutes=plan.curve.minutes,
                executor=executor,
                progress=sys.stderr.isatty(),
                **always,
            )
        _print("", "Load by load:", str(curve))
        out.draw("curve", curve.plot)
        out.write("curve", curve.table)
    if (how := plan.sensitivity) is not None:
        with ProgressBar("run") as bar:
            moved = experiments.sensitivity(
                deployment,
                workload,
                percent=how.percent,
                change=how.change,
                minutes=how.minutes,
                progress=bar.update,
                **always,
            )
        _print("", f"What moves the p{how.percent:g}, with {how.change:.0%} less and more of it:")
        _print(_format_table(moved))
        out.write("sensitivity", moved)
    if (wanted := plan.cheapest) is not None:
        with ProgressBar("run") as bar:
            best = experiments.cheapest(
                deployment,
                workload,
                wanted.choices,
                p99_ms=wanted.p99_ms,
                minutes=wanted.minutes,
                progress=bar.update,
                **always,
            )
        _print("", f"The cheapest with a p99 below {wanted.p99_ms:g} ms, tried last:")
        _print(_format_table(best.tried))
        out.write("cheapest", best.tried)


# ---------------------------------------------------------------------- what is asked


def _plan(options: Options) -> Plan:
    """Return the plan of the file, with the options in place of its entries."""
    from mpcsim.capacity import Curve, Plan, Sensitivity

    if options.config is None:
        raise UsageError("CONFIG is missing: a file; --example prints one")
    try:
        plan = Plan.load(options.config)
    except OSError as error:
        raise UsageError(f"{options.config}: {error.strerror or error}") from None
    given = {
        name: value
        for name in ("seed", "costs", "exactness")
        if (value := getattr(options, name)) is not None
    }
    lengths = {name: getattr(options, name) for name in ("hours", "minutes", "seconds")}
    if any(length is not None for length in lengths.values()):
        given |= {name: length or 0.0 for name, length in lengths.items()}
    if options.deadline is not None:
        given["deadline_ms"] = options.deadline
    if options.curve and plan.curve is None:
        given["curve"] = Curve()
    if options.sensitivity and plan.sensitivity is None:
        given["sensitivity"] = Sensitivity()
    if options.cheapest or options.p99 is not None:
        given["cheapest"] = _cheapest(options, plan.cheapest)
    return replace(plan, **given)


def _cheapest(options: Options, known: Cheapest | None) -> Cheapest:
    from mpcsim.capacity import Cheapest

    choices = dict(map(_choice, options.cheapest)) or (known.choices if known else {})
    p99_ms = options.p99 if options.p99 is not None else (known.p99_ms if known else None)
    if p99_ms is None:
        raise UsageError("--cheapest: which p99 is to be kept? --p99 MS")
    if not choices:
        raise UsageError("--p99: which fields may be altered? --cheapest node_replicas=1,2,3")
    if known is not None:
        return replace(known, p99_ms=p99_ms, choices=choices)
    return Cheapest(p99_ms, choices)


def _choice(text: str) -> tuple[str, tuple[int | float, ...]]:
    name, _, values = text.partition("=")
    try:
        return name, tuple(
            int(each) if each.isdigit() else float(each) for each in values.split(",")
        )
    except ValueError:
        raise UsageError(f"--cheapest: {text!r} is not like node_replicas=1,2,3") from None


# ---------------------------------------------------------------------- what is written


def _check(options: Options, plan: Plan) -> None:
    """Check the outputs before anything is run."""
    from mpcsim.capacity.experiments import with_parts

    for name, values in (plan.cheapest.choices if plan.cheapest else {}).items():
        for value in values:
            with_parts(plan.deployment, {name: value})
    for name, paths, known in (
        ("--figure", options.figure, FIGURES),
        ("--table", options.table, TABLES),
    ):
        for path in paths:
            if path.stem not in known:
                raise UsageError(f"{name}: {path}: {unknown(name[2:], path.stem, known)}")
            if options.dry_run and path.stem != "deployment":
                raise UsageError(f"{name}: {path}: --dry-run runs nothing that it could show")
            if path.stem in TABLES[1:] and getattr(plan, path.stem) is None:
                raise UsageError(f"{name}: {path}: nobody asks for it: --{path.stem}")
            prepare_output(name, path, PICTURES if known is FIGURES else TABLE_ENDINGS)
    if options.workers is not None and options.workers < 1:
        raise UsageError(f"--workers is {options.workers}: not a whole number from 1 on")


class _Outputs:
    """Output files that the options ask for."""

    def __init__(
        self, figures: Sequence[Path], tables: Sequence[Path], about: Mapping[str, object]
    ) -> None:
        """
        Args:
            about: what made them, for the metadata of pictures and further columns of tables.
        """
        self.about = about
        self.figures = {path.stem: path for path in figures}
        self.tables = {path.stem: path for path in tables}

    def of_run(self, found: Run) -> None:
        """Write the pictures and tables of a run."""
        if self.figures.keys() & {"timeline", "utilisation", "slowest"}:
            from mpcsim.capacity.results import figures  # here: they come with matplotlib

            self.draw("timeline", lambda: figures.timeline(found))
            self.draw("utilisation", lambda: figures.utilisation(found))
            self.draw("slowest", lambda: figures.comparison({"slowest 1 %": found.made_of(0.01)}))
        if "run" in self.tables:
            self.write("run", found.table())

    def draw(self, name: str, make: Callable[[], Any]) -> None:
        """Write a picture, if it is asked for."""
        if (path := self.figures.get(name)) is not None:
            about = ", ".join(f"{name} {value}" for name, value in self.about.items())
            text = f"mpcsim capacity, {about}"
            self._written("--figure", path, lambda path: save_figure(make(), path, text))

    def write(self, name: str, table: pd.DataFrame) -> None:
        """Write a table, if it is asked for."""
        if (path := self.tables.get(name)) is not None:
            about = {name: value for name, value in self.about.items() if name not in table}
            made = table.assign(**about)
            self._written("--table", path, lambda path: made.to_csv(path, index=False))

    def _written(self, option: str, path: Path, write: Callable[[Path], object]) -> None:
        try:
            write(path)
        except OSError as error:
            raise UsageError(f"{option}: {path}: {error.strerror or error}") from None
        _print(f"written: {path}")


def _page(found: Run, plan: Plan) -> Iterator[str]:
    yield str(found)
    if plan.deadline_ms < float("inf"):
        good = found.goodput_per_s(plan.deadline_ms)
        yield f"  answered within {plan.deadline_ms:g} ms: {good:,.4g} a second"


def _format_table(table: pd.DataFrame) -> str:
    rows = [[_cell(value) for value in row] for row in table.itertuples(index=False)]
    columns = [str(name).replace("_", " ") for name in table.columns]
    numbers = frozenset(
        column
        for column, name in zip(columns, table.columns, strict=True)
        if table[name].dtype.kind in "if"
    )
    return Table(columns, rows, numbers).text()


def _cell(value: object) -> str:
    return f"{value:,.4g}" if isinstance(value, float) else str(value)


def _print(*lines: str) -> None:
    sys.stdout.write("\n".join(lines) + "\n")
    sys.stdout.flush()


# ---------------------------------------------------------------------- where it is run


@contextmanager
def _executor(workers: int | None) -> Iterator[Executor | None]:
    """Yield an executor of runs: None for this process, or a pool of ``workers``; by default one a
    core."""
    from mpcsim.processes import Processes

    if workers is None:
        yield None
    elif workers == 1:
        with ThreadPoolExecutor(1) as threads:
            yield threads
    else:
        with Processes(workers) as processes:
            yield processes
