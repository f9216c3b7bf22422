"""Notebooks and examples use of the package what is public."""

import ast
import re
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import nbformat
import pytest

from tests.helpers.notebooks import notebooks
from tests.helpers.public_names import private_in
from tests.helpers.repo import ROOT

MAGIC = re.compile(r"^[%!].*", re.MULTILINE)


def imported(path: Path) -> set[tuple[str, str]]:
    """Modules of the simulator, and the names that a notebook imports from them."""
    cells = nbformat.read(path, as_version=4).cells
    sources = [cell.source for cell in cells if cell.cell_type == "code"]
    trees = [ast.parse(MAGIC.sub("", source)) for source in sources]
    return {
        (node.module, alias.name)
        for tree in trees
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("mpcsim.sim")
        for alias in node.names
    }


@pytest.mark.parametrize("path", notebooks(), ids=lambda path: path.stem)
def test_what_notebooks_import_is_public(path):
    for name, what in imported(path):
        listed = what in getattr(import_module(name), "__all__", ())
        assert listed or find_spec(f"{name}.{what}"), f"{what} is not in {name}.__all__"


@pytest.mark.parametrize(
    "path", sorted((ROOT / "tests" / "examples").glob("*.py")), ids=lambda path: path.stem
)
def test_what_examples_use_is_public(path):
    assert private_in(path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    "line",
    [
        "from tests.helpers.repo import ROOT",
        "from mpcsim.service.rpc import _x",
        "from mpcsim.crypto.hashing import _framed",
        "from mpcsim.protocols.engine import Phase",
        "import node.app",
        "party._view",
    ],
)
def test_what_is_private_is_found(line):
    assert private_in(line)
