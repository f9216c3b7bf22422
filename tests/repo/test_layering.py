"""Imports inside mpcsim point downwards, and the protocol code does no I/O of its own."""

import ast
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from tests.helpers.repo import ROOT, parsed

# Lowest first. A module may import from its own package and from lower layers.
LAYERS: list[list[str]] = [
    [
        *("errors", "error_codes", "ids", "hashing", "rng", "params", "platforms", "processes"),
        *("settings", "strict_json"),
        "party_events",
    ],
    *([each] for each in ("kernels", "algebra", "encoding", "primitives", "mta", "keyshare")),
    *([each] for each in ("protocol", "protocols")),
    ["vault", "garbage", "lifetime", "listening", "rpc"],
    ["metrics"],
    ["runner", "sample_keys", "sim"],
    ["smart_account", "stories"],
    # An MPC node believes nobody, the gateway least of all: neither imports the other.
    ["mpc_node", "gateway"],
    *([each] for each in ("service", "system", "control", "capacity")),
    ["attacks", "bench", "explorer", "testing"],
    ["cli", "__main__"],
]
# The same inside the largest package.
SIM_LAYERS: list[list[str]] = [
    ["colours", "digests", "order_statistics", "rich_display", "streams", "tasks"],
    *([each] for each in ("sketch", "network", "traces", "figures", "trace", "run")),
    ["replay", "call_times"],
    ["scenario", "compare"],
    ["parties", "simulation", "simulated_network"],
    ["sweep", "compile", "reruns"],
    ["experiments"],
]
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}
SIM_LEVEL = {name: level for level, names in enumerate(SIM_LAYERS) for name in names}

# They run the whole service, node included; one command each loads them, and nothing else does.
MAY_IMPORT_NODE = {
    ("attacks", "service"),
    ("bench", "rest.py"),
    ("capacity", "recording.py"),
    ("capacity", "running.py"),
    ("cli", "compare.py"),
}

# In these layers the members may also import each other.
SIBLINGS = {LEVEL["errors"], LEVEL["runner"], LEVEL["cli"]}

# Up to and including this layer, randomness, clock and I/O are injected.
PURE_UP_TO = LEVEL["protocols"]
BANNED_IMPORTS = {"asyncio", "socket", "time", "random", "secrets", "threading", "httpx"}
BANNED_CALLS = {"open", "print"}
# The one place where randomness enters.
ALLOWED_IMPORTS = {"rng": {"secrets"}}

# The package's own __init__ is the front door, above everything: nothing in mpcsim imports what it
# offers. It runs before every module, so it loads nothing of mpcsim until it is asked.
ROOT_MODULE = "__init__"
OWN_ATTRIBUTES = {"__version__"}


