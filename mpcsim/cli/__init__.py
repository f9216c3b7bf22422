"""The ``mpcsim`` command.

``COMMANDS`` says where each command is; its module is imported when it is called, since some need
libraries that are not on every platform, or not always installed.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Final, NamedTuple

import click
from click.shell_completion import CompletionItem, shell_complete

from mpcsim.cli.command import Run
from mpcsim.errors import UsageError, needs_extra
from mpcsim.platforms import require_posix
from mpcsim.version import __version__

__all__ = ["main", "program"]

NAME: Final = "mpcsim"
COMPLETION: Final = "_MPCSIM_COMPLETE"
"""Environment variable with which a shell asks for completions."""
CONTEXT: Final = {"help_option_names": ["-h", "--help"], "max_content_width": 120}


class Entry(NamedTuple):
    """Command in the table: its line of help, and where it is."""

    text: str
    module: str
    function: str = "command"
    """Function of the module that returns the command."""
    extra: str = ""
    """Extra of the package with the libraries that it needs."""


def _service(text: str, module: str, function: str = "command") -> Entry:
    return Entry(text, f"service.{module}", function, "gateway")


def _simulate(text: str, module: str) -> Entry:
    return Entry(text, f"simulate.{module}")


def _workbench(text: str, module: str) -> Entry:
    return Entry(text, module, extra="workbench")


COMMANDS: Final[Mapping[str, Mapping[str, Entry]]] = {
    "Run the service": {
        "serve": _service("Start MPC nodes, gateway and REST node, each a process.", "serve"),
        "gateway": _service("Start the gateway alone.", "gateway"),
        "mpc-node": _service("Start one MPC node alone.", "mpc_node"),
        "link": _service(
            "Make the secret that the gateway shares with an MPC node, in the folders of both.",
            "mpc_node",
            "link_command",
        ),
        "token": Entry("Print an access token for a user.", "token", extra="gateway"),
        "credentials": _service(
            "Print API key and secret of the gateway, and how to log in with curl.", "credentials"
        ),
        "faucet": _service(
            "Give an address coins on the gateway's own chain, and on no other.", "faucet"
        ),
    },
    "Explore and simulate": {
        "sim": _simulate(
            "Run a scenario: real protocols over a modelled network, in virtual time.", "sim"
        ),
        "trace": _simulate(
            "Look at a recorded run (Trace.save_jsonl, mpcsim sim --traces).", "trace"
        ),
        "demo": _workbench(
            "Generate, sign, recover and sign over a simulated WAN; print the timings.",
            "simulate.demo",
        ),
    },
    "Measure networks and load": {
        "compare": _simulate(
            "Compare how long the last task of each scenario takes, over its network.", "compare"
        ),
        "network": _simulate("Make networks from measurements, and show them.", "networks"),
        "capacity": _workbench(
            "Simulate the service under load: latencies, queues, what breaks first, what helps.",
            "measure.capacity",
        ),
    },
    "Attack and test": {
        "attacks": _workbench(
            "Run every known attack against the product, and against it unprotected.",
            "measure.attacks",
        ),
        "control": _service(
            "Break a service that runs with serve --control on purpose, and mend it again.",
            "fault_injection",
        ),
    },
    "Operate": {
        "backup": _service("Copy one service's store while it runs.", "backup"),
        "restore": _service("Put a backup of one service's store back.", "backup", "restoring"),
        "doctor": _service(
            "Check of every key whether registry and MPC nodes fit; repair the registry.", "doctor"
        ),
        "rotate": _service(
            "Change a key of the service, while it runs, or replace a lost one.", "rotate"
        ),
        "logs": _service(
            "Show one call at node, gateway and MPC nodes, from their log files; or the last "
            "calls.",
            "request_traces",
        ),
        "events": _service("Print an MPC node's log of key events, or verify it.", "events"),
    },
    "Measure this machine": {
        "bench": _workbench("Measure protocols, simulator and service here.", "measure.bench"),
        "calibrate": _workbench(
            "Measure what the service costs on this machine, for capacity questions.",
            "measure.calibrate",
        ),
    },
}
FIRST: Final = (
    ("mpcsim sim seoul", "a key and a signature between Seoul, gateway and institution"),
    ("mpcsim compare seoul seoul,access=lte", "a signature over two networks, with intervals"),
    ("mpcsim serve --lab", "the whole service, and JupyterLab on the notebooks"),
)
"""Commands to try first."""
END: Final = """\
Status: 0 done; 1 done, and the answer is bad (a run failed, keys do not fit, too much load); 2
refused, with the reason on standard error; 130 stopped by Ctrl-C; 141 the reader has gone.

Completion in bash: eval "$(_MPCSIM_COMPLETE=bash_source mpcsim)"; zsh and fish likewise.
"""


class Program(click.Group):
    """The program, with the commands of ``COMMANDS``."""

    def __init__(self) -> None:
        version = click.Option(
            ["--version"],
            is_flag=True,
            is_eager=True,
            expose_value=False,
            callback=_print_version,
            help="Show the version and exit.",
        )
        super().__init__(
            NAME, params=[version], help="MPC wallet workbench.", context_settings=CONTEXT
        )
        self.entries = {name: entry for part in COMMANDS.values() for name, entry in part.items()}

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.entries)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command.

        Raises:
            MissingExtra: a library that it needs is not installed.
            NoSuchCommand: there is none of that name; with the nearest ones.
        """
        if (entry := self.entries.get(cmd_name)) is None:
            if cmd_name.startswith("-"):  # an option of the program, which Click refuses
                return None
            raise click.exceptions.NoSuchCommand(cmd_name, possibilities=self.entries, ctx=ctx)
        with needs_extra(entry.extra, f"{NAME} {cmd_name}"):
            module = import_module(f"mpcsim.cli.{entry.module}")
        command: click.Command = getattr(module, entry.function)()
        command.help = command.help or entry.text
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Try first"):
            formatter.write_dl(FIRST)
        for part, entries in COMMANDS.items():
            with formatter.section(part):
                formatter.write_dl([(name, entry.text) for name, entry in entries.items()])

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        formatter.write("\n" + END)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete a command's name from the table: importing all commands would take seconds."""
        return [
            CompletionItem(name, help=entry.text)
            for name, entry in self.entries.items()
            if name.startswith(incomplete)
        ]


def program() -> Program:
    """Return the program, for its help and its documentation."""
    return Program()


def main(arguments: Sequence[str] | None = None, runs: Mapping[str, Run] | None = None) -> int:
    """Run a command; returns the exit status.

    Args:
        runs: functions to run for some commands, by name, in place of their own.
    """
    name = NAME
    try:
        require_posix()
        if asked := os.environ.get(COMPLETION):
            return shell_complete(program(), {}, NAME, COMPLETION, asked)
        words = list(sys.argv[1:] if arguments is None else arguments)
        with program().make_context(NAME, words, obj=runs) as context:
            status: int = context.command.invoke(context)
    except click.exceptions.Exit as ended:  # help or version were printed
        return ended.exit_code
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return 2
    except click.UsageError as error:
        if error.ctx is not None:
            name = error.ctx.command_path
            sys.stderr.write(f"{error.ctx.get_usage()}\n")
        sys.stderr.write(f"{name}: error: {error.format_message()}\n")
        return 2
    except UsageError as error:
        sys.stderr.write(f"{name}: error: {error}\n")
        return 2
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # as "| head" leaves it; the interpreter would write once more
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    return status


def _print_version(context: click.Context, option: click.Parameter, asked: bool) -> None:
    if asked:
        click.echo(__version__)
        context.exit()
