"""Every notebook runs from a clean kernel, and says what it says in the repository."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest

from tests.helpers.notebooks import execute, notebooks, texts

NOTEBOOKS = notebooks()
by_name = pytest.mark.parametrize("path", NOTEBOOKS, ids=[path.stem for path in NOTEBOOKS])


@pytest.mark.soak
@by_name
def test_runs_and_says_the_same(path: Path):
    committed = texts(nbformat.read(path, as_version=4))
    found = texts(execute(path))
    assert found == committed, f"run `make notebooks`, and look at what changed in {path.name}"


@by_name
def test_is_committed_with_its_outputs(path: Path):
    """In order, without gaps and without errors."""
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    assert not [output for cell in code for output in cell.outputs if output.output_type == "error"]
    assert any(cell.outputs for cell in code)
