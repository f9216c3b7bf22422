"""The ``mpcsim`` command."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from mpcsim import __version__
from mpcsim.bench.protocols import FULL_RUNS
from mpcsim.bench.report import SECTIONS, sections


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a subcommand; returns the exit status."""
    parser = argparse.ArgumentParser(prog="mpcsim", description="MPC wallet workbench")
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(dest="command", required=True)
    bench = commands.add_parser("bench", help="measure the protocols on this machine")
    bench.add_argument("--json", type=Path, metavar="FILE", help="write the figures by name")
    bench.add_argument(
        "--runs", type=int, default=FULL_RUNS, help="runs behind a median (default %(default)s)"
    )
    bench.add_argument(
        "--only", choices=SECTIONS, action="append", help="measure this section only (repeatable)"
    )
    options = parser.parse_args(arguments)
    if options.runs < 1:
        parser.error("--runs must be at least 1")
    if options.json and not options.json.parent.is_dir():
        parser.error(f"no such directory: {options.json.parent}")

    figures: dict[str, float] = {}
    for text, found in sections(options.only or SECTIONS, options.runs):
        sys.stdout.write(text + "\n\n")
        sys.stdout.flush()
        figures |= found
    if options.json:
        options.json.write_text(json.dumps(figures, indent=2) + "\n")
    return 0
