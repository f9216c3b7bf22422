"""``mpcsim calibrate``: measure the costs of the service on this machine."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any, Final

from mpcsim.capacity import OPERATIONS
from mpcsim.capacity.calibration import MINUTES
from mpcsim.cli.reference import COSTS, add_reference
from mpcsim.errors import UsageError
from mpcsim.sim import Table

FILE: Final = "costs.json"


def add(subparsers: Any) -> None:
    """Declare the subcommand."""
    parser = subparsers.add_parser(
        "calibrate", help="measure what the service costs on this machine, for capacity questions"
    )
    parser.add_argument(
        "file", nargs="?", default=FILE, metavar="FILE", help="to write (default %(default)s)"
    )
    parser.add_argument(
        "--minutes",
        type=float,
        default=MINUTES,
        metavar="N",
        help="about how long the loads take turns (default %(default)g)",
    )
    parser.add_argument(
        "--operations",
        nargs="+",
        metavar="NAME",
        default=list(OPERATIONS),
        help=f"which to measure (default all: {', '.join(OPERATIONS)})",
    )
    add_reference(parser, "cost files", *COSTS)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Measure the costs, write the file, and print them."""
    # Here, because this one loads the node and all it takes.
    from mpcsim.capacity.calibration import calibrate

    path = Path(options.file)
    if not path.absolute().parent.is_dir():
        raise UsageError(f"no such directory: {path.parent}")
    line = _Line()
    try:
        costs = calibrate(options.operations, options.minutes, line.write)
    finally:
        line.clear()
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
    return "\n".join(
        [
            Table(tuple(head), rows, frozenset(head[2:])).text(),
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


class _Line:
    """Status line on a terminal; nothing where there is no terminal."""

    def __init__(self) -> None:
        self._shown = sys.stderr.isatty()

    def write(self, what: str, done: float) -> None:
        if self._shown:
            sys.stderr.write(f"\r\x1b[K{done:4.0%}  {what}")
            sys.stderr.flush()

    def clear(self) -> None:
        if self._shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
