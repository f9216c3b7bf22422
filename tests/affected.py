"""Run the fast tests that a change may break, by the import graph: ``make affected``.

A test file is affected if it differs itself, or imports a file that differs, through however many
modules. Imports inside functions count; those for type checkers do not, except in
`mpcsim/__init__`, where they say which module a name is loaded from when it is asked for.
Dependencies that no import shows are in `READERS`: tests that read files, or start programs.
A change of `BASIS` affects everything.
"""

import argparse
import ast
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path

from tests.helpers.repo import ROOT, parsed

CODE = ("mpcsim", "node", "tests")
BASIS = ("pyproject.toml", "requirements.lock", "tests/conftest.py", "Makefile")
READERS = {
    "mpcsim/": ("tests/repo", "tests/cli"),
    "mpcsim/lab/explorer/static/": ("tests/lab/explorer",),
    "mpcsim/lab/what_if/static/": ("tests/lab/what_if",),
    "node/": ("tests/repo", "tests/cli"),
    "tests/": ("tests/repo",),
    "notebooks/": ("tests/notebooks", "tests/repo"),
    "": ("tests/repo",),
}
"""Tests that read, or start, what lies under a prefix."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the affected test files, and run them."""
    parser = argparse.ArgumentParser(prog="make affected", description=__doc__.partition("\n")[0])
    parser.add_argument("--since", default="main", help="a commit; what differs from it counts")
    parser.add_argument("--list", action="store_true", help="print the files, run nothing")
    options, rest = parser.parse_known_args(arguments)
    try:
        changed = changed_files(options.since)
    except LookupError as error:
        print(f"make affected: {error}", file=sys.stderr)
        return 2
    tests = affected_tests(changed)
    print(f"{len(changed)} files differ from {options.since}; {len(tests)} test files are affected")
    if options.list or not tests:
        print(*tests, sep="\n")
        return 0
    return subprocess.run([sys.executable, "-m", "pytest", *rest, *tests], cwd=ROOT).returncode


def changed_files(since: str) -> list[str]:
    """Return the files that differ from a commit, with those that git does not know yet.

    Raises:
        LookupError: there is no such commit, or no git.
    """

    def git(*words: str) -> list[str]:
        ran = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False)
        if ran.returncode:
            raise LookupError(ran.stderr.strip().splitlines()[0])
        return ran.stdout.splitlines()

    return git("diff", "--name-only", since) + git("ls-files", "--others", "--exclude-standard")


def affected_tests(changed: Iterable[str]) -> list[str]:
    """Return the test files, and folders of them, that a change of these files may break."""
    changed = list(changed)
    every = sorted(
        path.relative_to(ROOT).as_posix() for path in (ROOT / "tests").rglob("test_*.py")
    )
    if any(path in BASIS for path in changed):
        return every
    reached = importers(changed)
    folders = {
        folder
        for path in changed
        for prefix, readers in READERS.items()
        if path.startswith(prefix)
        for folder in readers
    }
    return [path for path in every if path in reached or path.startswith(tuple(folders))]


def importers(changed: Iterable[str], folders: Sequence[str] = CODE) -> set[str]:
    """Return the files given, and all in the folders that import one, however far away."""
    imported_by: dict[str, set[str]] = {}
    for folder in folders:
        for path in (ROOT / folder).rglob("*.py"):
            importer = path.relative_to(ROOT).as_posix()
            for imported in imports_of(path):
                imported_by.setdefault(imported, set()).add(importer)
    found, new = set[str](), set(changed)
    while new:
        found |= new
        new = {importer for path in new for importer in imported_by.get(path, ())} - found
    return found


def imports_of(path: Path) -> set[str]:
    """Return the files of this repository that a file imports, packages' `__init__` included."""
    return {
        file
        for block, name in _imported_names(parsed(path))
        if block != FOR_TYPES
        for file in _files_of(name)
    }


FOR_TYPES = "TYPE_CHECKING"


def _imported_names(tree: ast.AST, block: str = "") -> Iterator[tuple[str, str]]:
    """Yield the condition of the `if` around each import, and the dotted name of the import."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import):
            yield from ((block, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from ((block, f"{node.module}.{alias.name}") for alias in node.names)
        else:
            inside = ast.unparse(node.test) if isinstance(node, ast.If) else block
            yield from _imported_names(node, inside)


@cache
def _lazy_names() -> dict[str, str]:
    """Return the names that `mpcsim` loads on demand, and where they come from."""
    tree = parsed(ROOT / "mpcsim" / "__init__.py")
    names = [name for block, name in _imported_names(tree) if block == FOR_TYPES]
    return {f"mpcsim.{name.rpartition('.')[2]}": name for name in names}


@cache
def _files_of(name: str) -> set[str]:
    """Return the files that importing a dotted name runs, as far as they are of this repository."""
    parts = _lazy_names().get(name, name).split(".")
    found: set[str] = set()
    if parts[0] not in CODE:
        return found
    for i in range(1, len(parts) + 1):
        base = "/".join(parts[:i])
        for candidate in (f"{base}.py", f"{base}/__init__.py"):
            if (ROOT / candidate).is_file():
                found.add(candidate)
    return found


if __name__ == "__main__":
    sys.exit(main())
