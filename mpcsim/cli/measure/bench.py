"""``mpcsim bench``: measure this machine."""

from __future__ import annotations

import argparse
import json
import platform
import sys
from pathlib import Path
from typing import Any

from mpcsim.bench import FULL_RUNS, SECTIONS, sections
from mpcsim.errors import UsageError
from mpcsim.version import __version__


def add(subparsers: Any) -> None:
    """Declare the subcommand."""
    parser = subparsers.add_parser("bench", help="measure protocols, simulator and service here")
    parser.add_argument(
        "--json",
        type=Path,
        metavar="FILE",
        help="write the figures by name, and about: what made them",
    )
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
        about = {
            "version": __version__,
            "python": platform.python_version(),
            "runs": options.runs,
            "sections": list(options.only or SECTIONS),
        }
        options.json.write_text(json.dumps({"about": about, **figures}, indent=2) + "\n")
    return 0
