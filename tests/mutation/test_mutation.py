"""Mutants: every check is accounted for, and a mutant differs from the source as its name says."""

import ast
import json

import pytest

from tests.mutation import mutants, operators, sites
from tests.mutation.mutants import ROOMS, ROOT, all_checks

KILLERS = json.loads((ROOT / "tests/mutation/checks.json").read_text("utf-8"))
REASONS = json.loads((ROOT / "tests/mutation/survivors.json").read_text("utf-8"))
HINT = "run: python -m tests.mutation --count 0"


def test_every_check_has_a_test_that_fails_without_it():
    assert list(KILLERS) == list(all_checks()), HINT


def test_every_survivor_has_a_reason_and_is_still_there():
    for name, reason in REASONS.items():
        assert mutants.named(name).name == name
        assert reason.startswith(("equivalent: ", "accepted: ", "test: "))


def test_every_file_has_a_room():
    assert {mutants.room_of(path) for path in mutants.files()} == set(ROOMS)


PARTS = {
    sites.conjuncts: [
        ("a and b", ["a", "b"]),
        ("a or b", ["a or b"]),
        ("not (a or not b)", ["not a", "b"]),
        ("a <= b < c", ["a <= b", "b < c"]),
        ("not a", ["not a"]),
    ],
    sites.disjuncts: [
        ("a or b", ["a", "b"]),
        ("a and b", ["a and b"]),
        ("not (a and not b)", ["not a", "b"]),
        ("not 1 <= a <= 2 or b", ["not 1 <= a", "not a <= 2", "b"]),
        ("a <= b < c", ["a <= b < c"]),
    ],
}
"""Of what must hold, and of what is refused."""


@pytest.mark.parametrize("split", PARTS, ids=lambda split: split.__name__)
def test_conditions_are_split_into_parts(split):
    for source, expected in PARTS[split]:
        condition = ast.parse(source, mode="eval").body
        assert [ast.unparse(part) for part in split(condition)] == expected


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("x = a < b", {"x = a <= b", "x = a >= b"}),
        ("x = a and not b", {"x = a or not b", "x = a and b"}),
        ("if a:\n    b", {"if True:\n    b", "if False:\n    b"}),
        ("x = a + 1", {"x = a - 1", "x = a + 2", "x = a + 0"}),
        ("x = any(a)", {"x = all(a)"}),
        ("x = sorted(a, key=b)", {"x = list(reversed(sorted(a, key=b)))", "x = sorted(a)"}),
        ("x = tagged_hash(a)", {"x = tagged_hash()", "x = tagged_hash(b'')"}),
        ("a.b = c", {"pass"}),
        ("def f(*, a=True):\n    return a", {
            "def f(*, a=False):\n    return a", "def f(*, a=True):\n    return"}),
        ("try:\n    a\nexcept B:\n    c", {"try:\n    a\nexcept ():\n    c"}),
        ("raise A(1 + 1)", {"pass"}),
        ("raise InternalError(1)", set()),
        ("log.debug(1 + 1)", set()),
    ],
)  # fmt: skip
def test_small_mistakes(source, expected):
    found = set()
    for i in range(len(list(operators.find(ast.parse(source))))):
        tree = ast.parse(source)
        variant = list(operators.find(tree))[i]
        variant.place.put(variant.new)
        found.add(ast.unparse(ast.fix_missing_locations(tree)))
    assert found == expected


def test_a_mutant_differs_in_one_place_only():
    path = "mpcsim/protocols/reshare/rounds.py"
    original = ast.unparse(mutants.parsed(path)).splitlines()
    checks = [each for each in all_checks().values() if each.path == path]
    assert len(checks) >= 2
    for check in checks:
        mutant = ast.unparse(mutants.mutated(check.name)).splitlines()
        assert sum(a != b for a, b in zip(original, mutant, strict=True)) == 1
    names = [each.name for each in mutants.found(path, mutants.parsed(path))]
    assert len(names) == len(set(names)) > len(checks)
