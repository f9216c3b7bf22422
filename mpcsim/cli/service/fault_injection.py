"""``mpcsim control SWITCH ...``: apply a fault to a service that runs with ``--control``."""

from __future__ import annotations

import json
import sys
from functools import partial

import click

from mpcsim.cli.command import Command, Options, argument, flag, group, option
from mpcsim.cli.network import conditions
from mpcsim.cli.token import data_option
from mpcsim.service.fault_injection import COMMANDS, Argument, ControlCommand


def command() -> click.Group:
    return group("control", [_command(switch) for switch in COMMANDS.values()])


def _command(switch: ControlCommand) -> Command:
    parameters = [*map(_parameter, switch.arguments), data_option()]
    return Command(switch.name, partial(run, switch), parameters, text=switch.text)


def _parameter(of: Argument) -> click.Parameter:
    if of.flag:
        return flag(f"--{of.name}", of.text)
    if not of.is_positional:
        return option(f"--{of.name}", of.text, metavar=of.name.upper())
    kind = click.Choice(of.choices) if of.choices and not of.optional else None
    metavar = "" if kind else of.name.upper()
    return argument(of.name, metavar, needed=not of.optional, type=kind, help=of.text)


def run(switch: ControlCommand, options: Options) -> int:
    """Apply the fault, and print the answer as JSON."""
    from mpcsim.service.fault_injection import over_http

    answers = {each.name: getattr(options, each.name) for each in switch.arguments}
    answers = switch.parse_arguments(
        {name: value for name, value in answers.items() if value is not None}
    )
    if (text := answers.get("scenario")) is not None and (found := conditions(text)) is not None:
        answers["scenario"] = found.dumps()
    answer = over_http(options.data).execute(switch.name, answers)
    sys.stdout.write(json.dumps(answer or {"done": switch.name}, indent=2) + "\n")
    return 0
