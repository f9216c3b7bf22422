"""The ``mpcsim`` command."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, Final, NamedTuple

from mpcsim.errors import MissingExtra, UsageError, needs_extra
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
        words = sys.argv[1:] if arguments is None else arguments
        options = parser(words[0] if words else None).parse_args(words)
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


def parser(command: str | None = None) -> argparse.ArgumentParser:
    """Return the command with its subcommands.

    Args:
        command: the one that is wanted: only those of its group are loaded, and their libraries
            must be installed. By default every group whose libraries are.
    """
    parser = CommandParser(prog="mpcsim", description="MPC wallet workbench")
    parser.add_argument("--version", action="version", version=__version__)
    subparsers = parser.add_subparsers(dest="command", required=True)
    wanted = [group for group in _GROUPS if command in group.words]
    for group in wanted or _GROUPS:
        try:
            with needs_extra(group.extra, ", ".join(group.words)):
                modules = group.load()
        except MissingExtra as missing:
            if wanted:
                raise
            parser.epilog = f"{parser.epilog or 'Not installed:'} {missing}."
            continue
        for module in modules:
            module.add(subparsers)
    return parser


# Loaded on demand: some import what is not on every platform, or not always installed.


def _service() -> tuple[Any, ...]:
    from mpcsim.cli import token
    from mpcsim.cli.service import (
        backup,
        credentials,
        doctor,
        events,
        faucet,
        fault_injection,
        gateway,
        mpc_node,
        request_traces,
        rotate,
        serve,
    )

    running = (serve, gateway, mpc_node, token, credentials, faucet, fault_injection)
    return (*running, events, backup, doctor, rotate, request_traces)


def _simulation() -> tuple[Any, ...]:
    from mpcsim.cli.simulate import compare, networks, sim, trace

    return (sim, trace, compare, networks)


def _measuring() -> tuple[Any, ...]:
    from mpcsim.cli.measure import attacks, bench, calibrate, capacity
    from mpcsim.cli.simulate import demo

    return (demo, capacity, bench, calibrate, attacks)


class _Group(NamedTuple):
    """Subcommands that need the same libraries."""

    load: Callable[[], tuple[Any, ...]]
    extra: str
    words: tuple[str, ...]


_GROUPS: Final = (
    _Group(
        _service,
        "gateway",
        (
            *("serve", "gateway", "mpc-node", "link", "token", "credentials", "faucet"),
            *("control", "events", "backup", "restore", "doctor", "rotate", "logs"),
        ),
    ),
    _Group(_simulation, "", ("sim", "trace", "compare", "network")),
    _Group(_measuring, "workbench", ("demo", "capacity", "bench", "calibrate", "attacks")),
)
