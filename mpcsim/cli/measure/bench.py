"""``mpcsim bench``: measure this machine."""

from __future__ import annotations

import json
import platform

import click

from mpcsim.bench import FULL_RUNS, SECTIONS
from mpcsim.cli.command import FILE, Command, Options, option, repeatable
from mpcsim.cli.progress import ProgressBar
from mpcsim.errors import UsageError
from mpcsim.version import __version__


def command() -> Command:
    return Command(
        "bench",
        run,
        [
            option(
                "--json",
                "write the figures by name, and about: what made them",
                type=FILE,
                metavar="FILE",
            ),
            option("--runs", "runs behind a median", type=int, default=FULL_RUNS),
            repeatable(
                "--only", "measure this section only (repeatable)", type=click.Choice(SECTIONS)
            ),
        ],
    )


def run(options: Options) -> int:
    """Measure, and print each table when it is there."""
    from mpcsim.bench import sections

    if options.runs < 1:
        raise UsageError("--runs must be at least 1")
    if options.json and not options.json.parent.is_dir():
        raise UsageError(f"no such directory: {options.json.parent}")
    figures: dict[str, float] = {}
    chosen = options.only or SECTIONS
    with ProgressBar("bench") as bar:
        for done, (text, found) in enumerate(sections(chosen, options.runs), 1):
            bar.write(text + "\n\n")
            bar.update(done / len(chosen))
            figures |= found
    if options.json:
        about = {
            "version": __version__,
            "python": platform.python_version(),
            "runs": options.runs,
            "sections": list(options.only or SECTIONS),
        }
        options.json.write_text(json.dumps({"about": about, **figures}, indent=2) + "\n")
    return 0
