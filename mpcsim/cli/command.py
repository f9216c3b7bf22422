"""Commands as data: a name, the function that runs it, its arguments and options.

Click parses, completes and prints the help. It is installed wherever the service is, as Uvicorn
needs it; Typer beside FastAPI would bring three more packages for the same.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import click

from mpcsim.errors import UsageError

FILE: Final = click.Path(path_type=Path)
"""Type of an option that names a file or folder."""
COUNT: Final = click.IntRange(0)
"""Type of a number of things, from 0 on."""


class Options(SimpleNamespace):
    """Values of a command's arguments and options, by name."""


Run = Callable[[Options], int]
"""Function that runs a command and returns its exit status."""


def at_least(least: float) -> click.FloatRange:
    """Return the type of finite numbers from ``least`` on."""
    return click.FloatRange(least, math.inf, max_open=True)


def argument(name: str, metavar: str = "", *, needed: bool = True, **more: Any) -> click.Argument:
    """Return a positional argument."""
    return click.Argument([name], metavar=metavar or None, required=needed, **more)


def option(names: str, text: str, **more: Any) -> click.Option:
    """Return an option that takes a value; its default is shown unless it is none.

    Args:
        names: its spellings, and the attribute for its value if that has another name.
        text: line of help.
    """
    return click.Option(names.split(), help=text, show_default=True, **more)


def repeatable(names: str, text: str, **more: Any) -> click.Option:
    """Return an option that may be given several times; its value is a tuple."""
    return click.Option(names.split(), help=text, multiple=True, **more)


def flag(names: str, text: str) -> click.Option:
    """Return an option without a value."""
    return click.Option(names.split(), help=text, is_flag=True)


class Command(click.Command):
    """Command whose function is given all options at once and returns the exit status."""

    def __init__(
        self,
        name: str,
        run: Run,
        parameters: Sequence[click.Parameter],
        *,
        text: str = "",
        about: str = "",
        more: str = "",
    ) -> None:
        """
        Args:
            text: one line of help; without one, that of the table of commands.
            about: paragraphs below that line.
            more: what stands at the end of the help, line for line: examples, variables.
        """
        super().__init__(name, params=list(parameters), help=text, short_help=text, epilog=more)
        self.about = about
        self.run = run

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse; a negative number is a value, not an option: ``control clock -60``."""
        ctx.ignore_unknown_options = any(re.match(r"-\.?\d", word) for word in args)
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> int:
        """Run the command; ``ctx.obj`` may have another function for its name."""
        run = (ctx.obj or {}).get(self.name, self.run)
        try:
            status: int = run(Options(**ctx.params))
        except UsageError as error:
            sys.stderr.write(f"{ctx.command_path}: error: {error}\n")
            return 2
        return status

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_help_text(ctx, formatter)
        if self.about:
            formatter.write_paragraph()
            with formatter.indentation():
                formatter.write_text(self.about)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        if self.epilog:
            formatter.write("\n" + self.epilog.rstrip("\n") + "\n")


def group(name: str, commands: Sequence[click.Command]) -> click.Group:
    """Return a command of several verbs, such as ``network fit`` and ``network show``."""
    return click.Group(name, {str(each.name): each for each in commands})
