"""Access to the repository's own files."""

import ast
import subprocess
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]

_NOT_OURS = {
    *(".git", ".venv", ".mypy_cache", ".ruff_cache", ".pytest_cache", ".hypothesis"),
    *(".ipynb_checkpoints", "__pycache__", "build", "dist"),
}


def project_files() -> list[Path]:
    """All files that are committed or would be by ``git add --all``.

    In a tree without git (an unpacked archive): all files but caches and build products.
    """
    if (ROOT / ".git").exists():
        listing = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=ROOT,
            check=False,
            capture_output=True,
        )
        if listing.returncode == 0:
            names = listing.stdout.decode().split("\0")
            return sorted({p for n in names if n and (p := ROOT / n).is_file()})
    return sorted(
        p
        for p in ROOT.rglob("*")
        if p.is_file() and not _NOT_OURS.intersection(p.relative_to(ROOT).parts)
    )


@cache
def parsed(path: Path) -> ast.Module:
    """Return the syntax tree of a Python file; a shared one, which must not be changed."""
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


@cache
def python_files(*folders: str) -> tuple[Path, ...]:
    """Return all Python files below these folders of the repository, in order."""
    return tuple(path for folder in folders for path in sorted((ROOT / folder).rglob("*.py")))


def pyproject() -> dict[str, Any]:
    with (ROOT / "pyproject.toml").open("rb") as f:
        return tomllib.load(f)


def declared_requirements(*, docs: bool = False) -> dict[str, Requirement]:
    """Everything pyproject.toml asks for: core, all extras, build; by normalised name.

    Args:
        docs: with those of the documentation's site, which are installed apart.
    """
    data = pyproject()
    texts = [*data["project"]["dependencies"], *data["build-system"]["requires"]]
    for name, extra in data["project"]["optional-dependencies"].items():
        if docs or name != "docs":
            texts += extra
    found: dict[str, Requirement] = {}
    for text in texts:
        req = Requirement(text)
        name = canonicalize_name(req.name)
        if name == data["project"]["name"]:  # its own extras
            continue
        if name in found and found[name].specifier != req.specifier:
            raise AssertionError(f"pyproject.toml asks for {name} with two version ranges")
        found[name] = req
    return found
