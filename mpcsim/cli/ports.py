"""Ports and addresses of the services: environment variables and defaults."""

from __future__ import annotations

import os
from typing import Final

import click

from mpcsim.cli.command import Options, option
from mpcsim.errors import UsageError
from mpcsim.ids import INSTITUTION, OPERATOR, ROLES, PartyId
from mpcsim.service.operations import HOST, METRICS_VARIABLE

GATEWAY_PORT: Final = 9090
APP_PORT: Final = 9091
MPC_NODE_PORTS: Final = {OPERATOR: 9092, INSTITUTION: 9093}
LAB_PORT: Final = 8888
CONTROL_PORT: Final = 9094
LAST_PORT: Final = 65535
PORT: Final = click.IntRange(1, LAST_PORT)
"""Type of an option that gives a port."""
METRICS_PORT: Final = 9100
"""First of the ports of ``serve``."""


def gateway_port() -> int:
    return port("GATEWAY_PORT", GATEWAY_PORT)


def mpc_node_port(party: PartyId) -> int:
    return port(mpc_node_variable(party, "PORT"), MPC_NODE_PORTS[party])


def mpc_node_address(party: PartyId) -> str:
    """Return the address of an MPC node for the gateway: ``OPERATOR_URL``, or this machine."""
    given = os.environ.get(mpc_node_variable(party, "URL"))
    return given or f"http://{HOST}:{mpc_node_port(party)}"


def metrics_port_option() -> click.Option:
    return option(
        "--metrics-port",
        "port with figures for Prometheus, GET /metrics, and whether it is ready, GET /ready "
        f"(default: {METRICS_VARIABLE}, or none)",
        type=PORT,
        metavar="PORT",
    )


def metrics_port(options: Options) -> int | None:
    """Return the metrics port of a process; None: no metrics.

    Raises:
        UsageError: the variable is not a port number.
    """
    given: int | None = options.metrics_port
    if given is None and os.environ.get(METRICS_VARIABLE):
        return port(METRICS_VARIABLE, 0)
    return given


def mpc_node_variable(party: PartyId, what: str) -> str:
    """Return the name of an environment variable about an MPC node, such as ``OPERATOR_PORT``."""
    return f"{ROLES[party].upper()}_{what}"


def port(variable: str, default: int) -> int:
    """Return a port from the environment.

    Raises:
        UsageError: the variable is not a port number.
    """
    text = os.environ.get(variable) or str(default)
    if not text.isdecimal() or not 1 <= int(text) <= LAST_PORT:
        raise UsageError(f"{variable} is {text!r}, not a port number")
    return int(text)
