"""``mpcsim serve``: start the system, say where it is, stop it all at Ctrl-C."""

from __future__ import annotations

import gc
import os
import shlex
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from mpcsim.cli.command import Command, Options, flag, option
from mpcsim.cli.logs import log_format, log_format_option
from mpcsim.cli.network import conditions, summary
from mpcsim.cli.ports import (
    APP_PORT,
    CONTROL_PORT,
    GATEWAY_PORT,
    LAB_PORT,
    LAST_PORT,
    METRICS_PORT,
    PORT,
    gateway_port,
    mpc_node_port,
    mpc_node_variable,
    port,
)
from mpcsim.cli.service import gateway
from mpcsim.cli.token import data_option
from mpcsim.errors import UsageError
from mpcsim.ids import MPC_NODES, ROLES, PartyId
from mpcsim.service.operations import DATA_FOLDER, HOST, METRICS_VARIABLE
from mpcsim.service.process import (
    FOLDER_VARIABLE,
    SUPERVISED,
    VARIABLE,
    ConnectionLimits,
    LogSettings,
    describe,
    interrupt_once,
    read,
)
from mpcsim.service.storage import REGISTRY
from mpcsim.sim import counted

if TYPE_CHECKING:
    from mpcsim.service.operations import ProcessGroup, Program, RestartPolicy
    from mpcsim.sim import Scenario

DEMO_USER: Final = "alice"
SHOWN: Final = ("node", REGISTRY, *(ROLES[party] for party in MPC_NODES))
"""Processes with metrics, in the order of their ports."""
CHECK_S: Final = 0.3
"""Interval of looking at the processes."""


def command() -> Command:
    return Command(
        "serve",
        run,
        [
            flag("--lab", "start JupyterLab, too (LAB_PORT)"),
            flag("--gateway-only", "only the gateway and both MPC nodes"),
            option(
                "--control",
                "let mpcsim control break this service on purpose, over a port of this machine's "
                f"loopback (without a number {CONTROL_PORT}) with a token of its own; never where "
                "it matters",
                is_flag=False,
                flag_value=CONTROL_PORT,
                type=PORT,
                metavar="[PORT]",
            ),
            flag(
                "--metrics",
                "figures for Prometheus (/metrics), and whether each process is ready (/ready), at "
                f"four ports from {METRICS_VARIABLE} ({METRICS_PORT}) on: node, gateway, operator, "
                "institution",
            ),
            *gateway.gateway_options(),
            log_format_option(),
            data_option(),
        ],
        about="Ports: OPERATOR_PORT, INSTITUTION_PORT, GATEWAY_PORT, APP_PORT.",
        more="Environment variables of all servers:\n" + describe(LogSettings, ConnectionLimits),
    )


def run(options: Options) -> int:
    """Serve until Ctrl-C, SIGTERM or SIGHUP.

    An MPC node that ends is started again, and the others go on meanwhile: they are other people's.
    When anything else ends, so does the rest.
    """
    from mpcsim.service.operations import log_folder_of, process_group
    from mpcsim.service.web import configure_logs

    under = conditions(options.network)
    read(ConnectionLimits, os.environ)
    shown = _metrics_ports(options)
    _check_ports(options, shown)
    lines = log_format(options)
    files = {FOLDER_VARIABLE: os.environ.get(FOLDER_VARIABLE) or str(log_folder_of(options.data))}
    log_folder = read(LogSettings, files).log_folder
    # Of the gateway alone, whoever runs REST nodes has to know the MPC nodes' identities.
    supervised = {} if options.gateway_only else {SUPERVISED: "1"}
    with (
        interrupt_once(),
        process_group({VARIABLE: lines, **files, **supervised}) as processes,
        _starter(processes, options) as starter,
    ):
        configure_logs(lines, log_folder, "supervisor")
        _say(f"starting {', '.join(_names(options))}: some ten seconds")
        try:
            with starter.lock:
                revival = _start(starter, options, under, shown)
            gc.freeze()  # otherwise Python's own end takes a quarter of a second
            while True:
                with starter.lock:
                    if (ended := processes.find_ended(revival.names)) is not None:
                        break
                    revival.restart_due()
                time.sleep(CHECK_S)
        except KeyboardInterrupt:
            return 0
        raise UsageError(f"the {ended} has stopped; so does the rest")


