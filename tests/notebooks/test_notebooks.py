"""Every notebook runs from a clean kernel, and says what it says in the repository."""

import ast
import re
from pathlib import Path

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
    committed = texts(read(path))
    found = texts(execute(path))
    assert found == committed, f"run `make notebooks`, and look at what changed in {path.name}"


@by_name
def test_is_committed_with_its_outputs(path: Path):
    """In order, without gaps and without errors."""
    from nbformat import validate

    notebook = read(path)
    validate(notebook)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    assert not [output for cell in code for output in cell.outputs if output.output_type == "error"]
    assert any(cell.outputs for cell in code)


@by_name
def test_begins_with_words_and_ends_with_assertions(path: Path):
    notebook = read(path)
    assert notebook.cells[0].cell_type == "markdown"
    assert notebook.cells[0].source.startswith("# ")
    last = [cell for cell in notebook.cells if cell.cell_type == "code"][-1]
    tree = ast.parse(last.source)
    assert any(isinstance(statement, ast.Assert) for statement in ast.walk(tree))


@by_name
def test_cells_are_small_and_few(path: Path):
    """A cell fits a screen, longer code belongs into the package; a notebook has one subject."""
    notebook = read(path)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            assert len(cell.source.splitlines()) <= 31, cell.source
    assert len(notebook.cells) <= 30


@by_name
def test_says_what_one_will_know_and_what_to_try_next(path: Path):
    notebook = read(path)
    assert re.search(r"You will know .*? takes about \d+ minutes\.", notebook.cells[0].source)
    words = [cell.source for cell in notebook.cells if cell.cell_type == "markdown"]
    assert any(re.search(r"^## .*(try next|Where to go)", each, re.I | re.M) for each in words)


@by_name
def test_is_light(path: Path):
    assert path.stat().st_size <= MOST_BYTES
