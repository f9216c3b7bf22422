"""Traceability: every paper step has its function, every random oracle its own tag."""

import ast
import re
from collections import Counter
from functools import cache
from pathlib import Path

from mpcsim.crypto.hashing import Tag
from tests.helpers.repo import ROOT, parsed, python_files

STEPS = Path(__file__).with_name("specification.txt").read_text("utf-8").splitlines()
"""What the protocols implement, by document."""


@cache
def tags() -> dict[str, str]:
    """Every ``Spec:`` tag with the function that carries it."""
    found = {}
    for path in python_files("mpcsim"):
        if "Spec: " not in path.read_text(encoding="utf-8"):
            continue
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.FunctionDef):
                text = ast.get_docstring(node) or ""
                for tag in re.findall(r"^Spec: (.+)$", text, re.MULTILINE):
                    found.setdefault(tag, f"{path.relative_to(ROOT)}:{node.name}")
    return found


def test_every_step_has_a_function():
    found = tags()
    assert len(found) > 30
    for step in STEPS:
        assert any(tag.startswith(step) for tag in found), f"no function for {step}"


def test_every_tag_names_a_known_document():
    documents = {step.split(" | ")[0] for step in STEPS}
    for tag, where in tags().items():
        assert tag.split(" | ")[0] in documents, f"{where}: unknown document in {tag!r}"


def test_oracle_tags_are_unique_versioned_and_used():
    values = [tag.value for tag in Tag]
    assert max(Counter(values).values()) == 1
    assert all(re.fullmatch(r"mpcsim/[a-z0-9/-]+/v\d+", value) for value in values), values
    sources = "".join(path.read_text() for path in (ROOT / "mpcsim").rglob("*.py"))
    for tag in Tag:
        assert f"Tag.{tag.name}" in sources, f"{tag} is used nowhere"
