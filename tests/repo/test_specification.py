"""Traceability: every paper step has its function, every random oracle its own tag."""

import ast
import re
from collections import Counter
from functools import cache

from mpcsim.crypto.hashing import Tag
from tests.helpers.repo import ROOT, parsed, python_files

STEPS = {
    "RFC9591": [
        *(f"Section 4.{n}" for n in range(1, 7)),
        *(f"Section 5.{n}" for n in range(1, 4)),
        "Section 6.1",
    ],
    "FROST20": [
        *(f"Figure 1 | round 1, step {n}" for n in (1, 2, 3, 5)),
        *(f"Figure 1 | round 2, step {n}" for n in (1, 2, 3, 4)),
    ],
    "DKLs23": [
        *(f"Protocol 3.6 | step {n}" for n in range(4, 11)),
        "Protocol 5.2 | sender",
        "Protocol 5.2 | receiver",
    ],
    "GS21": ["re-randomised presignatures | delta", "re-randomised presignatures | R'"],
    "Roy22": [f"Figure {n} | {who}" for n in (8, 13) for who in ("receiver", "sender")],
    "BIP32": ["Public parent key -> public child key", "Serialization format"],
    "MR19": ["Figure 8 | receiver, first message", "Figure 8 | sender", "Figure 8 | receiver"],
}
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
    for document, steps in STEPS.items():
        for step in steps:
            prefix = f"{document} | {step}"
            assert any(tag.startswith(prefix) for tag in found), f"no function for {prefix}"


def test_every_tag_names_a_known_document():
    for tag, where in tags().items():
        assert tag.split(" | ")[0] in STEPS, f"{where}: unknown document in {tag!r}"


def test_oracle_tags_are_unique_versioned_and_used():
    values = [tag.value for tag in Tag]
    assert max(Counter(values).values()) == 1
    assert all(re.fullmatch(r"mpcsim/[a-z0-9/-]+/v\d+", value) for value in values), values
    sources = "".join(path.read_text() for path in (ROOT / "mpcsim").rglob("*.py"))
    for tag in Tag:
        assert f"Tag.{tag.name}" in sources, f"{tag} is used nowhere"
