"""``mpcsim trace``: show a recorded run in other forms, and check that it runs so again."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from mpcsim.errors import InvalidEncoding, UsageError, escape_unprintable
from mpcsim.sim import Trace, rerun


def add(subparsers: Any) -> None:
    """Declare the subcommand."""
    parser = subparsers.add_parser(
        "trace", help="look at a recorded run (Trace.save_jsonl, mpcsim sim --traces)"
    )
    parser.add_argument("file", metavar="FILE", help="a trace as JSON Lines")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="the whole trace as one JSON object")
    form.add_argument("--mermaid", action="store_true", help="a sequence diagram as Mermaid text")
    form.add_argument("--scenario", action="store_true", help="what made it, as a scenario file")
    form.add_argument("--perfetto", type=Path, metavar="OUT", help="write it for ui.perfetto.dev")
    form.add_argument(
        "--rerun",
        action="store_true",
        help="execute it again from its seeds; status 1 if it comes out otherwise",
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Print the chosen forms; by default the summary and the critical path."""
    trace = load(options.file)
    status = 0
    if options.json:
        said = trace.to_json(contents=bool(trace.contents))
    elif options.mermaid:
        said = trace.mermaid()
    elif options.scenario:
        said = str(trace.scenario)
        if not said:
            raise UsageError(f"{options.file}: this trace does not say what made it")
    elif options.perfetto:
        try:
            said = f"written: {trace.save_perfetto(options.perfetto)}"
        except OSError as error:
            raise UsageError(f"{options.perfetto}: {error.strerror or error}") from None
    elif options.rerun:
        found = rerun(trace)
        said, status = str(found), 0 if found.same else 1
    else:
        said = f"{trace.summary()}\n\n{trace.critical_path()}"
    if not options.json:  # JSON is data; the rest is for a terminal, and the file may be anybody's
        said = "\n".join(map(escape_unprintable, said.split("\n")))
    sys.stdout.write(said.rstrip("\n") + "\n")
    return status


def load(path: str) -> Trace:
    """Return the trace in a file.

    Raises:
        UsageError: it cannot be read, or is none: says where.
    """
    try:
        return Trace.load(path)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or error}") from None
    except InvalidEncoding as error:
        raise UsageError(f"{path}: {error}") from None
