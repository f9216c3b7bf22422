"""``mpcsim mpc-node operator``: one MPC node alone; ``mpcsim link operator``: its link with the
gateway."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mpcsim.cli.command import Command, Options, argument, option
from mpcsim.cli.logs import log_folder, log_format, log_format_option
from mpcsim.cli.ports import (
    MPC_NODE_PORTS,
    metrics_port,
    metrics_port_option,
    mpc_node_port,
    mpc_node_variable,
)
from mpcsim.cli.token import data_option
from mpcsim.ids import MPC_NODES, ROLES, PartyId
from mpcsim.service.operations import HOST
from mpcsim.service.process import ConnectionLimits, LogSettings, describe, read

if TYPE_CHECKING:
    from mpcsim.service.operations import RunningMpcNode

PARTIES = {ROLES[party]: party for party in MPC_NODES}


def command() -> Command:
    ports = ", ".join(
        f"{mpc_node_variable(party, 'PORT')} ({port})" for party, port in MPC_NODE_PORTS.items()
    )
    return Command(
        "mpc-node",
        run,
        [
            role_argument("whose it is"),
            option("--host", "address it listens on", default=HOST),
            metrics_port_option(),
            log_format_option(),
            data_option(),
        ],
        about="See serve for all at once.",
        more=f"Environment variables:\n  {ports}\n      Port to listen on.\n"
        + describe(LogSettings, ConnectionLimits),
    )


def link_command() -> Command:
    return Command(
        "link",
        _link,
        [role_argument("whose MPC node it is"), log_format_option(), data_option()],
        about="Needed once where the folders are kept apart: on two machines, or for two "
        "containers. Take each to its place afterwards. serve does it by itself.",
    )


def role_argument(text: str) -> click.Argument:
    return argument("role", type=click.Choice(list(PARTIES)), help=text)


def run(
    options: Options,
    *,
    now: Callable[[], float] = time.time,
    opened: Callable[[RunningMpcNode], None] = lambda node: None,
) -> int:
    """Serve until Ctrl-C, SIGTERM or SIGHUP; arguments as for the gateway."""
    from mpcsim.service.operations import GatewayOptions, open_mpc_node, serve
    from mpcsim.service.web import configure_logs

    limits = read(ConnectionLimits, os.environ)
    shown_at = metrics_port(options)
    log = configure_logs(log_format(options), log_folder(), options.role)
    party: PartyId = PARTIES[options.role]
    node = open_mpc_node(options.data, party, GatewayOptions(log=log, log_now=time.time, now=now))
    opened(node)
    serve(node, options.host, mpc_node_port(party), limits, shown_at)
    return 0


def _link(options: Options) -> int:
    from mpcsim.crypto import SystemRng
    from mpcsim.service.operations import prepare
    from mpcsim.service.web import configure_logs

    configure_logs(log_format(options))
    data: Path = options.data
    prepare(data, SystemRng(), [PARTIES[options.role]])
    return 0
