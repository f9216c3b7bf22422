"""``mpcsim serve``: start the system, say where it is, stop it all at Ctrl-C."""

from __future__ import annotations

import argparse
import os
import secrets
import shlex
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import httpx

from mpcsim.cli import gateway
from mpcsim.cli.network import conditions
from mpcsim.cli.ports import (
    APP_PORT,
    GATEWAY_PORT,
    LAB_PORT,
    gateway_port,
    mpc_node_port,
    port,
)
from mpcsim.cli.token import add_data, credentials
from mpcsim.errors import UsageError
from mpcsim.ids import MPC_NODES, PartyId
from mpcsim.lifetime import ending_with_its_starter, stopped_once
from mpcsim.listening import ConnectionLimits
from mpcsim.rpc import pins
from mpcsim.rpc.request_ids import configure_logs
from mpcsim.rpc.wire import HELLO_PATH, Hello
from mpcsim.settings import describe, read
from mpcsim.system import (
    DATA_FOLDER,
    HOST,
    Program,
    Revival,
    Running,
    access_token,
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
        epilog="environment variables of all servers:\n" + describe(ConnectionLimits),
    )
    parser.add_argument("--lab", action="store_true", help="start JupyterLab, too (LAB_PORT)")
    parser.add_argument(
        "--gateway-only", action="store_true", help="only the gateway and both MPC nodes"
    )
    gateway.add_options(parser)
    add_data(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Serve until Ctrl-C, SIGTERM or SIGHUP.

    An MPC node that ends is started again, and the others go on meanwhile: they are other people's.
    When anything else ends, so does the rest.
    """
    conditions(options.network)
    read(ConnectionLimits, os.environ)
    configure_logs()
    with stopped_once(), running() as processes:
        try:
            revival = _start(processes, options)
            while (ended := processes.ended(revival.names)) is None:
                revival.look()
                time.sleep(CHECK_S)
        except KeyboardInterrupt:
            with suppress(OSError):  # the terminal may be gone
                sys.stderr.write("\nstopping\n")
            return 0
        raise UsageError(f"the {ended} has stopped; so does the rest")


def _start(processes: Running, options: argparse.Namespace) -> Revival:
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
    lines = [f"{program.name:<12} {program.address}" for program in programs]
    if not options.gateway_only:
        lines[-1] += f"  (API page: {node.address}/api/docs)"
        if options.lab:
            lab, address = _lab_program(at, node, options.data)
            processes.start(lab)
            lines.append(f"{'lab':<12} {address}")
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
    known = credentials(data)
    token = access_token(at.address, known.api_key, known.api_secret, DEMO_USER)
    return [
        f"a first key, for the user {DEMO_USER}:",
        "",
        f"  curl -s {node.address}/v3/wallet/generate \\",
        f"    -H 'Authorization: Bearer {token}' \\",
        "    -H 'Content-Type: application/json' \\",
        """    -d '{"curve": "secp256k1", "password": "correct horse"}'""",
        "",
        f"another token: {shlex.join(_token_command(at, data))}",
    ]


def _lab_program(at: Program, node: Program, data: Path) -> tuple[Program, str]:
    """JupyterLab on the notebooks, and its address with the token that lets one in."""
    lab_port, token = port("LAB_PORT", LAB_PORT), secrets.token_hex(16)
    command = [*ending_with_its_starter("jupyterlab"), "--no-browser", f"--ip={HOST}"]
    command += [f"--port={lab_port}", "--ServerApp.port_retries=0", "--ServerApp.root_dir=."]
    command += ["--log-level=ERROR", "--LabApp.extension_manager=readonly"]
    if os.geteuid() == 0:
        # As in a container. It listens on loopback alone, and asks for its token.
        command.append("--allow-root")
    first = next(iter(sorted(Path("notebooks").glob("*.ipynb"))), None)
    page = "/lab" if first is None else f"/lab/tree/{first.as_posix()}"
    command.append(f"--LabApp.default_url={page}")
    environment = {
        "JUPYTER_TOKEN": token,
        "WAAS_API_URL": at.address,
        "WALLET_NODE_URL": node.address,
        "MPCSIM_DATA": str(data.resolve()),
    }
    lab = Program("lab", command, lab_port, "LAB_PORT", "/api", environment)
    return lab, f"{lab.address}{page}?token={token}"


def _token_command(at: Program, data: Path) -> list[str]:
    """For another shell, too, in which no variable says where things are."""
    options = [] if data == DATA_FOLDER else ["--data", str(data)]
    if (at.host, at.port) != (HOST, GATEWAY_PORT):
        options += ["--gateway", at.address]
    command = Path(sys.executable).with_name("mpcsim")
    here = Path.cwd()
    shown = command.relative_to(here) if command.is_relative_to(here) else command
    return [str(shown), "token", DEMO_USER, *options]
