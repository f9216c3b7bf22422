"""``mpcsim bench``: measure this machine."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from mpcsim.bench import FULL_RUNS, SECTIONS, sections
from mpcsim.errors import UsageError


def add(subparsers: Any) -> None:
    """Declare the subcommand."""
    parser = subparsers.add_parser("bench", help="measure protocols, simulator and service here")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures by name")
    parser.add_argument(
        "--runs", type=int, default=FULL_RUNS, help="runs behind a median (default %(default)s)"
    )
    parser.add_argument(
        "--only", choices=SECTIONS, action="append", help="measure this section only (repeatable)"
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Measure, and print each table when it is there."""
    if options.runs < 1:
        raise UsageError("--runs must be at least 1")
    if options.json and not options.json.parent.is_dir():
        raise UsageError(f"no such directory: {options.json.parent}")
    figures: dict[str, float] = {}
    for text, found in sections(options.only or SECTIONS, options.runs):
        sys.stdout.write(text + "\n\n")
        sys.stdout.flush()
        figures |= found
    if options.json:
        options.json.write_text(json.dumps(figures, indent=2) + "\n")
    return 0
