"""``mpcsim attacks``: the attack gallery as a matrix; of the protocols, or of the service.

mpcsim attacks --only D1,O2
mpcsim attacks --from my_attacks.py
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from mpcsim.errors import UsageError


def add(subparsers: Any) -> None:
    """Declare the subcommand."""
    parser = subparsers.add_parser(
        "attacks", help="run every known attack against the product, and against it unprotected"
    )
    parser.add_argument(
        "--service",
        action="store_true",
        help="corrupt the service's components instead: every row of the table of trust",
    )
    parser.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="NAME",
        help="run these attacks only: D1, O2 or 'rogue key'; several with commas, or repeated",
    )
    parser.add_argument(
        "--from",
        action="append",
        default=[],
        type=Path,
        dest="files",
        metavar="FILE",
        help="a Python file with attacks of your own (objects of mpcsim.attacks.model.Attack): "
        "run those; with --only, those of them and of the gallery that it names",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the matrix as data")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write it as a table")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run the matrix; status 1 if a cell is missing or not as it must be."""
    # Research code is loaded by this command alone.
    if options.service:
        if options.only or options.files:
            raise UsageError("--only and --from are for attacks on the protocols, not on --service")
        from mpcsim.attacks.service import perform as perform_service

        return perform_service(options)
    from mpcsim.attacks import perform

    return perform(options)
