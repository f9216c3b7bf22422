"""Notebooks and examples use of the package what is public."""

import ast
import re
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

import nbformat
import pytest

from tests.helpers.notebooks import notebooks
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
        module = import_module(name)
        part = isinstance(getattr(module, what), ModuleType)
        assert part or what in getattr(module, "__all__", ()), f"{what} is not in {name}.__all__"


def private_in(source: str) -> list[str]:
    """What an example uses that its readers could not, or should not."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names if not open_to_all(alias.name)]
        elif isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            found += [name for name in names if not open_to_all(name)]
        elif isinstance(node, ast.Attribute) and node.attr.startswith("_"):
            # What is a class's own or its base's, and what Jupyter asks for.
            own = isinstance(node.value, ast.Name) and node.value.id == "self"
            own |= node.attr == "__init__"
            if not own and not node.attr.startswith("_repr_"):
                found.append(node.attr)
    return found


def open_to_all(name: str) -> bool:
    first, *rest = name.split(".")
    if first == "tests":
        return rest[0] == "examples"
    if first != "mpcsim":
        return first != "node"
    if any(part.startswith("_") for part in rest):
        return False
    listed = getattr(import_module(name.rpartition(".")[0]), "__all__", None) if rest else None
    return listed is None or rest[-1] in listed or find_spec(name) is not None


@pytest.mark.parametrize(
    "path", sorted((ROOT / "tests" / "examples").glob("*.py")), ids=lambda path: path.stem
)
def test_what_examples_use_is_public(path):
    assert private_in(path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    "line",
    [
        "from tests.helpers.repo import ROOT",
        "from mpcsim.rpc import _x",
        "from mpcsim.hashing import _framed",
        "from mpcsim.protocol import Phase",
        "import node.app",
        "party._view",
    ],
)
def test_what_is_private_is_found(line):
    assert private_in(line)
