"""The documentation's site has everything, and every page of it is led to."""

import re
import sys
from importlib import import_module

import pytest

from mpcsim.service.gateway.api.openapi import BODIES, describe_gateway
from tests.helpers.repo import ROOT

SITE = ROOT / "notebooks" / "site"


def part(name):
    """A module of the site's, which no package has."""
    sys.path.insert(0, str(SITE))
    try:
        return import_module(name)
    finally:
        sys.path.remove(str(SITE))
        for name in ("build", "reference"):
            sys.modules.pop(name, None)


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    """What Sphinx is given."""
    folder = tmp_path_factory.mktemp("site")
    part("build").lay_out(folder)
    return folder


def test_every_module_is_on_one_page(sources):
    shown = [
        name
        for page in (sources / "reference").glob("*.rst")
        for name in re.findall(r"^\.\. automodule:: (\S+)", page.read_text(), re.MULTILINE)
    ]
    files = [
        path.relative_to(ROOT).with_suffix("")
        for package in ("mpcsim", "node")
        for path in (ROOT / package).rglob("*.py")
        if path.stem != "__main__"
    ]
    names = [".".join(p.parent.parts if p.stem == "__init__" else p.parts) for p in files]
    assert sorted(shown) == sorted(names)


def test_every_command_and_endpoint_has_its_place(sources):
    commands = (sources / "reference" / "command-line.md").read_text()
    assert "## `mpcsim serve`" in commands
    assert "## `mpcsim network fit`" in commands
    document = describe_gateway("", BODIES)
    page = (sources / "reference" / "gateway-api.md").read_text()
    for path, operations in document["paths"].items():
        for method in operations:
            assert f"### `{method.upper()} {path}`\n" in page
    linked = set(re.findall(r"\]\(#(\w+)\)", page))
    assert linked <= {name.lower() for name in re.findall(r"^### (\w+)$", page, re.MULTILINE)}
    assert "### `POST /v3/wallet/sign`\n" in (sources / "reference" / "rest-api.md").read_text()


@pytest.mark.parametrize(
    "element",
    [
        '<script async src="https://localhost/mathjax.js">',
        "<link rel='stylesheet' href='//localhost/css'>",
        '<img alt="x" src="http://localhost/x.png">',
    ],
)
def test_what_a_page_would_fetch_is_seen(tmp_path, element):
    (tmp_path / "a.html").write_text('<a href="https://localhost">there</a><img src="x.png">')
    assert list(part("build").from_outside(tmp_path)) == []
    (tmp_path / "b.html").write_text(element)
    (fault,) = part("build").from_outside(tmp_path)
    assert "b.html" in fault


def test_a_link_that_leads_nowhere_is_seen(tmp_path):
    (tmp_path / "a.html").write_text('<h1 id="here"></h1><a class="x" href="#here">here</a>')
    (tmp_path / "b.html").write_text('<a href="a.html#here"></a><a href="https://localhost">x</a>')
    assert list(part("build").broken_links(tmp_path)) == []
    (tmp_path / "c.html").write_text('<a href="d.html">d</a><a href="a.html#there">there</a>')
    assert len(list(part("build").broken_links(tmp_path))) == 2
