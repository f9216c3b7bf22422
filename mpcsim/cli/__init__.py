"""The ``mpcsim`` command."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from mpcsim.errors import UsageError
from mpcsim.platforms import require_posix
from mpcsim.version import __version__

__all__ = ["main", "parser"]

Run = Callable[[argparse.Namespace], int]


def main(arguments: Sequence[str] | None = None, runs: Mapping[str, Run] = {}) -> int:
    """Run a subcommand; returns the exit status.

    Args:
        runs: what is to be run of a subcommand in place of its own.
    """
    name = "mpcsim"
    try:
        require_posix()
        options = parser().parse_args(arguments)
        name += f" {options.command}"
        status: int = runs.get(options.command, options.run)(options)
    except UsageError as error:
        sys.stderr.write(f"{name}: error: {error}\n")
        return 2
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # as "| head" leaves it; the interpreter would write once more
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    return status


class CommandParser(argparse.ArgumentParser):
    """Parser that refuses an unknown option itself, with its own usage: that of the subcommand."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        found, more = super().parse_known_args(args, namespace)
        if more:
            known = [name for name in self._option_string_actions if name.startswith("--")]
            near = get_close_matches(more[0].partition("=")[0], known, 1)
            hint = f"; did you mean {near[0]}?" if near else ""
            self.error(f"unrecognized arguments: {' '.join(more)}{hint}")
        return found, more


def parser() -> argparse.ArgumentParser:
    """Return the command with all its subcommands."""
    # Here, because they import what is not on every platform.
    from mpcsim.cli import token
    from mpcsim.cli.measure import attacks, bench, calibrate, capacity
    from mpcsim.cli.service import (
        backup,
        credentials,
        doctor,
        events,
        fault_injection,
        gateway,
        mpc_node,
        request_traces,
        rotate,
        serve,
    )
    from mpcsim.cli.simulate import compare, demo, networks, sim, trace

    parser = CommandParser(prog="mpcsim", description="MPC wallet workbench")
    parser.add_argument("--version", action="version", version=__version__)
    subparsers = parser.add_subparsers(dest="command", required=True)
    for command in (
        serve,
        gateway,
        mpc_node,
        token,
        credentials,
        fault_injection,
        demo,
        sim,
        trace,
        compare,
        networks,
        capacity,
        bench,
        calibrate,
        attacks,
        events,
        backup,
        doctor,
        rotate,
        request_traces,
    ):
        command.add(subparsers)
    return parser
