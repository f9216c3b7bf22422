"""``--log-format``: format of a server's log, and the folder of log files."""

from __future__ import annotations

import os

import click

from mpcsim.cli.command import Options, option
from mpcsim.service.process import FORMATS, VARIABLE, LogSettings, read


def log_format_option() -> click.Option:
    return option(
        "--log-format",
        f"lines for people, or JSON for programs (default text, or {VARIABLE})",
        type=click.Choice(FORMATS),
    )


def log_format(options: Options) -> str:
    """Return the log format of the option, or else of the environment.

    Raises:
        SettingsError: the variable names no format.
    """
    of_environment = read(LogSettings, os.environ).log_format
    given: str | None = options.log_format
    return given or of_environment


def log_folder() -> str | None:
    """Return the folder of log files; None: there are none.

    Raises:
        SettingsError: a variable of logs has an impossible value.
    """
    return read(LogSettings, os.environ).log_folder