@dataclass(frozen=True)
class _Starter:
    """Functions that start the service's processes, with or without fault injection."""

    processes: ProcessGroup
    start: Callable[..., None]
    """Function that starts programs, as ``ProcessGroup.start``."""
    program: Callable[[Program], Program] = lambda program: program
    """Function that returns the program to run for a program."""
    lock: AbstractContextManager[object] = field(default_factory=nullcontext)
    """Lock to hold while processes are started or stopped."""
    announce: Callable[[], str] = lambda: ""
    """Function that serves the faults once all runs, and returns their address, if there are
    any."""


@contextmanager
def _starter(processes: ProcessGroup, options: Options) -> Iterator[_Starter]:
    """Yield the starter; fault injection is loaded with ``--control`` only."""
    if options.control is None:
        yield _Starter(processes, processes.start)
        return
    from mpcsim.crypto import SystemRng
    from mpcsim.service.fault_injection import (
        FaultController,
        access,
        app,
        check_workers,
        with_fault_injection,
    )

    check_workers(os.environ)
    board = FaultController(processes, options.data)
    at = access.ControlAccess(f"http://{HOST}:{options.control}", SystemRng().bytes(32).hex())
    with app.serve_control(board.execute, at.token, options.control), ExitStack() as announced:

        def announce() -> str:
            announced.enter_context(access.write_access(options.data, at))
            return at.address

        try:
            yield _Starter(processes, board.start, with_fault_injection, board.lock, announce)
        finally:
            board.stop()


def _start(
    starter: _Starter,
    options: Options,
    under: Scenario | None,
    shown: Mapping[str, int],
) -> RestartPolicy:
    """
    Args:
        shown: where each process can be looked at, by its name.
    """
    from mpcsim.cli.service.jupyterlab import lab_program
    from mpcsim.service.operations import RestartPolicy, backend, node_program

    app_port = port("APP_PORT", APP_PORT)
    found = backend(
        options.data,
        gateway.given(options),
        port=gateway_port(),
        mpc_node_ports={party: mpc_node_port(party) for party in MPC_NODES},
        host=options.host,
    )

    def program(wanted: Program) -> Program:
        return starter.program(replace(wanted, metrics_port=shown.get(wanted.name)))

    *mpc_nodes, at = map(program, found)
    programs = [*mpc_nodes, at]
    starter.start(*programs)
    _say(*(f"{program.name:<12} {program.address}" for program in programs))
    lab: list[str] = []
    if not options.gateway_only:
        node = program(node_program(app_port, at, _pinned(mpc_nodes)))
        programs.append(node)
        starter.start(node)
        _say(f"{node.name:<12} {node.address}")
        if options.lab:
            jupyterlab, lab = lab_program(at, node, options.data)
            starter.processes.start(jupyterlab)
    apart = "none simulated"
    if under is not None:
        faults = f"; {counted(len(under.faults), 'fault')}" if under.faults else ""
        apart = f"{options.network}: {summary(under.network)}{faults}"
    lines = [f"{'network':<12} {apart}"]
    seen = [(each.name, each.metrics) for each in programs if each.metrics]
    lines += [f"{'metrics':<12} {address}/metrics  ({name}; /ready)" for name, address in seen]
    if control := starter.announce():
        command = _command("control", "status", *_data_option(options.data))
        lines.append(f"{'control':<12} {control}  ({command})")
    pages = "" if options.gateway_only else f"{node.address}/api/docs, {at.address}/api/docs"
    if lab:
        lines += [
            "",
            *lab,
            f"{'API':<12} {node.address}; pages to try it: {pages}",
            f"{'try first':<12} notebook 1, which JupyterLab opens: Shift+Enter runs a cell. "
            "Ctrl-C stops everything.",
        ]
    elif pages:
        lines += ["", *_first_call(at, node, options.data), f"{'API pages':<12} {pages}"]
    if not lab:
        lines.append("Ctrl-C stops everything.")
    _say(*lines)
    return RestartPolicy(starter.processes, mpc_nodes)


