"""Imports point downwards, room by room, and the protocol code does no I/O of its own."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from itertools import takewhile
from pathlib import Path

import pytest

from tests.helpers.repo import ROOT, parsed

HERE = Path(__file__).parent
ARCHITECTURE = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")


def shown(block: str) -> list[str]:
    """Return the lines of a block of ARCHITECTURE.md that stands behind a comment."""
    return ARCHITECTURE.partition(f"<!-- {block} -->\n```\n")[2].partition("```")[0].splitlines()


# Floors, lowest first: what stands on one imports from lower ones alone, for type checkers, too.
# Rooms of one floor do not know each other. `node` is the REST node, beside `mpcsim`; all else is
# in `mpcsim`.
FLOORS = [line.split() for line in shown("layers")]
# The same inside a folder. A folder's own __init__ stands above all of it.
INSIDE: dict[str, list[list[str]]] = {}
for line in (*shown("inside"), *(HERE / "floors.txt").read_text().splitlines()[2:]):
    if line.startswith(" "):
        INSIDE[[*INSIDE][-1]].append(line.split())
    else:
        INSIDE[line.removesuffix("/")] = []

# Up to and including this floor, randomness, clock and I/O are injected.
PURE = ("crypto", "protocols")
BANNED_IMPORTS = {"asyncio", "socket", "time", "random", "secrets", "threading", "httpx"}
BANNED_CALLS = {"open", "print"}
# The one place where randomness enters.
ALLOWED_IMPORTS = {"crypto/rng.py": {"secrets"}}

IMPORT = r"^ *((?:from [\w.]+ )?import (?:\([^)]*\)|.*))"
INIT = "__init__"
ABOVE_ALL = len(FLOORS)


def levels(floors: list[list[str]]) -> dict[str, int]:
    return {name: level for level, names in enumerate(floors) for name in names}


@cache
def import_statements(path: Path) -> ast.Module:
    """Return the import statements alone, in their lines: parsed in a tenth of a file's time."""
    code = re.sub(r'"""[\s\S]*?"""', lambda text: "\n" * text[0].count("\n"), path.read_text())
    kept, at = [], 0
    for found in re.finditer(IMPORT, code, re.MULTILINE):
        kept += ["\n" * code.count("\n", at, found.start()), found[1]]
        at = found.end()
    return ast.parse("".join(kept))


def imports(tree: ast.Module, package: list[str]) -> Iterator[tuple[int, list[str]]]:
    """Line and dotted parts of everything imported; ``package`` resolves relative imports.

    Imports count alike in the module, inside functions, and for type checkers only.
    """
    for node in tree.body:
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name.split(".")
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            base = base + (node.module.split(".") if node.module else [])
            for alias in node.names:
                yield node.lineno, [*base, alias.name]


