"""``mpcsim backup`` copies one service's store while it runs; ``mpcsim restore`` restores it."""

from __future__ import annotations

import sys
import time
from typing import Final

import click

from mpcsim.cli.command import FILE, Command, Options, argument, flag, option
from mpcsim.cli.token import data_option
from mpcsim.errors import UsageError
from mpcsim.ids import MPC_NODES, ROLES
from mpcsim.service.storage import PARTS, REGISTRY

_BACKUP: Final = """\
Copy the store of one service, whether or not it runs, to a new file. One part at a time: no command
reads both share stores. The copy is as secret as the store: of an MPC node it holds key shares, of
the gateway the key that signs tokens. The .link files are not in it: mpcsim link makes them anew.
"""
_RESTORE: Final = """\
Put a backup in the place of a service's store. The service must not run. What is there is kept
beside it; delete that once all is well. Anything that is no whole backup of this part, of this
deployment, by this version or an earlier one, is refused, and nothing has changed.

An MPC node has then forgotten what came after the backup. It serves a key again once the other MPC
node has told it, signed, what it knows of that key; the gateway sees to that when a key is used.
"""
_OTHER_TOO: Final = (
    "of an MPC node: the other one's store was put back, too, and neither remembers what came "
    "after: go on from what is in the two backups. The price: shares that were replaced by a "
    "recovery, or suspended, after both backups may be used again"
)


def command() -> Command:
    return Command("backup", _back_up, _parameters(), about=_BACKUP)


def restoring() -> Command:
    return Command(
        "restore",
        _restore,
        [*_parameters(), flag("--other-restored-too", _OTHER_TOO)],
        about=_RESTORE,
    )


def _parameters() -> list[click.Parameter]:
    return [
        option("--part", "whose store", type=click.Choice(PARTS), required=True),
        argument("file", "FILE", type=FILE, help="the backup"),
        data_option(),
    ]


def _back_up(options: Options) -> int:
    from mpcsim.service.operations import back_up

    found = back_up(options.data, options.part, options.file, time.time)
    sys.stdout.write(
        f"{options.file}: the {found.role}'s store as of {found.taken}; keep it as secret as that\n"
    )
    return 0


def _restore(options: Options) -> int:
    from mpcsim.service.operations import restore

    if options.other_restored_too and options.part == REGISTRY:
        raise UsageError("--other-restored-too is for an MPC node's store")
    done = restore(
        options.data,
        options.part,
        options.file,
        time.time,
        other_restored_too=options.other_restored_too,
    )
    lines = [f"the {options.part}'s store is that of {done.backup.taken} again"]
    if done.aside is not None:
        lines.append(
            f"what was there is in {done.aside}: delete it once all is well, it holds secrets"
        )
    if options.part == REGISTRY:
        lines.append("tokens that were made so far hold no more: callers have to log in again")
    else:
        (other,) = (ROLES[party] for party in MPC_NODES if ROLES[party] != options.part)
        lines.append(f"each key is served again once the {other} has been heard about it")
    sys.stdout.writelines(f"{line}\n" for line in lines)
    return 0
