"""Find a killing test for every check that has none, and keep the table."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from tests.mutation import running
from tests.mutation.mutants import ROOT, all_checks
from tests.mutation.table import Row, load, save

SURVIVORS = "tests/mutation/test_survivors.py"
STAGES = {
    "mpcsim/rpc/": (
        ("tests/rpc", "tests/gateway/test_decision.py", "tests/gateway/test_signed_mail.py"),
        ("tests/gateway", "tests/node/test_trust.py"),
    ),
    "mpcsim/mpc_node/": (
        (
            "tests/mpc_node",
            "tests/service/test_grants.py",
            "tests/gateway/test_decision.py",
            "tests/gateway/test_refusals.py",
        ),
        (
            "tests/gateway",
            "tests/node/test_early_requests.py",
            "tests/node/test_ot_extension_k.py",
            "tests/node/test_presignatures.py",
            "tests/node/test_vault_policy.py",
        ),
    ),
    "mpcsim/gateway/": (
        (
            SURVIVORS,
            "tests/gateway/test_decision.py",
            "tests/gateway/test_key_tokens.py",
            "tests/gateway/test_refusals.py",
            "tests/gateway/test_suspensions.py",
        ),
        ("tests/gateway", "tests/mpc_node/test_presigned.py", "tests/node/test_vault_policy.py"),
    ),
    "node/": (
        (
            SURVIVORS,
            "tests/node/test_checks.py",
            "tests/node/test_records.py",
            "tests/node/test_trust.py",
            "tests/node/test_wallet.py",
            "tests/node/test_early_requests.py",
            "tests/node/test_vault_policy.py",
            "tests/node/test_presignatures.py",
            "tests/node/test_children.py",
            "tests/node/test_suspensions.py",
            "tests/node/test_vault.py",
        ),
        ("tests/node",),
    ),
    "": ((SURVIVORS, "tests/unit", "tests/protocols", "tests/attacks"), ("tests/property",)),
}
"""Where killing tests are looked for, by what the check's path begins with: first where they are
likely, then further afield."""

TRIES = 10
"""Tests run against a mutant before it is left to the next stage."""


class Candidate(NamedTuple):
    """A test in which a check refuses: without the check it may fail. The others cannot."""

    drawn: bool
    seconds: float
    test: str


def record(paths: tuple[str, ...]) -> dict[str, list[Candidate]]:
    """Run the tests once; for every check the tests in which it refused, quickest first."""
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "recorded.json"
        options = ("-q", "-pno:cacheprovider", "-mnot soak", f"--record-checks={path}")
        command = (sys.executable, "-m", "pytest", "-ptests.mutation.plugin", *options, *paths)
        environment = {**os.environ, "HYPOTHESIS_PROFILE": "ci"}
        subprocess.run(command, cwd=ROOT, env=environment, check=False)
        recorded = json.loads(path.read_text(encoding="utf-8"))
    found: dict[str, list[Candidate]] = {}
    for test, entry in recorded.items():
        for check in entry["refused"]:
            candidate = Candidate(entry["drawn"], entry["seconds"], test)
            found.setdefault(check, []).append(candidate)
    return {check: sorted(candidates) for check, candidates in found.items()}


def find(names: list[str], rows: dict[str, Row]) -> list[str]:
    """Look for killing tests and put them in the table; return the names of the checks left."""
    left: list[str] = []
    for area, stages in STAGES.items():
        here = [name for name in names if name.startswith(area)]
        names = [name for name in names if name not in here]
        for paths in stages:
            if here:
                here = find_among(paths, here, rows)
        left += here
    return left


def find_among(paths: tuple[str, ...], names: list[str], rows: dict[str, Row]) -> list[str]:
    """The same, among the tests of these files and folders."""
    checks = all_checks()
    candidates = record(paths)
    left = []
    for name in names:
        tests = [candidate.test for candidate in candidates.get(name, ())][:TRIES]
        killer = next((test for test in tests if running.run([test], name).caught), None)
        if killer is None:
            left.append(name)
        else:
            rows[name] = Row(checks[name].mutant, killed_by=killer)
            print(f"{name}\n    {killer}", flush=True)
        save(rows, checks)
    return left


def verify(rows: dict[str, Row]) -> list[str]:
    """Run every mutant against its killing test; return the names of those not caught."""
    missed = []
    for killers in by_file(rows).values():
        for name in running.escaped(killers):
            outcome = running.run([killers[name]], name)  # imported anew
            if not outcome.caught:
                print(f"NOT CAUGHT {name} (exit code {outcome.code})\n{outcome.output}", flush=True)
                missed.append(name)
    return missed


def by_file(rows: dict[str, Row]) -> dict[str, dict[str, str]]:
    """The killing test of each mutant: for every file of tests."""
    found: dict[str, dict[str, str]] = {}
    for name, row in rows.items():
        if row.killed_by:
            found.setdefault(row.killed_by.partition("::")[0], {})[name] = row.killed_by
    return found


def shard(rows: dict[str, Row], of: str) -> dict[str, Row]:
    """Part i of n of the rows, for ``of`` = ``i/n``, counting from 1; along the tests' files."""
    i, n = map(int, of.split("/"))
    names = sorted(rows, key=lambda name: rows[name].killed_by or "")
    return {name: rows[name] for name in names[len(names) * (i - 1) // n : len(names) * i // n]}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__)
    parser.add_argument(
        "--find", nargs="+", metavar="NAME", help="checks with this in their name, anew"
    )
    parser.add_argument("--verify", action="store_true", help="run every mutant, write nothing")
    parser.add_argument("--shard", default="1/1", metavar="I/N", help="verify only this part")
    parser.add_argument(
        "--prune", action="store_true", help="drop the rows of checks that are gone"
    )
    arguments = parser.parse_args()
    checks, rows = all_checks(), load()
    running.warm()
    if arguments.verify:
        part = shard(rows, arguments.shard)
        missed = verify(part)
        print(f"{len(part) - len(missed)} of {len(part)} as they must be")
        return bool(missed)
    if arguments.prune:
        rows = {name: row for name, row in rows.items() if name in checks}
    if arguments.find:
        names = [n for n in checks if any(part in n for part in arguments.find)]
    else:
        names = [name for name in checks if name not in rows]
    left = find(names, rows)
    save(rows, checks)
    for name in left:
        print(f"SURVIVES {name}")
    print(f"{len(checks)} checks, {len(rows)} in the table, {len(left)} without a killing test")
    return bool(left)


if __name__ == "__main__":
    sys.exit(main())