def banned_calls(tree: ast.AST) -> Iterator[tuple[int, str]]:
    own = {n.name for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        match node.func:
            case ast.Name(id=name) if name in BANNED_CALLS and name not in own:
                yield node.lineno, name
            case ast.Attribute(value=ast.Name(id="io" | "os" | "builtins"), attr=name) if (
                name in BANNED_CALLS
            ):
                yield node.lineno, name


def within(parts: list[str]) -> list[str]:
    """Return dotted parts as rooms from the top: `node` is a room like those in `mpcsim`."""
    return parts[1:] if parts[0] == "mpcsim" else parts


def placed(module: list[str]) -> str:
    """Return why a module is on no floor; nothing if it is on one."""
    if module[0] not in (INIT, *levels(FLOORS)):
        return f"{module[0]} is on no floor; add it to ARCHITECTURE.md"
    for depth in range(1, len(module)):
        folder = "/".join(module[:depth])
        if folder in INSIDE and module[depth] not in (INIT, *levels(INSIDE[folder])):
            return (
                f"{folder}/{module[depth]} is on no floor; add it to ARCHITECTURE.md, or floors.txt"
            )
    return ""


def downward(importer: list[str], imported: list[str]) -> str:
    """Return why one module must not import the other; nothing if it may."""
    if importer[0] == INIT:
        # The front door hands on what is asked for.
        target = imported[0] if imported else INIT
        allowed = ("lazy_names", "sim", "version")
        return "" if target in allowed else f"mpcsim itself must not import {target}"
    # The folder that both are in, and what each is there.
    pairs = zip(importer, imported, strict=False)
    depth = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
    floors = levels(INSIDE.get("/".join(importer[:depth]), []) if depth else FLOORS)
    room, target = (parts[depth] if len(parts) > depth else INIT for parts in (importer, imported))
    if room in floors and floors.get(target, ABOVE_ALL) >= floors[room]:
        return f"{room} must not import {target}: it is not on a lower floor"
    return ""


def check_file(path: Path, root: Path) -> Iterator[str]:
    own = list(path.relative_to(root).with_suffix("").parts)
    importer = within(own)
    where = "/".join(importer) + ".py"
    if why := placed(importer):
        yield f"{where}: {why}"
        return
    is_pure = importer[0] in PURE
    for line, parts in imports(import_statements(path), own[:-1]):
        if parts[0] in ("mpcsim", "node"):
            if why := downward(importer, within(parts)):
                yield f"{where}:{line}: {why}"
        elif parts[0] == "tests":
            yield f"{where}:{line}: a test is nothing to build on"
        elif is_pure and parts[0] in BANNED_IMPORTS - ALLOWED_IMPORTS.get(where, set()):
            yield f"{where}:{line}: {parts[0]} is injected"
    if is_pure:
        for line, name in banned_calls(parsed(path)):
            yield f"{where}:{line}: {name}() is I/O"


def check(root: Path) -> list[str]:
    files = sorted(path for name in ("mpcsim", "node") for path in (root / name).rglob("*.py"))
    # One import statement may yield the same complaint once per name.
    return list(dict.fromkeys(found for path in files for found in check_file(path, root)))


def circle(package: Path) -> list[str]:
    """Modules that import each other in a circle, whatever the kind of import; empty: none do.

    That a module also runs the ``__init__`` of the packages it is in does not count.
    """
    paths: dict[str, Path] = {}
    for path in package.rglob("*.py"):
        parts = path.relative_to(package.parent).with_suffix("").parts
        paths[".".join(parts).removesuffix(f".{INIT}")] = path
    graph: dict[str, set[str]] = {}
    for name, path in paths.items():
        graph[name] = needed = set()
        own = list(path.relative_to(package.parent).parts[:-1])
        for _, parts in imports(import_statements(path), own):
            known = (".".join(parts[:n]) for n in range(len(parts), 0, -1))
            needed.add(next((each for each in known if each in paths), name))
        needed.discard(name)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def test_imports_point_downwards():
    found = check(ROOT)
    assert not found, "\n".join(found)


@pytest.mark.parametrize("package", ["mpcsim", "node"])
def test_no_modules_import_each_other_in_a_circle(package):
    assert circle(ROOT / package) == []


def members(folder: Path) -> set[str]:
    """The modules and packages directly below a folder, without its __init__."""
    names = {path.stem for path in folder.glob("*.py")} - {INIT}
    return names | {p.name for p in folder.iterdir() if p.is_dir() and any(p.rglob("*.py"))}


@pytest.mark.parametrize("room", ["", *INSIDE])
def test_the_tables_name_everything_once(room):
    names = [name for floor in INSIDE.get(room, FLOORS) for name in floor if room or name != "node"]
    folder = ROOT if room == "node" else ROOT / "mpcsim"
    assert sorted(names) == sorted(members(folder / room))


# --- the check itself ---------------------------------------------------------------------------


TYPED = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    "


def written(tmp_path: Path, sources: dict[str, str]) -> Path:
    package = tmp_path / "mpcsim"
    for name, text in sources.items():
        path = package / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return package


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("from mpcsim.lab.b import g", "from mpcsim.lab.a import f"),
        ("from mpcsim.lab import b", TYPED + "from mpcsim.lab.a import f"),
        ("from .c import h", "from .a import f"),
    ],
)
def test_circles_of_all_kinds_are_found(tmp_path, one, other):
    sources = {"lab/a.py": one, "lab/b.py": other, "lab/c/__init__.py": "from ..b import g"}
    assert circle(written(tmp_path, sources))


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("crypto/kernels/a.py", "import mpcsim.crypto.groups.group"),
        ("crypto/kernels/a.py", "from .. import groups"),
        ("errors.py", "from mpcsim.crypto import rng"),
        ("protocols/engine/a.py", "def f():\n    from mpcsim.protocols import dkg"),
        ("sim/sweep.py", "import node.app"),
        ("service/gateway/a.py", "from mpcsim.service.mpc_node import store"),
        ("service/rpc/a.py", TYPED + "from mpcsim.service.gateway import registry"),
        ("sim/traces/a.py", TYPED + "from mpcsim.sim.trace import Trace"),
        ("sim/novel.py", "from mpcsim.sim.network import topology"),
        ("lab/a.py", "from tests.helpers import repo"),
        ("crypto/mta/a.py", "import time"),
        ("crypto/rng.py", "import random"),
        ("crypto/groups/a.py", "with open('x') as f: pass"),
        ("crypto/groups/a.py", "import io\nio.open('x')"),
        ("novel/a.py", ""),
        ("service/gateway/novel.py", ""),
        ("service/gateway/sessions/a.py", "from mpcsim.service.gateway.activation import decision"),
        ("__init__.py", "from mpcsim.errors import MpcError"),
        ("crypto/groups/a.py", "from mpcsim import Network"),
    ],
)
def test_the_check_catches(tmp_path, name, source):
    written(tmp_path, {name: source})
    assert len(check(tmp_path)) == 1


def loaded_by(modules: str) -> set[str]:
    """The names of all modules that are there when some have been imported."""
    code = f"import {modules}, sys; print(*sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return {*found.stdout.split()}


def test_runs_of_protocols_load_no_web_server():
    assert not loaded_by("mpcsim.testing.protocols") & {"starlette", "uvicorn"}


def test_a_node_that_starts_loads_what_it_is_made_of():
    """Its size and its start are those of these rooms; numpy comes with the first secp256k1 key,
    FastAPI with the API's description."""
    loaded = loaded_by("node.__main__, node.serving, node.app")
    rooms = {name.split(".")[1] for name in loaded if name.startswith("mpcsim.")}
    inside = {name.split(".")[2] for name in loaded if name.startswith("mpcsim.service.")}
    below = {
        "errors",
        "frozen_dict",
        "ids",
        "lazy_names",
        "link_transport",
        "platforms",
        "resource_limits",
    }
    assert rooms == {*below, "crypto", "protocols", "service", "strict_json", "version"}
    assert inside == {"error_codes", "errors", "precis", "process", "rpc", "vault", "web"}
    assert not loaded & {"numpy", "matplotlib", "numba", "httpx", "fastapi", "prometheus_client"}
