"""``--log-format``: format of a server's log, and the folder of log files."""

from __future__ import annotations

import argparse
import os

from mpcsim.service.process import read
from mpcsim.service.web import FORMATS, VARIABLE, LogSettings


def add_log_format(parser: argparse.ArgumentParser) -> None:
    """Declare the option."""
    parser.add_argument(
        "--log-format",
        choices=FORMATS,
        help=f"lines for people, or JSON for programs (default text, or {VARIABLE})",
    )


def log_format(options: argparse.Namespace) -> str:
    """Return the log format of the option, or else of the environment.

    Raises:
        SettingsError: the variable names no format.
    """
    of_environment = read(LogSettings, os.environ).log_format
    return options.log_format or of_environment


def log_folder() -> str | None:
    """Return the folder of log files; None: there are none.

    Raises:
        SettingsError: a variable of logs has an impossible value.
    """
    return read(LogSettings, os.environ).log_folder
