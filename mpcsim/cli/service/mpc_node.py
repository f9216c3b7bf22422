"""``mpcsim mpc-node operator``: one MPC node alone; ``mpcsim link operator``: its link with the
gateway."""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mpcsim.cli.logs import add_log_format, log_folder, log_format
from mpcsim.cli.ports import (
    MPC_NODE_PORTS,
    add_metrics_port,
    metrics_port,
    mpc_node_port,
    mpc_node_variable,
)
from mpcsim.cli.token import add_data
from mpcsim.crypto import SystemRng
from mpcsim.ids import MPC_NODES, ROLES, PartyId
from mpcsim.service.operations import (
    HOST,
    GatewayOptions,
    RunningMpcNode,
    open_mpc_node,
    prepare,
    serve,
)
from mpcsim.service.process import ConnectionLimits, describe, read
from mpcsim.service.web import LogSettings, configure_logs

PARTIES = {ROLES[party]: party for party in MPC_NODES}


def add(subparsers: Any) -> None:
    """Declare the subcommands."""
    ports = ", ".join(
        f"{mpc_node_variable(party, 'PORT')} ({port})" for party, port in MPC_NODE_PORTS.items()
    )
    parser = subparsers.add_parser(
        "mpc-node",
        help="start one MPC node alone (see serve for all at once)",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=f"environment variables:\n  {ports}\n      Port to listen on.\n"
        + describe(LogSettings, ConnectionLimits),
    )
    parser.add_argument("role", choices=PARTIES, help="whose it is")
    parser.add_argument("--host", default=HOST, help="address it listens on (default %(default)s)")
    add_metrics_port(parser)
    add_log_format(parser)
    add_data(parser)
    parser.set_defaults(run=run)

    parser = subparsers.add_parser(
        "link",
        help="make the secret that the gateway shares with an MPC node, in the folders of both",
        description="Needed once where the folders are kept apart: on two machines, or for two "
        "containers. Take each to its place afterwards. serve does it by itself.",
    )
    parser.add_argument("role", choices=PARTIES, help="whose MPC node it is")
    add_log_format(parser)
    add_data(parser)
    parser.set_defaults(run=_link)


def run(
    options: argparse.Namespace,
    *,
    now: Callable[[], float] = time.time,
    opened: Callable[[RunningMpcNode], None] = lambda node: None,
) -> int:
    """Serve until Ctrl-C, SIGTERM or SIGHUP; arguments as for the gateway."""
    limits = read(ConnectionLimits, os.environ)
    shown_at = metrics_port(options)
    log = configure_logs(log_format(options), log_folder(), options.role)
    party: PartyId = PARTIES[options.role]
    node = open_mpc_node(options.data, party, GatewayOptions(log=log, log_now=time.time, now=now))
    opened(node)
    serve(node, options.host, mpc_node_port(party), limits, shown_at)
    return 0


def _link(options: argparse.Namespace) -> int:
    configure_logs(log_format(options))
    data: Path = options.data
    prepare(data, SystemRng(), [PARTIES[options.role]])
    return 0
