"""The ``mpcsim`` command."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from mpcsim import __version__
from mpcsim.cli import attacks, bench, demo, serve, token
from mpcsim.errors import UsageError

COMMANDS = (serve, token, demo, bench, attacks)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a subcommand; returns the exit status."""
    parser = argparse.ArgumentParser(prog="mpcsim", description="MPC wallet workbench")
    parser.add_argument("--version", action="version", version=__version__)
    subparsers = parser.add_subparsers(dest="command", required=True)
    for command in COMMANDS:
        command.add(subparsers)
    options = parser.parse_args(arguments)
    try:
        status: int = options.run(options)
    except UsageError as error:
        sys.stderr.write(f"mpcsim {options.command}: error: {error}\n")
        return 2
    except KeyboardInterrupt:
        return 130
    return status
