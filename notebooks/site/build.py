"""The documentation as a site: ``python notebooks/site/build.py build/docs``.

Documents, notebooks and guides stay where they are. Sphinx reads copies of them, laid out like the
repository, so that links between them hold, with the pages of ``reference`` beside them. Notebooks
are not executed, and nothing is fetched. A warning is an error: a link within the site that leads
nowhere, a page that no other leads to, a docstring that cannot be read. Links to elsewhere are not
followed.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import reference

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]

SOURCES = (
    "*.md",
    "LICENSE",
    "notebooks/*.ipynb",
    "notebooks/*.md",
    "notebooks/guides/*",
    "notebooks/pictures/*",
    "tests/README.md",
    "tests/vectors/*/README.md",
)
"""What of the repository becomes a page, or is shown or linked on one."""

FETCHED = re.compile(
    r"""<(?:script|link|img|iframe)\b[^>]*?\b(?:src|href)=["']((?:https?:)?//[^"']+)"""
)


def lay_out(folder: Path) -> None:
    """The sources as Sphinx is to find them."""
    shutil.rmtree(folder, ignore_errors=True)
    for path in (path for pattern in SOURCES for path in ROOT.glob(pattern) if path.is_file()):
        _copy(path, folder / path.relative_to(ROOT))
    for path in HERE.glob("*.md"):
        _copy(path, folder / path.name)
    for name, text in _reference():
        at = folder / "reference" / name
        at.parent.mkdir(exist_ok=True)
        at.write_text(text, encoding="utf-8")


def _copy(source: Path, at: Path) -> None:
    at.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(source, at)


def _reference() -> Iterator[tuple[str, str]]:
    """Its pages: file names and texts."""
    from mpcsim.cli import parser
    from mpcsim.service.gateway.api import app
    from mpcsim.service.gateway.api.openapi import BODIES, openapi_document
    from node.api import docs, routes

    for name in reference.packages():
        yield f"{name}.rst", reference.package_page(name)
    yield "command-line.md", reference.command_line_page(parser())
    node = docs.openapi_document([*routes.public.routes, *routes.wallet.routes])
    yield "rest-api.md", reference.interface_page(node)
    gateway = openapi_document(app.TITLE, BODIES.keys() - {"suspend"})
    yield "gateway-api.md", reference.interface_page(gateway)


def main(output: Path, *options: str) -> int:
    """Build the site; returns the exit status.

    Args:
        options: further ones of ``sphinx-build``.
    """
    from sphinx.cmd.build import build_main

    sys.path.insert(0, str(ROOT))
    # Compiled functions stay what they are in the source, with their docstrings.
    os.environ["NUMBA_DISABLE_JIT"] = "1"
    os.environ["COLUMNS"] = "84"  # of what --help prints
    sources = output.with_name(f"{output.name}-sources")
    lay_out(sources)
    shutil.rmtree(output, ignore_errors=True)
    status = build_main(
        [
            "--fail-on-warning",
            "--quiet",
            "--jobs=auto",
            f"--conf-dir={HERE}",
            f"--doctree-dir={sources / '.doctrees'}",
            *options,
            str(sources),
            str(output),
        ]
    )
    for fault in from_outside(output):
        sys.stderr.write(f"{fault}\n")
        status = 1
    return status


def from_outside(output: Path) -> Iterator[str]:
    """What pages would fetch from elsewhere to show themselves."""
    for page in sorted(output.rglob("*.html")):
        for found in FETCHED.findall(page.read_text(encoding="utf-8")):
            yield f"{page}: is not complete without {found}"


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), *sys.argv[2:]))
