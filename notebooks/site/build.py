"""The documentation as a site: ``python notebooks/site/build.py build/docs``.

Documents, notebooks and guides stay where they are. Sphinx reads copies of them, laid out like the
repository, so that links between them hold, with the pages of ``reference`` beside them. Notebooks
are not executed, and nothing is fetched. A warning is an error: a link within the site that leads
nowhere, a page that no other leads to, a docstring that cannot be read. Links to elsewhere are not
followed.
"""

from __future__ import annotations

import logging
import os
import re
import shutil
import sys
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from urllib.parse import unquote

import reference

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]

SOURCES = (
    "*.md",
    "LICENSE",
    "CITATION.cff",
    "notebooks/*.ipynb",
    "notebooks/*.md",
    "notebooks/guides/*",
    "notebooks/pictures/*",
    "mpcsim/attacks/*.md",
    "mpcsim/service/vault/README.md",
    "tests/README.md",
    "tests/RECIPES.md",
    "tests/vectors/*/README.md",
)
"""What of the repository becomes a page, or is shown or linked on one."""

FIRST, CONTENTS = "README.md", "contents.md"
"""The first page of the site, and the table of contents that ends it."""

FETCHED = re.compile(
    r"""<(?:script|link|img|iframe)\b[^>]*?\b(?:src|href)=["']((?:https?:)?//[^"']+)"""
)

LINKED = re.compile(r"""<a\b[^>]*?\bhref="(?![a-z]+:|//)([^"]+)\"""")
ANCHORED = re.compile(r"""\bid="([^"]+)\"""")


def lay_out(folder: Path) -> None:
    """The sources as Sphinx is to find them."""
    shutil.rmtree(folder, ignore_errors=True)
    for path in (path for pattern in SOURCES for path in ROOT.glob(pattern) if path.is_file()):
        _copy(path, folder / path.relative_to(ROOT))
    for path in HERE.glob("*.md"):
        if path.name != CONTENTS:
            _copy(path, folder / path.name)
    with (folder / FIRST).open("a", encoding="utf-8") as first:
        first.write((HERE / CONTENTS).read_text(encoding="utf-8"))
    for name, text in _reference():
        at = folder / "reference" / name
        at.parent.mkdir(exist_ok=True)
        at.write_text(text, encoding="utf-8")


def _copy(source: Path, at: Path) -> None:
    at.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(source, at)


def _reference() -> Iterator[tuple[str, str]]:
    """Its pages: file names and texts."""
    from mpcsim.cli import program
    from mpcsim.service.gateway.api import app
    from mpcsim.service.gateway.api.openapi import BODIES, describe_gateway
    from node.api import docs, routes

    for name in reference.packages():
        yield f"{name}.rst", reference.package_page(name)
    yield "command-line.md", reference.command_line_page(program())
    node = docs.describe_node([*routes.PUBLIC, *routes.WALLET])
    yield "rest-api.md", reference.interface_page(node)
    gateway = describe_gateway(app.TITLE, BODIES.keys() - {"suspend"})
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
    logging.disable(logging.DEBUG)  # Sphinx writes 177,000 such lines, which nobody sees
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
    for fault in (*from_outside(output), *broken_links(output)):
        sys.stderr.write(f"{fault}\n")
        status = 1
    shutil.copy2(output / "README.html", output / "index.html")
    return status


def broken_links(output: Path) -> Iterator[str]:
    """Yield each link of a page to a file or an anchor of the site that is not there."""
    anchors: dict[Path, set[str]] = {}
    for page in sorted(output.rglob("*.html")):
        for link in dict.fromkeys(LINKED.findall(page.read_text(encoding="utf-8"))):
            path, _, anchor = unquote(unescape(link)).partition("#")
            at = (page.parent / path).resolve() if path else page
            if not at.is_file():
                yield f"{page}: {link} leads nowhere"
            elif anchor and at.suffix == ".html":
                if at not in anchors:
                    anchors[at] = set(ANCHORED.findall(at.read_text(encoding="utf-8")))
                if anchor not in anchors[at]:
                    yield f"{page}: {link} leads to no heading"


def from_outside(output: Path) -> Iterator[str]:
    """What pages would fetch from elsewhere to show themselves."""
    for page in sorted(output.rglob("*.html")):
        for found in FETCHED.findall(page.read_text(encoding="utf-8")):
            yield f"{page}: is not complete without {found}"


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), *sys.argv[2:]))
