"""``mpcsim attacks``: the attack gallery as a matrix; of the protocols, or of the service."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any


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
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the matrix as data")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write it as a table")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run the matrix; status 1 if a cell is missing or not as it must be."""
    # Research code is loaded by this command alone.
    if options.service:
        from mpcsim.attacks.service.report import perform as perform_service

        return perform_service(options)
    from mpcsim.attacks.report import perform

    return perform(options)
