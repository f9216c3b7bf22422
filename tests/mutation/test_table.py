"""The table is complete and true: every check, every mutant, every killing test."""

import ast
import os
import re
import subprocess
import sys

import pytest

from tests.mutation import mutants, sites
from tests.mutation.mutants import ROOT, all_checks
from tests.mutation.table import MARKDOWN, load, markdown

SHARDS = 6
ROWS = load()
HINT = "run: python -m tests.mutation --prune"


def test_every_check_is_in_the_table():
    missing = [name for name in all_checks() if name not in ROWS]
    assert not missing, f"{HINT}\n" + "\n".join(missing)


def test_the_table_names_no_check_that_is_gone():
    gone = [name for name in ROWS if name not in all_checks()]
    assert not gone, f"{HINT}\n" + "\n".join(gone)


def test_every_check_has_a_killing_test_or_a_reason():
    for name, row in ROWS.items():
        assert bool(row.killed_by) != bool(row.survives_because), name
        assert row.mutant == all_checks()[name].mutant, name


def test_survivors_are_few():
    assert sum(bool(row.survives_because) for row in ROWS.values()) <= 5


def test_every_killing_test_exists():
    known = {}
    for name, row in ROWS.items():
        if row.killed_by:
            path, _, function = row.killed_by.partition("::")
            if path not in known:
                tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
                known[path] = {
                    node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)
                }
            # ids of parameters are for the slow tests: they need the test to be imported
            assert re.match(r"[\w:]+", function).group().split("::")[-1] in known[path], name


def test_the_rendering_is_up_to_date():
    assert MARKDOWN.read_text(encoding="utf-8") == markdown(ROWS), HINT


def test_each_kind_of_check_is_found():
    kinds = {check.mutant.partition(" `")[0] for check in all_checks().values()}
    assert kinds == {
        "call removed",
        "condition made false",
        "error let pass",
        "made true",
        "`raise` removed",
        "without",
    }


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("a and b", ["a", "b"]),
        ("a or b", ["a or b"]),
        ("not (a or not b)", ["not a", "b"]),
        ("a <= b < c", ["a <= b", "b < c"]),
        ("not a", ["not a"]),
    ],
)
def test_what_must_hold_is_split_into_parts(source, expected):
    condition = ast.parse(source, mode="eval").body
    assert [ast.unparse(part) for part in sites.conjuncts(condition)] == expected


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("a or b", ["a", "b"]),
        ("a and b", ["a and b"]),
        ("not (a and not b)", ["not a", "b"]),
        ("not 1 <= a <= 2 or b", ["not 1 <= a", "not a <= 2", "b"]),
        ("a <= b < c", ["a <= b < c"]),
    ],
)
def test_what_is_refused_is_split_into_parts(source, expected):
    condition = ast.parse(source, mode="eval").body
    assert [ast.unparse(part) for part in sites.disjuncts(condition)] == expected


def test_a_mutant_differs_in_one_check_only():
    checks = [
        check
        for check in all_checks().values()
        if check.path == "mpcsim/protocols/reshare/rounds.py"
    ]
    assert len(checks) >= 2
    source = (ROOT / checks[0].path).read_text(encoding="utf-8")
    original = ast.unparse(ast.parse(source)).splitlines()
    seen = set()
    for check in checks:
        mutant = ast.unparse(mutants.mutated(check)).splitlines()
        assert len(mutant) == len(original)
        pairs = zip(original, mutant, strict=True)
        changed = [i for i, (line, other) in enumerate(pairs) if line != other]
        assert len(changed) == 1
        seen.update(changed)
    assert len(seen) == len(checks)


# ------------------------------------------------------------------ the mutants themselves


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    settings = {"OPENBLAS_NUM_THREADS": "1", "PYTHONOPTIMIZE": "", "HYPOTHESIS_PROFILE": "default"}
    return subprocess.run(
        [sys.executable, "-m", *arguments],
        cwd=ROOT,
        env={**os.environ, **settings},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )


@pytest.mark.soak
@pytest.mark.parametrize("part", range(1, SHARDS + 1))
def test_every_mutant_is_caught_by_its_killing_test(part):
    """And by no test that fails without a mutant, too."""
    ran = command("tests.mutation", "--verify", "--shard", f"{part}/{SHARDS}")
    assert ran.returncode == 0, ran.stdout


@pytest.mark.soak
def test_the_plugin_runs_any_tests_against_a_mutant():
    name = "mpcsim/protocols/dkg/steps.py check_share: SHARE_INCONSISTENT"
    ran = command(
        "pytest", "-q", "-pno:cacheprovider", "-ptests.mutation.plugin", "--mutant", name,
        ROWS[name].killed_by,
    )  # fmt: skip
    assert ran.returncode == pytest.ExitCode.TESTS_FAILED, ran.stdout
    unknown = command("pytest", "-ptests.mutation.plugin", "--mutant", "no such check")
    assert unknown.returncode == pytest.ExitCode.USAGE_ERROR
    assert "no check is called 'no such check'" in unknown.stdout
