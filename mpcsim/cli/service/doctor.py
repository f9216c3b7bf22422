"""``mpcsim doctor``: whether the gateway's registry and both MPC nodes fit, key by key."""

from __future__ import annotations

import asyncio
import json
import sys
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

import click

from mpcsim.cli.command import Command, Options, flag, option, repeatable
from mpcsim.cli.ports import mpc_node_address
from mpcsim.cli.token import data_option
from mpcsim.errors import UsageError
from mpcsim.ids import MPC_NODES, ROLES
from mpcsim.sim import counted

if TYPE_CHECKING:
    from mpcsim.service.gateway import Finding, Problem
    from mpcsim.service.operations import Doctor, KeyReport

KINDS: Final = ("fit", "stuck", "untold")
"""Kinds of keys in the totals; of ``untold`` keys a part that could not be reached knows more."""


def command() -> Command:
    return Command(
        "doctor",
        run,
        [
            option("--user", "only this user's keys", metavar="NAME_OR_ID"),
            flag(
                "--repair",
                "have the registry follow what both MPC nodes have signed and hold; nothing else "
                "is written",
            ),
            repeatable(
                "--name",
                "with --repair: sign up a user whom the registry does not know any more; "
                "repeatable",
                type=_name,
                metavar="USER_ID=NAME",
            ),
            flag("--json", "a JSON object a line: each key, then the totals"),
            data_option(),
        ],
        about="On the gateway's machine, beside a running gateway or without one: asks both MPC "
        "nodes for signed statements of what they hold, and compares. Status 0: all fits; 1: "
        "something is stuck, or could not be told; 2: it could not be done.",
        more="Environment variables: OPERATOR_URL, INSTITUTION_URL, OPERATOR_PORT and "
        "INSTITUTION_PORT,\nas for mpcsim gateway.",
    )


def run(options: Options) -> int:
    """Examine all keys, and print the findings."""
    if options.name and not options.repair:
        raise UsageError("--name goes with --repair")
    return asyncio.run(_examine(options))


async def _examine(options: Options) -> int:
    from mpcsim.service.operations import open_doctor

    addresses = {party: mpc_node_address(party) for party in MPC_NODES}
    totals: Counter[str] = Counter()
    users = set()
    async with open_doctor(options.data, addresses) as found:
        found.sign_up(dict(options.name))
        user_id = None if options.user is None else found.user_id(options.user)
        async for examined in found.examine(user_id, repair=options.repair):
            totals[_kind(examined.finding)] += 1
            totals["repaired"] += examined.repaired
            users.add(examined.finding.user_id)
            _print_line(_as_json(examined) if options.json else _line(examined))
        unheard = {
            ROLES[party]: _problem_as_json(problem) for party, problem in found.unavailable.items()
        }
        counts = {"keys": sum(map(totals.__getitem__, KINDS)), "users": len(users)}
        counts |= {name: totals[name] for name in (*KINDS, "repaired")}
        if options.json:
            _print_line({"totals": counts, "unheard": unheard})
        else:
            _print_totals(found, counts)
    return 1 if totals["stuck"] or unheard else 0


def _kind(finding: Finding) -> str:
    """Return the kind that a key counts as."""
    from mpcsim.service.gateway import ProblemKind

    if any(problem.kind is not ProblemKind.UNHEARD for problem in finding.problems):
        return "stuck"
    return "untold" if finding.problems else "fit"


def _name(text: str) -> tuple[str, str]:
    """Parse ``USER_ID=NAME``."""
    user_id, given, name = text.partition("=")
    if not (given and user_id and name):
        raise click.BadParameter(f"{text!r} is not USER_ID=NAME")
    return user_id, name


# ---------------------------------------------------------------------- for people


def _line(examined: KeyReport) -> str:
    finding = examined.finding
    sentences = map(_sentence, (*finding.problems, *finding.notes))
    problems = "; ".join([*([] if finding.problems else ["fits"]), *sentences])
    return f"{_who(finding)}: {'repaired; ' if examined.repaired else ''}{problems}"


def _who(finding: Finding) -> str:
    name = finding.username
    return f"{f'user {finding.user_id}' if name is None else name}, {finding.curve}"


def _sentence(problem: Problem) -> str:
    from mpcsim.service.gateway import ProblemKind

    if problem.kind is ProblemKind.UNHEARD:
        return problem.text
    return f"{problem.text}: {problem.advice}"


def _print_totals(found: Doctor, counts: dict[str, int]) -> None:
    for problem in found.unavailable.values():
        _print_line(f"{problem.text}: {problem.advice}")
    keys = f"{counted(counts['keys'], 'key')} of {counted(counts['users'], 'user')}"
    untold = f", {counts['untold']} could not be told" if counts["untold"] else ""
    repaired = f", {counts['repaired']} repaired" if counts["repaired"] else ""
    _print_line(f"{keys}: {counts['fit']} fit, {counts['stuck']} stuck{untold}{repaired}")


# ---------------------------------------------------------------------- for programs


def _as_json(examined: KeyReport) -> dict[str, Any]:
    finding = examined.finding
    return {
        "user_id": finding.user_id,
        "username": finding.username,
        "curve": finding.curve,
        "key_id": finding.key_id,
        "fits": not finding.problems,
        "repaired": examined.repaired,
        "troubles": [_problem_as_json(problem) for problem in finding.problems],
        "notes": [_problem_as_json(note) for note in finding.notes],
    }


def _problem_as_json(problem: Problem) -> dict[str, str]:
    return {"what": problem.kind.value, "text": problem.text, "advice": problem.advice}


def _print_line(what: str | dict[str, Any]) -> None:
    """Print one line; texts of MPC nodes in it cannot move the cursor."""
    line = json.dumps(what) if not isinstance(what, str) else what
    sys.stdout.write("".join(char if char.isprintable() else "?" for char in line) + "\n")
