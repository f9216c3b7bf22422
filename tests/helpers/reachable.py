"""Modules that an image's processes can reach, and the libraries that these import.

``python -P tests/helpers/reachable.py node`` imports them all: in an environment with the image's
lock alone, it shows that nothing is missing, and that nothing is there that nobody imports.
"""

import ast
import sys
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from importlib.metadata import distributions, packages_distributions
from pathlib import Path

from mpcsim.lazy_names import names_and_homes

ROOT = Path(__file__).resolve().parents[2]
SERVICE = "mpcsim.cli.service."
COMMANDS = ("serve", "gateway", "mpc_node", "controlled", "fault_injection", "request_traces")
OPERATION = ("events", "backup", "doctor", "rotate")
ENTRIES = {
    "node": ("node.__main__", "node.app"),
    "gateway": (
        *("mpcsim.__main__", "mpcsim.cli.token"),
        *(SERVICE + name for name in (*COMMANDS, *OPERATION)),
    ),
}
"""Modules with which an image's processes begin."""
ON_DEMAND = (
    *("mpcsim.crypto", "mpcsim.protocols", "mpcsim.service", "node"),
    *("mpcsim.cli.network", "mpcsim.cli.service", "mpcsim.cli.token"),
)
"""Where imports inside functions count, too: elsewhere they are the laboratory's."""
LABORATORY = (
    "mpcsim.service.smart_account.client",
    "mpcsim.service.smart_account.chain.embedded",
    "mpcsim.service.smart_account.install",
    "mpcsim.cli.service.jupyterlab.contents",
)
"""Modules that are imported in notebooks, or while an image is built."""
BY_NAME = {"uvloop", "fastapi_offline"}
"""Libraries that are named in a string: an event loop, and files of a package."""


def reachable(image: str) -> tuple[set[str], set[str]]:
    """Return the modules of this project that an image's processes can reach, and the top-level
    names of the libraries that these import."""
    found, libraries = set[str](), set(BY_NAME)
    new = list(ENTRIES[image])
    while new:
        name = new.pop()
        if name.partition(".")[0] not in ("mpcsim", "node"):
            libraries.add(name.partition(".")[0])
            continue
        parts = name.split(".")
        for module in (".".join(parts[:n]) for n in range(1, len(parts) + 1)):
            path = _file(module)
            if not path and (package := _file(module.rpartition(".")[0])):
                homes = _homes(package)
                new += [homes[parts[-1]]] if parts[-1] in homes else []
            if path and module not in found and not module.startswith(LABORATORY):
                found.add(module)
                deep = f"{module}.".startswith(tuple(f"{room}." for room in ON_DEMAND))
                new += _imports(ast.parse(path.read_text("utf-8")), deep)
    return found, libraries - sys.stdlib_module_names


@cache
def _homes(package: Path) -> dict[str, str]:
    return dict(names_and_homes(package.read_text("utf-8")))


@cache
def _file(module: str) -> Path | None:
    path = ROOT.joinpath(*module.split("."))
    tried = (path / "__init__.py", path.with_suffix(".py"))
    return next((each for each in tried if each.exists()), None)


def _imports(tree: ast.AST, deep: bool) -> Iterator[str]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING":
            continue
        elif deep or not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _imports(node, deep)


def unused() -> set[str]:
    """Return the distributions here that no file of another one, and none of this project's
    imported modules, imports."""
    homes = packages_distributions()
    used = {home for name in list(sys.modules) for home in homes.get(name.partition(".")[0], ())}
    texts = [
        file.locate().read_text("utf-8", "ignore")
        for each in distributions()
        for file in each.files or ()
        if file.suffix == ".py" and each.name in used
    ]
    rest = {name: home for name, homes_of in homes.items() for home in homes_of if home not in used}
    named = "\n".join(line for text in texts for line in text.splitlines() if "import" in line)
    return {home for name, home in rest.items() if f"import {name}" not in named} - {
        home for name, home in rest.items() if f"from {name}" in named or name in BY_NAME
    }


if __name__ == "__main__":
    for reached in sorted(reachable(sys.argv[1])[0]):
        import_module(reached)
    if left := unused() - {"mpcsim"}:
        sys.exit(f"nothing imports {', '.join(sorted(left))}")