def imports(tree: ast.AST, package: list[str]) -> Iterator[tuple[int, list[str]]]:
    """Line and dotted parts of everything imported; ``package`` resolves relative imports.

    Imports count alike in the module, inside functions, and for type checkers only.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name.split(".")
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            base = base + (node.module.split(".") if node.module else [])
            for alias in node.names:
                yield node.lineno, [*base, alias.name]


def for_type_checkers(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"


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


def top_names(package: Path) -> set[str]:
    """The modules and packages directly below ``package``, without its __init__."""
    names = {p.stem for p in package.glob("*.py")} - {ROOT_MODULE}
    return names | {p.name for p in package.iterdir() if p.is_dir() and any(p.rglob("*.py"))}


def check_file(path: Path, package: Path) -> Iterator[str]:
    rel = path.relative_to(package)
    own = rel.parts[0].removesuffix(".py")
    where = f"{package.name}/{rel.as_posix()}"
    tree = parsed(path)

    if own == ROOT_MODULE:
        tree = ast.Module([node for node in tree.body if not for_type_checkers(node)], [])
        level = -1
    elif own in LEVEL:
        level = LEVEL[own]
    else:
        yield f"{where}: {own!r} is in no layer; add it to LAYERS in tests/repo/test_layering.py"
        return

    siblings = top_names(package)
    for line, parts in imports(tree, [package.name, *rel.parts[:-1]]):
        first = parts[0]
        if first == "node" and MAY_IMPORT_NODE & {rel.parts, rel.parts[:-1]}:
            continue
        if first in ("node", "tests"):
            yield f"{where}:{line}: {package.name} must not import {first}"
        elif first == package.name:
            target = parts[1] if len(parts) > 1 else None
            if target == own == "sim":
                yield from check_sim(f"{where}:{line}", rel.parts[1], parts[2:3], package / "sim")
            if target is None or target == own:
                continue
            if target not in LEVEL:
                if target in siblings:
                    yield f"{where}:{line}: {target!r} is in no layer; add it to LAYERS"
                elif target not in OWN_ATTRIBUTES:
                    yield f"{where}:{line}: {own} must not import {target} from mpcsim itself"
                continue
            allowed = LEVEL[target] < level or (LEVEL[target] == level and level in SIBLINGS)
            if not allowed:
                yield f"{where}:{line}: {own} must not import {target} (not in a lower layer)"
        elif (
            level <= PURE_UP_TO
            and first in BANNED_IMPORTS
            and first not in ALLOWED_IMPORTS.get(own, set())
        ):
            yield f"{where}:{line}: {own} must not import {first}: it is injected"

    if level <= PURE_UP_TO:
        for line, name in banned_calls(tree):
            yield f"{where}:{line}: {own} must not call {name}()"


def check_sim(where: str, part: str, target: list[str], sim: Path) -> Iterator[str]:
    """One import of mpcsim.sim in mpcsim.sim; its __init__ may import everything there."""
    own = part.removesuffix(".py")
    if own == ROOT_MODULE:
        return
    if own not in SIM_LEVEL:
        yield f"{where}: 'sim/{own}' is in no layer; add it to SIM_LAYERS"
        return
    for name in target:
        if name == own:
            continue
        if name not in SIM_LEVEL:
            if name in top_names(sim):
                yield f"{where}: 'sim/{name}' is in no layer; add it to SIM_LAYERS"
            else:
                yield f"{where}: sim/{own} must not import {name} from mpcsim.sim itself"
        elif SIM_LEVEL[name] >= SIM_LEVEL[own]:
            yield f"{where}: sim/{own} must not import sim/{name} (not in a lower layer)"


def check_package(package: Path) -> list[str]:
    files = sorted(package.rglob("*.py"))
    # one import statement may yield the same complaint once per name
    return list(dict.fromkeys(found for path in files for found in check_file(path, package)))


def circle(package: Path) -> list[str]:
    """Modules that import each other in a circle, whatever the kind of import; empty: none do.

    That a module also runs the ``__init__`` of the packages it is in does not count.
    """
    paths: dict[str, Path] = {}
    for path in package.rglob("*.py"):
        parts = path.relative_to(package.parent).with_suffix("").parts
        paths[".".join(parts).removesuffix(f".{ROOT_MODULE}")] = path
    graph: dict[str, set[str]] = {}
    for name, path in paths.items():
        tree = parsed(path)
        graph[name] = needed = set()
        for _, parts in imports(tree, list(path.relative_to(package.parent).parts[:-1])):
            known = (".".join(parts[:n]) for n in range(len(parts), 0, -1))
            needed.add(next((each for each in known if each in paths), name))
        needed.discard(name)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def test_layering():
    found = check_package(ROOT / "mpcsim")
    assert not found, "\n".join(found)


@pytest.mark.parametrize("package", ["mpcsim", "node"])
def test_no_modules_import_each_other_in_a_circle(package):
    assert circle(ROOT / package) == []


def test_the_table_names_everything_once():
    names = [name for layer in LAYERS for name in layer]
    assert len(names) == len(set(names))
    unknown = top_names(ROOT / "mpcsim") - set(names)
    assert not unknown, (
        f"new in mpcsim: {sorted(unknown)}; add to LAYERS in tests/repo/test_layering.py"
    )
    assert top_names(ROOT / "mpcsim" / "sim") == set(SIM_LEVEL)


def test_the_architecture_shows_the_layers():
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    shown = text.partition("<!-- layers -->\n```\n")[2].partition("```")[0]
    assert [line.split() for line in shown.splitlines()] == LAYERS


# --- the check itself ---------------------------------------------------------------------------


TYPED = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    "


def written(tmp_path: Path, sources: dict[str, str]) -> Path:
    package = tmp_path / "mpcsim"
    for name, text in sources.items():
        path = package / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return package


def check_sources(tmp_path: Path, sources: dict[str, str]) -> list[str]:
    return check_package(written(tmp_path, sources))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("from mpcsim.service.rpc.b import g", "from mpcsim.service.rpc.a import f"),
        ("import mpcsim.service.rpc.b", "def g():\n    from . import a"),
        ("from mpcsim.service.rpc import b", TYPED + "from mpcsim.service.rpc.a import f"),
        (TYPED + "from .b import g", "def g():\n    import mpcsim.service.rpc.a"),
        ("from .c import h", "from .a import f"),
    ],
)
def test_circles_of_all_kinds_are_found(tmp_path, one, other):
    sources = {"rpc/a.py": one, "rpc/b.py": other, "rpc/c/__init__.py": "from ..b import g"}
    assert circle(written(tmp_path, sources))


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("kernels/a.py", "import mpcsim.crypto.groups.curve"),
        ("kernels/a.py", "from mpcsim.crypto.groups import curve"),
        ("kernels/a.py", "from mpcsim import algebra"),
        ("kernels/a.py", "from .. import algebra"),
        ("kernels/sub/a.py", "from ...algebra.curve import G"),
        ("errors.py", "from mpcsim.crypto.kernels import modexp"),
        ("protocol/a.py", "def f():\n    from mpcsim.protocols import dkg"),
        ("protocols/a.py", "from mpcsim.sim import clock"),
        ("sim/sweep.py", "from mpcsim.cli import main"),
        ("sim/sweep.py", "import node.app"),
        ("attacks/report.py", "from node.local import LocalService"),
        ("sim/network/a.py", "from mpcsim.sim.run import engine"),
        ("sim/network/a.py", "from mpcsim.sim.trace import Trace"),
        ("sim/traces/a.py", TYPED + "from mpcsim.sim.trace import Trace"),
        ("sim/traces/a.py", "def draw():\n    from mpcsim.sim import figures"),
        ("sim/figures/a.py", "from mpcsim.sim.run.faults import delay"),
        ("sim/run/a.py", "from mpcsim.sim import simulation"),
        ("sim/run/a.py", "from mpcsim.sim import Simulation"),
        ("sim/novel.py", "from mpcsim.sim.network import topology"),
        ("mta/a.py", "import time"),
        ("mta/a.py", "from asyncio.queues import Queue"),
        ("algebra/a.py", "import secrets"),
        ("rng.py", "import random"),
        ("algebra/a.py", "print('x')"),
        ("algebra/a.py", "with open('x') as f: pass"),
        ("algebra/a.py", "import io\nio.open('x')"),
        ("novel/a.py", ""),
        ("novel.py", ""),
        ("__init__.py", "from mpcsim.errors import MpcError"),
        ("algebra/a.py", "from mpcsim import Network"),
    ],
)
def test_the_check_catches(tmp_path, name, source):
    assert len(check_sources(tmp_path, {name: source})) == 1
