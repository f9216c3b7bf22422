"""The documentation as a site: ``python notebooks/site/build.py build/docs``.

The sources stay where they are: a folder of links to them, laid out like the repository so that
links between them hold, is what Sphinx reads, with a page for each package beside them. A warning
is an error: a link within the site that leads nowhere, a page that no other leads to, a docstring
that cannot be read. Links to elsewhere are not followed.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from importlib import import_module
from inspect import getdoc
from pathlib import Path
from types import FunctionType, ModuleType

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PACKAGES = ("mpcsim", "node")

DOCUMENTS = (
    "*.md",
    "LICENSE",
    "notebooks/*.ipynb",
    "notebooks/*.md",
    "notebooks/pictures/*",
    "notebooks/guides/*",
    "tests/README.md",
    "tests/vectors/*/README.md",
)


def modules(package: str) -> Iterator[str]:
    """The names of a package and of all in it, each package before what it holds."""
    folder = ROOT.joinpath(*package.split("."))
    yield package
    for path in sorted(folder.iterdir()):
        if (path / "__init__.py").is_file():
            yield from modules(f"{package}.{path.name}")
        elif path.suffix == ".py" and not path.stem.startswith("__"):
            yield f"{package}.{path.stem}"


def is_package(module: str) -> bool:
    return ROOT.joinpath(*module.split("."), "__init__.py").is_file()


def reference(package: str) -> str:
    """The page of a package: what it hands on, itself, its modules, and where its packages are."""
    inside = [name for name in modules(package) if name.rpartition(".")[0] == package]
    parts = [
        heading(package, "="),
        # What it hands on is described where it is from.
        automodule(package) + "\n   :ignore-module-all:",
        public_names(import_module(package)),
    ]
    packages = [name for name in inside if is_package(name)]
    if packages:
        parts.append(
            "\n".join([".. toctree::", "   :maxdepth: 1", "", *(f"   {name}" for name in packages)])
        )
    for name in inside:
        if name not in packages:
            parts += [heading(name, "-"), automodule(name)]
    return "\n\n".join(part for part in parts if part) + "\n"


def heading(name: str, line: str) -> str:
    return f"{name}\n{line * len(name)}"


def automodule(name: str) -> str:
    return f".. automodule:: {name}"


def public_names(package: ModuleType) -> str:
    """What a package hands on from its modules, one line each."""
    lines = []
    for name in getattr(package, "__all__", ()):
        thing = getattr(package, name)
        home = getattr(thing, "__module__", "")
        if not isinstance(thing, type | FunctionType) or home == package.__name__:
            continue  # a module, or a value: it has no home of its own
        about = (getdoc(thing) or "").partition("\n\n")[0].replace("\n", " ")
        lines.append(f"* :py:obj:`{name} <{home}.{thing.__qualname__}>`: {about}")
    return "\n".join(lines)


def lay_out(folder: Path) -> None:
    """The sources as Sphinx is to find them."""
    shutil.rmtree(folder, ignore_errors=True)
    for pattern in DOCUMENTS:
        for path in ROOT.glob(pattern):
            copy(path, folder / path.relative_to(ROOT))
    for path in HERE.glob("*.md"):
        copy(path, folder / path.name)
    (folder / "reference").mkdir()
    for name in (name for package in PACKAGES for name in modules(package) if is_package(name)):
        (folder / "reference" / f"{name}.rst").write_text(reference(name), encoding="utf-8")


def copy(source: Path, at: Path) -> None:
    at.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(source, at)


def main(output: Path) -> int:
    from sphinx.cmd.build import build_main

    # Functions stay what they are in the source, with their docstrings.
    os.environ["NUMBA_DISABLE_JIT"] = "1"
    sys.path.insert(0, str(ROOT))
    sources = output.with_name(output.name + "-sources")
    lay_out(sources)
    return build_main(
        [
            "--fail-on-warning",
            "--quiet",
            "--jobs",
            "auto",
            "--conf-dir",
            str(HERE),
            "--doctree-dir",
            str(sources / ".doctrees"),
            str(sources),
            str(output),
            *sys.argv[2:],
        ]
    )


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
