"""``mpcsim serve``: start the system, say where it is, stop it all at Ctrl-C."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import httpx

from mpcsim.cli import gateway
from mpcsim.cli.lab import lab_program
from mpcsim.cli.logs import add_log_format, log_format
from mpcsim.cli.network import conditions, summary
from mpcsim.cli.ports import (
    APP_PORT,
    GATEWAY_PORT,
    gateway_port,
    mpc_node_port,
    port,
)
from mpcsim.cli.token import add_data
from mpcsim.errors import UsageError
from mpcsim.ids import MPC_NODES, PartyId
from mpcsim.lifetime import stopped_once
from mpcsim.listening import ConnectionLimits
from mpcsim.rpc import pins
from mpcsim.rpc.logs import FOLDER_VARIABLE, VARIABLE, LogSettings, configure_logs
from mpcsim.rpc.wire import HELLO_PATH, Hello
from mpcsim.service.data_folder import logs_in
from mpcsim.settings import describe, read
from mpcsim.sim.rich_display import counted
from mpcsim.sim.scenario import Scenario
from mpcsim.system import (
    DATA_FOLDER,
    HOST,
    Program,
    Revival,
    Running,
    backend,
    node_program,
    running,
)

DEMO_USER: Final = "alice"
CHECK_S: Final = 0.3
"""How often the processes are looked at."""


def add(subparsers: Any) -> None:
    """Declare the subcommand."""
    parser = subparsers.add_parser(
        "serve",
        help="start MPC nodes, gateway and REST node, each a process (ports: OPERATOR_PORT, "
        "INSTITUTION_PORT, GATEWAY_PORT, APP_PORT)",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="environment variables of all servers:\n" + describe(LogSettings, ConnectionLimits),
    )
    parser.add_argument("--lab", action="store_true", help="start JupyterLab, too (LAB_PORT)")
    parser.add_argument(
        "--gateway-only", action="store_true", help="only the gateway and both MPC nodes"
    )
    gateway.add_options(parser)
    add_log_format(parser)
    add_data(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Serve until Ctrl-C, SIGTERM or SIGHUP.

    An MPC node that ends is started again, and the others go on meanwhile: they are other people's.
    When anything else ends, so does the rest.
    """
    under = conditions(options.network)
    read(ConnectionLimits, os.environ)
    lines = log_format(options)
    files = {FOLDER_VARIABLE: os.environ.get(FOLDER_VARIABLE) or str(logs_in(options.data))}
    configure_logs(lines, read(LogSettings, files).log_folder, "supervisor")
    with stopped_once(), running({VARIABLE: lines, **files}) as processes:
        try:
            revival = _start(processes, options, under)
            while (ended := processes.ended(revival.names)) is None:
                revival.look()
                time.sleep(CHECK_S)
        except KeyboardInterrupt:
            with suppress(OSError):  # the terminal may be gone
                sys.stderr.write("\nstopping\n")
            return 0
        raise UsageError(f"the {ended} has stopped; so does the rest")


def _start(processes: Running, options: argparse.Namespace, under: Scenario | None) -> Revival:
    app_port = port("APP_PORT", APP_PORT)
    *mpc_nodes, at = backend(
        options.data,
        gateway.given(options),
        port=gateway_port(),
        mpc_node_ports={party: mpc_node_port(party) for party in MPC_NODES},
        host=options.host,
    )
    programs = [*mpc_nodes, at]
    processes.start(*programs)
    if not options.gateway_only:
        node = node_program(app_port, at, _pinned(mpc_nodes))
        programs.append(node)
        processes.start(node)
    apart = "none simulated"
    if under is not None:
        faults = f"; {counted(len(under.faults), 'fault')}" if under.faults else ""
        apart = f"{options.network}: {summary(under.network)}{faults}"
    lines = ["", *(f"{program.name:<12} {program.address}" for program in programs)]
    if not options.gateway_only:
        lines[-1] += f"  (API page: {node.address}/api/docs)"
        if options.lab:
            lab, address = lab_program(at, node, options.data)
            processes.start(lab)
            lines.append(f"{'lab':<12} {address}")
    lines.append(f"{'network':<12} {apart}")
    if not options.gateway_only:
        lines += ["", *_first_call(at, node, options.data)]
    lines.append("Ctrl-C stops everything.")
    sys.stdout.write("\n".join(lines) + "\n")
    sys.stdout.flush()
    return Revival(processes, mpc_nodes)


def _pinned(mpc_nodes: Sequence[Program]) -> dict[str, str]:
    """What tells the REST node who the MPC nodes are, from themselves: it need not believe the
    gateway. Whoever has set it knows better."""
    if os.environ.get(pins.VARIABLE):
        return {}
    identities = {}
    for program in mpc_nodes:
        answer = httpx.get(program.address + HELLO_PATH, trust_env=False)
        hello = Hello.from_bytes(answer.content)
        identities[PartyId(hello.party)] = hello.identity
    return {pins.VARIABLE: pins.text(identities)}


def _first_call(at: Program, node: Program, data: Path) -> list[str]:
    """It asks for a new user's key whenever it is run: who has a key gets no other."""
    token = _token_command(f'"{DEMO_USER}-$(date +%s)"', at, data)
    return [
        "a first key, for a new user:",
        "",
        f"  curl -s {node.address}/v3/wallet/generate \\",
        f"""    -H "Authorization: Bearer $({token})" \\""",
        "    -H 'Content-Type: application/json' \\",
        """    -d '{"curve": "secp256k1", "password": "correct horse"}'""",
        "",
        f"a token alone: {_token_command(DEMO_USER, at, data)}",
    ]


def _token_command(user: str, at: Program, data: Path) -> str:
    """For any shell in this folder, in which no variable says where things are.

    Args:
        user: as the shell is to read it.
    """
    options = [] if data == DATA_FOLDER else ["--data", str(data)]
    if (at.host, at.port) != (HOST, GATEWAY_PORT):
        options += ["--gateway", at.address]
    command = Path(sys.executable).with_name("mpcsim")
    here = Path.cwd()
    shown = command.relative_to(here) if command.is_relative_to(here) else command
    return " ".join([shlex.quote(str(shown)), "token", user, *map(shlex.quote, options)])
