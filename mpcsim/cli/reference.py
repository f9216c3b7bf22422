"""``--reference``: the page of a file format, which is the docstring of its reader."""

from __future__ import annotations

import inspect
from importlib import import_module
from typing import Final

import click

SCENARIO: Final = ("mpcsim.sim.scenario", "mpcsim.sim.network.network_specification")
NETWORK: Final = ("mpcsim.sim.network.files.networks",)
MEASUREMENTS: Final = tuple(
    f"mpcsim.sim.network.measured.tables.{name}" for name in ("pairs", "matrix", "tables")
)
PLAN: Final = ("mpcsim.capacity.plan", "mpcsim.capacity.model.arrival_files")
COSTS: Final = ("mpcsim.capacity.model.costs",)


def reference_option(what: str, *modules: str) -> click.Option:
    """Return the option.

    Args:
        what: the files.
        modules: names of the modules that read them.
    """

    def show(context: click.Context, option: click.Parameter, asked: bool) -> None:
        if asked:
            pages = (inspect.getdoc(import_module(name)) or "" for name in modules)
            click.echo("\n\n\n".join(pages).replace("``", ""))
            context.exit()

    return click.Option(
        ["--reference"],
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=show,
        help=f"Print how {what} are written, and no more.",
    )