def _names(options: Options) -> list[str]:
    """Return the names of the processes that are to be started."""
    names = [*(ROLES[party] for party in MPC_NODES), "gateway"]
    names += [] if options.gateway_only else ["node"]
    return names + (["JupyterLab"] if options.lab and not options.gateway_only else [])


def _say(*lines: str) -> None:
    """Write lines to standard output at once."""
    sys.stdout.write("\n".join([*lines, ""]))
    sys.stdout.flush()


def _metrics_ports(options: Options) -> dict[str, int]:
    """Return the metrics port of each process, by name; none unless they are asked for.

    Raises:
        UsageError: the variable is not a port number, or there are too few from there on.
    """
    if not (options.metrics or os.environ.get(METRICS_VARIABLE)):
        return {}
    first = port(METRICS_VARIABLE, METRICS_PORT)
    if first + len(SHOWN) - 1 > LAST_PORT:
        raise UsageError(f"{METRICS_VARIABLE} is {first}: {len(SHOWN)} ports are needed from there")
    return {name: first + n for n, name in enumerate(SHOWN)}


def _check_ports(options: Options, shown: Mapping[str, int]) -> None:
    """Check that all ports are free before anything is started.

    Raises:
        UsageError: some are taken: names all of them.
    """
    from mpcsim.service.operations import Program, check_ports

    wanted = {ROLES[p]: (mpc_node_port(p), mpc_node_variable(p, "PORT")) for p in MPC_NODES}
    wanted["gateway"] = gateway_port(), "GATEWAY_PORT"
    if not options.gateway_only:
        wanted["node"] = port("APP_PORT", APP_PORT), "APP_PORT"
        if options.lab:
            wanted["lab"] = port("LAB_PORT", LAB_PORT), "LAB_PORT"
    if options.control is not None:
        wanted["control"] = options.control, "--control"
    hosts = {"gateway": options.host}
    check_ports(
        Program(name, (), *at, "/", host=hosts.get(name, HOST), metrics_port=shown.get(name))
        for name, at in wanted.items()
    )


def _pinned(mpc_nodes: Sequence[Program]) -> dict[str, str]:
    """Return the environment variables that pin the MPC nodes' identities for the REST node, read
    from the nodes themselves; variables that are set already stay."""
    import httpx

    from mpcsim.service.rpc import HELLO_PATH, Hello, pinned_identities

    if os.environ.get(pinned_identities.VARIABLE):
        return {}
    identities = {}
    for program in mpc_nodes:
        answer = httpx.get(program.address + HELLO_PATH, trust_env=False)
        hello = Hello.from_bytes(answer.content)
        identities[PartyId(hello.party)] = hello.identity
    return {pinned_identities.VARIABLE: pinned_identities.format_identities(identities)}


def _first_call(at: Program, node: Program, data: Path) -> list[str]:
    """Return a command that generates a new user's key whenever it is run."""
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
    """Return the command for a token, for any shell in this folder without environment variables.

    Args:
        user: as the shell is to read it.
    """
    options = _data_option(data)
    if (at.host, at.port) != (HOST, GATEWAY_PORT):
        options += ["--gateway", at.address]
    return f"{_command('token')} {user} {shlex.join(options)}".rstrip()


def _data_option(data: Path) -> list[str]:
    return [] if data == DATA_FOLDER else ["--data", str(data)]


def _command(*words: str) -> str:
    """Return a command of ``mpcsim``, for any shell in this folder."""
    command = Path(sys.executable).with_name("mpcsim")
    here = Path.cwd()
    shown = command.relative_to(here) if command.is_relative_to(here) else command
    return shlex.join([str(shown), *words])
