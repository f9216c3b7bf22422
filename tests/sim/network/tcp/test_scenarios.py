"""The scenarios of ``scenarios.txt``; and ``rules.txt``: which test holds which rule.

Numbers are worked out from the rule. The line is infinitely fast unless a scenario says otherwise,
a round trip takes 80 ms, and a kept connection's timeout is 280: its round trip and Linux's least,
200.
"""

from __future__ import annotations

import ast
import math
from pathlib import Path

import pytest

from tests.helpers import losing
from tests.helpers.repo import ROOT
from tests.sim.network.tcp.lab import Line, plain, took

HERE = Path(__file__).parent
MODELS = ROOT / "mpcsim" / "sim" / "network" / "tcp"
ROWS = [
    line.split(" | ")
    for line in (HERE / "scenarios.txt").read_text("utf-8").splitlines()
    if line and line[0] != "#"
]


def packet(word: str) -> losing.GraphMessage:
    kind, _, numbers = word.partition(":")
    return getattr(losing, kind)(*map(int, numbers.split("/")))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_a_rule(row: list[str]) -> None:
    _, stack, settings, messages, outcome = row
    of_line = {"mbit_per_s": math.inf, "loss": 0.05}
    of_stack = {}
    for name, value in (word.split("=") for word in settings.split() if word != "-"):
        chosen = of_line if name in {"mbit_per_s", "way", "loss", "back_loss"} else of_stack
        chosen[name] = ast.literal_eval(value)
    line = Line(plain(*stack.split(), **of_stack), **of_line)
    until = None
    for message in messages.split("; "):
        pause, segments, *words = message.split()
        how = {name: float(ms) for name, ms in (word.split("=") for word in words if "=" in word)}
        lost = [packet(word) for word in words if "=" not in word]
        until = how.pop("until", None)
        begin = line.now + float(pause)
        line.lose(float(pause), float(segments), *lost, wait=until is None, **how)
        if until is not None:
            line.run(begin + until)
    if until is None:
        line.run(line.now + 500)
    variable, expected = outcome.split(" = ")
    last = messages.count(";")
    found = took(line.done[last]) if variable == "took" else line.state(variable)
    assert found == pytest.approx(float(expected))


def test_every_rule_has_its_test() -> None:
    """``rules.txt`` names a test for each rule, and every function whose summary names an RFC, or a
    function of Linux or ns-3."""
    lines = (HERE / "rules.txt").read_text().splitlines()
    rows = [line.split(" | ") for line in lines if line and line[0] != "#"]
    for _, _, rule, test in rows:
        if test != "=":
            file, name = test.split(".")
            assert f"def {name}(" in (HERE / f"test_{file}.py").read_text(), rule
    own = [rule for *_, rule, test in rows if test == "="]
    assert sorted(own) == sorted(rule for rule, *_ in ROWS)
    following, functions = set(), set()
    for path in set(MODELS.rglob("*.py")) - {MODELS / "traffic.py"}:
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.FunctionDef):
                name = f"{path.relative_to(MODELS).with_suffix('')}.{node.name}"
                functions.add(name)
                summary = ast.get_docstring(node) or ""
                if "RFC" in summary or "(``" in summary:
                    following.add(name)
    named = {name for names, *_ in rows for name in names.split(", ")}
    assert following <= named <= functions
