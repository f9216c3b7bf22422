"""``mpcsim control SWITCH ...``: apply a fault to a service that runs with ``--control``."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from mpcsim.cli.network import conditions
from mpcsim.cli.token import add_data
from mpcsim.service.fault_injection import COMMANDS, Argument


def add(subparsers: Any) -> None:
    """Declare the subcommand."""
    parser = subparsers.add_parser(
        "control",
        help="break a service that runs with serve --control on purpose, and mend it again",
    )
    among = parser.add_subparsers(dest="switch", required=True, metavar="SWITCH")
    for switch in COMMANDS.values():
        each = among.add_parser(switch.name, help=switch.text)
        for argument in switch.arguments:
            _add(each, argument)
        add_data(each)
    parser.set_defaults(run=run)


def _add(parser: argparse.ArgumentParser, argument: Argument) -> None:
    if argument.flag:
        parser.add_argument(f"--{argument.name}", action="store_true", help=argument.text)
    elif not argument.is_positional:
        parser.add_argument(f"--{argument.name}", metavar=argument.name.upper(), help=argument.text)
    elif argument.optional:
        name = argument.name
        parser.add_argument(name, nargs="?", metavar=name.upper(), help=argument.text)
    else:
        parser.add_argument(argument.name, choices=argument.choices or None, help=argument.text)


def run(options: argparse.Namespace) -> int:
    """Apply the fault, and print the answer as JSON."""
    from mpcsim.service.fault_injection import over_http

    switch = COMMANDS[options.switch]
    answers = {argument.name: getattr(options, argument.name) for argument in switch.arguments}
    answers = switch.parse_arguments(
        {name: value for name, value in answers.items() if value is not None}
    )
    if (text := answers.get("scenario")) is not None and (found := conditions(text)) is not None:
        answers["scenario"] = found.dumps()
    answer = over_http(options.data).execute(switch.name, answers)
    sys.stdout.write(json.dumps(answer or {"done": switch.name}, indent=2) + "\n")
    return 0
