"""``mpcsim events STORE``: an MPC node's log of key events, and whether anybody has altered it."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING

from mpcsim.cli.command import FILE, Command, Options, argument, flag, option
from mpcsim.sim import counted

if TYPE_CHECKING:
    from mpcsim.service.mpc_node import Event


def command() -> Command:
    return Command(
        "events",
        run,
        [
            argument(
                "store", "STORE", type=FILE, help="its database: DATA/operator/operator.sqlite"
            ),
            flag("--json", "a JSON object a line"),
            flag("--verify", "say where the log was altered; status 1 if it was"),
            option(
                "--other",
                "the other MPC node's, which shows what was rewritten or cut off (with --verify)",
                type=FILE,
                metavar="STORE",
            ),
        ],
    )


def run(options: Options) -> int:
    """Print events, one a line; or what is wrong with them."""
    from mpcsim.service.mpc_node import read_log, verify_logs

    log = read_log(options.store)
    if not options.verify:
        form = _as_json if options.json else _line
        sys.stdout.writelines(f"{form(event)}\n" for event in log)
        return 0
    found = verify_logs(log, read_log(options.other) if options.other else None)
    if found:
        sys.stdout.writelines(f"{text}\n" for text in found)
        return 1
    last = f", up to {log[-1].hash.hex()}" if log else ""
    sys.stdout.write(f"{counted(len(log), 'event')}, nothing was altered{last}\n")
    return 0


def _as_json(event: Event) -> str:
    return json.dumps({**asdict(event), "hash": event.hash.hex()})


def _line(event: Event) -> str:
    """Number, time and kind, and what else there is to it."""
    session = f"session {event.session}" if event.session else ""
    key = f"key {event.key_id}" if event.key_id else ""
    who = f"user {event.user_id}" if event.user_id else ""
    parts = (str(event.number), event.time, event.event, who, event.curve, key, session)
    text = " ".join(filter(None, parts))
    return f"{text}: {event.outcome}" if event.outcome else text
