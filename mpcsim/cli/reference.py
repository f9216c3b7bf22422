"""``--reference``: the page of a file format, which is the docstring of its reader."""

from __future__ import annotations

import argparse
import inspect
import sys
from importlib import import_module
from typing import Any, Final

SCENARIO: Final = ("mpcsim.sim.scenario", "mpcsim.sim.network.network_specification")
NETWORK: Final = ("mpcsim.sim.network.files.networks",)
MEASUREMENTS: Final = tuple(
    f"mpcsim.sim.network.measured.tables.{name}" for name in ("pairs", "matrix", "tables")
)
PLAN: Final = ("mpcsim.capacity.plan", "mpcsim.capacity.model.arrival_files")
COSTS: Final = ("mpcsim.capacity.model.costs",)


def add_reference(parser: argparse.ArgumentParser, what: str, *modules: str) -> None:
    """Declare the option.

    Args:
        what: the files.
        modules: names of the modules that read them.
    """
    said = f"print how {what} are written, and no more"
    parser.add_argument("--reference", action=_Reference, nargs=0, const=modules, help=said)


class _Reference(argparse.Action):
    """Action that prints the pages and ends the command, as ``--version`` does."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        pages = (inspect.getdoc(import_module(name)) or "" for name in self.const)
        sys.stdout.write("\n\n\n".join(pages).replace("``", "") + "\n")
        parser.exit()
