"""``mpcsim attacks``: the attack gallery as a matrix; of the protocols, or of the service."""

from __future__ import annotations

from typing import Final

from mpcsim.cli.command import FILE, Command, Options, flag, option, repeatable
from mpcsim.cli.progress import ProgressBar
from mpcsim.errors import UsageError

EXAMPLES: Final = """\
  mpcsim attacks --only D1,O2
  mpcsim attacks --from my_attacks.py
"""


def command() -> Command:
    return Command(
        "attacks",
        run,
        [
            flag(
                "--service",
                "corrupt the service's components instead: every row of the table of trust",
            ),
            repeatable(
                "--only",
                "run these attacks only: D1, O2 or 'rogue key'; several with commas, or repeated",
                metavar="NAME",
            ),
            repeatable(
                "--from files",
                "a Python file with attacks of your own (objects of mpcsim.attacks.model.Attack): "
                "run those; with --only, those of them and of the gallery that it names",
                type=FILE,
                metavar="FILE",
            ),
            option("--json", "write the matrix as data", type=FILE, metavar="FILE"),
            option("--markdown", "write it as a table", type=FILE, metavar="FILE"),
        ],
        more=EXAMPLES,
    )


def run(options: Options) -> int:
    """Run the matrix; status 1 if a cell is missing or not as it must be."""
    # Research code is loaded by this command alone.
    if options.service:
        if options.only or options.files:
            raise UsageError("--only and --from are for attacks on the protocols, not on --service")
        from mpcsim.attacks.service import perform as perform_service

        with ProgressBar("attacks on the service") as bar:
            return perform_service(options, write=bar.write, progress=bar.update)
    from mpcsim.attacks import perform

    with ProgressBar("attacks") as bar:
        return perform(options, bar.write, bar.update)
