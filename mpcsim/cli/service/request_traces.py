"""``mpcsim logs``: one call at all servers, from their log files; or the last calls."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from mpcsim.cli.command import FILE, Command, Options, argument, flag, option, repeatable
from mpcsim.cli.logs import log_folder
from mpcsim.cli.token import data_option
from mpcsim.errors import UsageError, escape_unprintable

if TYPE_CHECKING:
    from mpcsim.service.request_traces import LogScan, Request

LAST: Final = 20
LINES_OF_A_CALL: Final = 50
"""Limit of log lines of a call at node and gateway, health checks in between included."""
LOOK_S: Final = 0.5
ASKED: Final = ("/mpc/v1/", "/wallet/v1/")
"""Paths that nodes request of the gateway on behalf of calls."""


def command() -> Command:
    return Command(
        "logs",
        run,
        [
            argument("request_id", "[REQUEST_ID]", needed=False),
            repeatable(
                "--folder",
                "of log files, such as those collected from another machine; may be given more "
                "than once (default: LOG_FOLDER, or DATA/logs)",
                type=FILE,
                metavar="FOLDER",
            ),
            option("--perfetto", "write the call for ui.perfetto.dev", type=FILE, metavar="OUT"),
            option(
                "-n",
                "how many calls",
                type=click.IntRange(1, 999_999),
                default=LAST,
                metavar="N",
            ),
            flag("--json", "of a list: a JSON object a line"),
            flag("--errors", "only calls that failed"),
            flag("--follow", "go on with those to come"),
            data_option(),
        ],
        about="With a request id (X-Request-Id of any answer; its beginning will do): what became "
        "of that call, across all servers whose log files are there. Without: the last calls.",
    )


def run(options: Options) -> int:
    """Print the trace of a call, or list calls."""
    from mpcsim.service.operations import log_folder_of
    from mpcsim.service.request_traces import assemble_trace, find_request, text, to_simulator_trace

    folders = list(options.folder) or [Path(log_folder() or log_folder_of(options.data))]
    if options.request_id is None:
        if options.perfetto:
            raise UsageError("--perfetto: of which call? a request id is needed")
        return _list(folders, options)
    if options.errors or options.follow or options.json:
        raise UsageError("--errors and --follow are for lists, and so is --json")
    found = find_request(folders, options.request_id)
    _warn(found)
    story = assemble_trace(found.lines)
    if options.perfetto:
        try:
            path = to_simulator_trace(story).save_perfetto(options.perfetto)
        except OSError as error:
            raise UsageError(f"{options.perfetto}: {error.strerror or error}") from None
        sys.stdout.write(f"written: {path}\n")
    else:
        sys.stdout.write(text.format_trace(story) + "\n")
    return 0


def _list(folders: Sequence[Path], options: Options) -> int:
    from mpcsim.service.request_traces import LogFollower, Request, find_requests, text

    errors: bool = options.errors
    following = LogFollower(folders) if options.follow else None
    found = find_requests(folders, None if errors else LINES_OF_A_CALL * options.n)
    _warn(found)
    made = [line for line in found.lines if isinstance(line, Request)]
    if not made and not options.follow:
        raise UsageError(f"no request is in the log files of {', '.join(map(str, folders))}")
    _write(text.caller_requests(made, errors=errors)[-options.n :], as_json=options.json)
    node = any(request.role == "node" for request in made)
    while following is not None:
        time.sleep(LOOK_S)
        new = [line for line in following.lines() if isinstance(line, Request)]
        node = node or any(request.role == "node" for request in new)
        # What a node asks of the gateway is written before the node's own line is.
        own = [r for r in new if not (node and r.role == "gateway" and r.path.startswith(ASKED))]
        new = text.caller_requests(sorted(own, key=lambda request: request.at_s), errors=errors)
        _write(new, as_json=options.json)
    return 0


def _write(made: Sequence[Request], *, as_json: bool) -> None:
    from mpcsim.service.request_traces import text

    if as_json:
        lines = [json.dumps(asdict(request)) for request in made]
    else:
        lines = list(text.format_requests(made))
    sys.stdout.writelines(line + "\n" for line in lines)
    sys.stdout.flush()


def _warn(found: LogScan) -> None:
    """Warn of lines that are no log lines, which are left out."""
    for path, lines in found.unreadable.items():
        said = f"{path}: left out what is no log line ({lines})"
        sys.stderr.write(escape_unprintable(said) + "\n")
