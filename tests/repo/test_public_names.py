"""Whoever is outside uses what the rooms' faces offer, and what they offer is written down."""

import ast
import dataclasses
import inspect
import json
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from enum import EnumMeta
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import mpcsim
from mpcsim.service.web.user_limits import TokenBucket
from tests.helpers.notebooks import notebooks
from tests.helpers.public_names import private_in
from tests.helpers.repo import ROOT, parsed, python_files
from tests.helpers.reviewed import check_reviewed

PYTHON = re.compile(r"^```(?:py|python)\n(.*?)^```", re.MULTILINE | re.DOTALL)
NAMES = Path(__file__).with_name("public_names.json")


def sources() -> Iterator[tuple[str, str]]:
    """What is written from outside: notebooks, documents, examples, and the command."""
    for path in notebooks():
        for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
            if cell["cell_type"] == "code":
                yield path.stem, "".join(cell["source"])
    for path in (ROOT / "README.md", *sorted((ROOT / "notebooks" / "guides").glob("*.md"))):
        for block in PYTHON.findall(path.read_text(encoding="utf-8")):
            yield path.stem, block
    for folder in ("tests/examples", "mpcsim/cli"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            yield path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")


def test_whoever_is_outside_uses_what_is_offered():
    found = {
        (where, name)
        for where, source in sources()
        for name in private_in(source)
        # The command's files are one room: what they import of each other is its own matter.
        if not where.startswith("mpcsim/cli") or name.startswith(("mpcsim.", "node."))
        if not name.startswith("mpcsim.cli")
    }
    assert not found


def packages() -> list[str]:
    folders = [ROOT / "mpcsim", ROOT / "node"]
    inits = sorted(path for folder in folders for path in folder.rglob("__init__.py"))
    return [".".join(path.relative_to(ROOT).parent.parts) for path in inits]


def public(of: type) -> Iterator[tuple[str, Any]]:
    for name, method in vars(of).items():
        function = getattr(method, "__func__", method)
        if inspect.isfunction(function) and not name.startswith("_"):
            yield f"  {of.__name__}.{name}", function


def callables() -> Iterator[tuple[str, Any]]:
    """What can be called of what rooms offer, once each, and the methods of the classes."""
    seen = set()
    for room, names in offers().items():
        for name in names:
            of = getattr(import_module(room), name)
            if not callable(of) or of in seen or isinstance(of, EnumMeta):
                continue
            seen.add(of)
            yield f"{room}.{name}", of
            if isinstance(of, type):
                yield from public(of)


def arguments_of(of: Any) -> Iterable[inspect.Parameter]:
    """The arguments; none of what tells none: a protocol, or a type of C."""
    with suppress(TypeError, ValueError):
        return inspect.signature(of).parameters.values()
    return ()


def defaults() -> Iterator[str]:
    """The default of every argument that has one which can be told in a few words."""
    for name, of in callables():
        made = dataclasses.fields(of) if dataclasses.is_dataclass(of) else ()
        new = {f.name: f.default_factory() for f in made if callable(f.default_factory)}
        told = []
        for argument in arguments_of(of):
            value = new.get(argument.name, argument.default)
            text = f"{argument.name}={value!r}"
            is_told = value is not None and value is not argument.empty
            if is_told and len(text) <= 60 and "<" not in text and text[0] != "_":
                told.append(text)
        if told:
            yield f"{name}: {', '.join(told)}"


def test_defaults_are_as_written_down():
    check_reviewed(defaults(), NAMES.with_name("defaults.txt"))


def limits() -> Iterator[str]:
    """The numbers with a name in protocols, service and node: bounds, times, sizes."""
    for path in python_files("mpcsim/protocols", "mpcsim/service", "node"):
        name = path.relative_to(ROOT).with_suffix("")
        assigned = [
            each for each in parsed(path).body if isinstance(each, ast.Assign | ast.AnnAssign)
        ]
        targets = [getattr(each, "target", None) or each.targets[0] for each in assigned]
        names = [each.id for each in targets if isinstance(each, ast.Name) and each.id.isupper()]
        values = vars(import_module(".".join(name.parts))) if names else {}
        if told := [n for n in names if type(values[n]) in (int, float, TokenBucket)]:
            yield f"{name}: {', '.join(f'{n}={values[n]!r}' for n in told)}"


def test_limits_are_as_written_down():
    check_reviewed(limits(), NAMES.with_name("limits.txt"))


def test_what_rooms_offer_is_as_written_down():
    """A change of the surface shows in a diff: ``python -m tests.repo.test_public_names``."""
    assert offers() == json.loads(NAMES.read_text(encoding="utf-8"))


def offers() -> dict[str, list[str]]:
    listed = {name: getattr(import_module(name), "__all__", None) for name in packages()}
    return {name: sorted(names) for name, names in listed.items() if names}


@pytest.mark.parametrize(
    "line",
    [
        "from tests.helpers.repo import ROOT",
        "from mpcsim.service.rpc import _x",
        "from mpcsim.crypto.hashing import tagged_hash",
        "from mpcsim.protocols.engine import Phase",
        "from mpcsim.service.vault import sealing",
        "import mpcsim.service.vault.sealing",
        "import node.app",
        "party._view",
    ],
)
def test_what_is_private_is_found(line):
    assert private_in(line)


if __name__ == "__main__":
    NAMES.write_text(json.dumps(offers(), indent=1) + "\n", encoding="utf-8")


def test_completion_shows_public_names_only():
    assert dir(mpcsim) == sorted(mpcsim.__all__)
