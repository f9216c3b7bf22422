"""``mpcsim serve``: start the system, say where it is, stop it all at Ctrl-C."""

from __future__ import annotations

import argparse
import math
import os
import secrets
import shlex
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, TypeVar

from mpcsim.cli.network import add_network, parse
from mpcsim.cli.token import GATEWAY_PORT, add_data, credentials
from mpcsim.errors import UsageError
from mpcsim.gateway.sessions import LEASE_S
from mpcsim.gateway.smart_accounts import MakeService, over_rpc
from mpcsim.lifetime import ending_with_its_starter, stopped_once
from mpcsim.listening import ConnectionLimits
from mpcsim.rpc.request_ids import configure_logs
from mpcsim.service import open_gateway
from mpcsim.service.serving import serve as serve_gateway
from mpcsim.settings import describe, read
from mpcsim.system import (
    DATA_FOLDER,
    HOST,
    Program,
    Running,
    access_token,
    gateway_program,
    node_program,
    running,
)

N = TypeVar("N", int, float)

DEMO_USER: Final = "alice"
CHECK_S: Final = 0.3
"""How often the processes are looked at."""


def add(subparsers: Any) -> None:
    """Declare the subcommand."""
    parser = subparsers.add_parser(
        "serve",
        help="start gateway, MPC nodes and REST node (ports: GATEWAY_PORT, APP_PORT)",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="environment variables of both servers:\n" + describe(ConnectionLimits),
    )
    parser.add_argument("--lab", action="store_true", help="start JupyterLab, too (LAB_PORT)")
    parser.add_argument(
        "--gateway-only", action="store_true", help="only the gateway with both MPC nodes"
    )
    parser.add_argument(
        "--host", default=HOST, help="address the gateway listens on (default %(default)s)"
    )
    parser.add_argument(
        "--queue",
        type=_at_least(0, int),
        default=0,
        metavar="N",
        help="signing requests that may wait for one key (default: refuse a second one at once)",
    )
    parser.add_argument(
        "--token-lifetime",
        type=_at_least(1, float),
        default=3600.0,
        metavar="S",
        help="seconds a token holds",
    )
    parser.add_argument(
        "--lease",
        type=_at_least(0.1, float),
        default=LEASE_S,
        metavar="S",
        help="seconds a session's caller may be silent before the key's next caller takes its "
        "place (default %(default)s)",
    )
    add_network(parser)
    add_data(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Serve until Ctrl-C, SIGTERM or SIGHUP."""
    network = parse(options.network)
    limits = read(ConnectionLimits, os.environ)
    if options.gateway_only:
        configure_logs()
        gateway = open_gateway(
            options.data,
            smart_accounts=_chain(),
            network=network,
            queue=options.queue,
            token_lifetime_s=options.token_lifetime,
            lease_s=options.lease,
        )
        serve_gateway(gateway, options.host, port("GATEWAY_PORT", GATEWAY_PORT), limits)
        return 0
    with stopped_once(), running() as processes:
        try:
            _start(processes, options)
            while (ended := processes.ended()) is None:
                time.sleep(CHECK_S)
        except KeyboardInterrupt:
            with suppress(OSError):  # the terminal may be gone
                sys.stderr.write("\nstopping\n")
            return 0
        raise UsageError(f"the {ended} has stopped; so does the rest")


def _at_least(least: float, kind: Callable[[str], N]) -> Callable[[str], N]:
    """What argparse is to make of an option's text."""

    def number(text: str) -> N:
        with suppress(ValueError):
            if least <= (found := kind(text)) < math.inf:
                return found
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from {least} on")

    return number


def _chain() -> MakeService | None:
    """The chain of the smart-account flow: ``CHAIN_RPC_URL``, with ``CHAIN_BUNDLER_KEY`` to pay.

    Raises:
        UsageError: only one of the two is set, or the key is none.
    """
    url, key = os.environ.get("CHAIN_RPC_URL"), os.environ.get("CHAIN_BUNDLER_KEY")
    if bool(url) != bool(key):
        raise UsageError("CHAIN_RPC_URL and CHAIN_BUNDLER_KEY go together")
    return over_rpc(url, key) if url and key else None


def port(variable: str, default: int) -> int:
    """A port from the environment.

    Raises:
        UsageError: the variable is not a port number.
    """
    text = os.environ.get(variable) or str(default)
    if not text.isdigit() or not 1 <= int(text) <= 65535:
        raise UsageError(f"{variable} is {text!r}, not a port number")
    return int(text)


def _start(processes: Running, options: argparse.Namespace) -> None:
    gateway = gateway_program(
        port("GATEWAY_PORT", GATEWAY_PORT), _gateway_options(options), host=options.host
    )
    node = node_program(port("APP_PORT", 9091), gateway)
    processes.start(gateway)
    processes.start(node)
    lines = [
        f"gateway  {gateway.address}  (operator and institution behind it)",
        f"node     {node.address}  (API page: {node.address}/api/docs)",
    ]
    if options.lab:
        lab, address = _lab_program(gateway, node, options.data)
        processes.start(lab)
        lines.append(f"lab      {address}")
    known = credentials(options.data)
    token = access_token(gateway.address, known.api_key, known.api_secret, DEMO_USER)
    lines += [
        "",
        f"a first key, for the user {DEMO_USER}:",
        "",
        f"  curl -s {node.address}/v3/wallet/generate \\",
        f"    -H 'Authorization: Bearer {token}' \\",
        "    -H 'Content-Type: application/json' \\",
        """    -d '{"curve": "secp256k1", "password": "correct horse"}'""",
        "",
        f"another token: {shlex.join(_token_command(gateway, options.data))}",
        "Ctrl-C stops everything.",
    ]
    sys.stdout.write("\n".join(lines) + "\n")
    sys.stdout.flush()


def _gateway_options(options: argparse.Namespace) -> list[str]:
    given = ["--data", str(options.data), "--queue", str(options.queue)]
    given += ["--token-lifetime", str(options.token_lifetime), "--lease", str(options.lease)]
    return given + (["--network", options.network] if options.network else [])


def _lab_program(gateway: Program, node: Program, data: Path) -> tuple[Program, str]:
    """JupyterLab on the notebooks, and its address with the token that lets one in."""
    lab_port, token = port("LAB_PORT", 8888), secrets.token_hex(16)
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
        "WAAS_API_URL": gateway.address,
        "WALLET_NODE_URL": node.address,
        "MPCSIM_DATA": str(data.resolve()),
    }
    lab = Program("lab", command, lab_port, "LAB_PORT", "/api", environment)
    return lab, f"{lab.address}{page}?token={token}"


def _token_command(gateway: Program, data: Path) -> list[str]:
    """For another shell, too, in which no variable says where things are."""
    options = [] if data == DATA_FOLDER else ["--data", str(data)]
    if (gateway.host, gateway.port) != (HOST, GATEWAY_PORT):
        options += ["--gateway", gateway.address]
    command = Path(sys.executable).with_name("mpcsim")
    here = Path.cwd()
    shown = command.relative_to(here) if command.is_relative_to(here) else command
    return [str(shown), "token", DEMO_USER, *options]
