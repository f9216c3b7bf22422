"""``mpcsim trace``: show a recorded run in other forms, and check that it runs so again."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

from mpcsim.cli.command import FILE, Command, Options, argument, flag, option
from mpcsim.errors import InvalidEncoding, UsageError, escape_unprintable

if TYPE_CHECKING:
    from mpcsim.sim import Trace

FORMS: Final = ("json", "mermaid", "scenario", "perfetto", "rerun")


def command() -> Command:
    return Command(
        "trace",
        run,
        [
            argument("file", "FILE", help="a trace as JSON Lines"),
            flag("--json", "the whole trace as one JSON object"),
            flag("--mermaid", "a sequence diagram as Mermaid text"),
            flag("--scenario", "what made it, as a scenario file"),
            option("--perfetto", "write it for ui.perfetto.dev", type=FILE, metavar="OUT"),
            flag("--rerun", "execute it again from its seeds; status 1 if it comes out otherwise"),
        ],
    )


def run(options: Options) -> int:
    """Print the chosen forms; by default the summary and the critical path."""
    from mpcsim.sim import rerun

    chosen = [f"--{form}" for form in FORMS if getattr(options, form)]
    if len(chosen) > 1:
        raise UsageError(f"one of them at a time: {', '.join(chosen)}")
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
    from mpcsim.sim import Trace

    try:
        return Trace.load(path)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or error}") from None
    except InvalidEncoding as error:
        raise UsageError(f"{path}: {error}") from None
