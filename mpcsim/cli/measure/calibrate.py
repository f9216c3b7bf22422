"""``mpcsim calibrate``: measure the costs of the service on this machine."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Final

from mpcsim.capacity import OPERATIONS
from mpcsim.cli.command import Command, Options, argument, option, repeatable
from mpcsim.cli.progress import ProgressBar
from mpcsim.cli.reference import COSTS, reference_option
from mpcsim.errors import UsageError
from mpcsim.sim import Table

FILE: Final = "costs.json"


def command() -> Command:
    return Command(
        "calibrate",
        run,
        [
            argument("words", "[FILE]", nargs=-1, needed=False, help=f"to write (default {FILE})"),
            option(
                "--minutes",
                "about how long the loads take turns",
                type=float,
                default=6.0,
                metavar="N",
            ),
            repeatable(
                "--operations",
                f"which to measure (default all: {', '.join(OPERATIONS)}); more may follow",
                metavar="NAME [NAME ...]",
            ),
            reference_option("cost files", *COSTS),
        ],
    )


def run(options: Options) -> int:
    """Measure the costs, write the file, and print them."""
    # Here, because this one loads the node and all it takes.
    from mpcsim.capacity.calibration import calibrate

    # Names may follow --operations without repeating it.
    more = [word for word in options.words if word in OPERATIONS and options.operations]
    files = [word for word in options.words if word not in more]
    if len(files) > 1:
        raise UsageError(f"one FILE is written, not {', '.join(files)}")
    path = Path(*files or [FILE])
    if not path.absolute().parent.is_dir():
        raise UsageError(f"no such directory: {path.parent}")
    names = [*options.operations, *more] or OPERATIONS
    with ProgressBar("calibrate") as bar:
        costs = calibrate(names, options.minutes, lambda what, done: bar.update(done, what))
    costs.save(path)
    sys.stdout.write(table(costs) + f"\n\nwritten: {path}\n")
    return 0


def table(costs: Any) -> str:
    """Return the measured costs as text."""
    parts = list(costs.turn_ms)
    rows = []
    for operation, loads in costs.cpu_ms.items():
        for load, cpu in loads.items():
            every = [cpu[part] for part in parts]
            cells = [f"{ms:.2f}" for ms in [*every, sum(every)]]
            cells.append(f"{cpu['twin']:.2f}" if "twin" in cpu else "")
            rows.append([operation, load, *cells])
    head = ["CPU, ms a call", "load", *parts, "all", "twin"]
    machine, chances = costs.machine, costs.scheduling
    turns = ", ".join(
        f"{part} {ms:.2f} ms and {costs.cold_ms[part]:.2f} after a pause"
        for part, ms in costs.turn_ms.items()
    )
    memory = ", ".join(
        f"{part} {rest:.0f} MB and {each:.2f} a call"
        for part, (rest, each) in costs.memory_mb.items()
    )
    fit = f"the model's CPU time of a call: off by {costs.fit_error:.1%} in the median"
    if costs.is_disturbed:
        fit += (
            "; THESE COSTS CONTRADICT EACH OTHER: the machine was not idle, or its cores slow each "
            "other; measure again"
        )
    return "\n".join(
        [
            Table(tuple(head), rows, frozenset(head[2:])).text(),
            f"  {fit}",
            f"  a turn of the event loop: {turns}",
            f"  from one process to another: {costs.hop_ms:.3f} ms",
            f"  who wakes up has the core of who woke it, though others are free: "
            f"{chances.together:.0%}; goes before who is there: {chances.ahead:.0%}; a core that "
            f"becomes free takes over who waits for another: {chances.takes:.0%}",
            f"  memory: {memory}",
            f"  machine: {machine.curve_us:.1f} us a multiplication, "
            f"{machine.interpreter_us:.0f} us a piece of Python, "
            f"{machine.argon2_ms:.0f} ms Argon2id, {machine.fsync_ms:.2f} ms fsync",
        ]
    )
