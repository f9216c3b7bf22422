"""Every notebook runs from a clean kernel, and says what it says in the repository."""

import ast
import json
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.notebooks import execute, notebooks, read, texts

NOTEBOOKS = notebooks()[::-1]
"""Last one first: the longest are near the end, and no core waits for them then."""
MOST_BYTES = 1_000_000
"""Of a notebook: heavier ones are not shown by code hosts."""
by_name = pytest.mark.parametrize("path", NOTEBOOKS, ids=[path.stem for path in NOTEBOOKS])


@pytest.mark.soak
@by_name
def test_runs_and_says_the_same(path: Path):
    from nbformat import validate

    notebook = read(path)
    validate(notebook)
    committed = texts(notebook)
    found = texts(execute(path))
    assert found == committed, f"run `make notebooks`, and look at what changed in {path.name}"


def cells(path: Path, kind: str = "") -> list[dict[str, Any]]:
    """Return a notebook's cells of one kind, or all, without what it takes to execute them."""
    found = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return [
        {**cell, "source": "".join(cell["source"])}
        for cell in found
        if kind in ("", cell["cell_type"])
    ]


@by_name
def test_is_committed_with_its_outputs(path: Path):
    """In order, without gaps and without errors."""
    code = cells(path, "code")
    assert [cell["execution_count"] for cell in code] == list(range(1, len(code) + 1))
    outputs = [output for cell in code for output in cell["outputs"]]
    assert outputs
    assert not [output for output in outputs if output["output_type"] == "error"]


@by_name
def test_begins_with_words_and_ends_with_assertions(path: Path):
    first = cells(path)[0]
    assert first["cell_type"] == "markdown"
    assert first["source"].startswith("# ")
    tree = ast.parse(cells(path, "code")[-1]["source"])
    assert any(isinstance(statement, ast.Assert) for statement in ast.walk(tree))


@by_name
def test_cells_are_small_and_few(path: Path):
    """A cell fits a screen, longer code belongs into the package; a notebook has one subject."""
    for cell in cells(path, "code"):
        assert len(cell["source"].splitlines()) <= 31, cell["source"]
    assert len(cells(path)) <= 30


@by_name
def test_is_light(path: Path):
    assert path.stat().st_size <= MOST_BYTES
