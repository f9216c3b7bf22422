"""What the documents say is there is there: files, modules, names, tests, links, pictures."""

import ast
import re
from collections.abc import Iterator
from functools import cache

import pytest

from tests.helpers.repo import ROOT, parsed, project_files, python_files
from tests.helpers.state_picture import BLOCK, FILE, redrawn

DOCUMENTS = ("ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md", "tests/RECIPES.md")
MOST_WORDS = {"README.md": 1800, "ARCHITECTURE.md": 2500, "CHANGELOG.md": 600}

FENCED = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
SPAN = re.compile(r"`([^`\n]+)`")
LINK = re.compile(r"\]\(([^)#:]+)\)")
IN_FOLDER = re.compile(r"(?<![\w./-])(?:mpcsim|node|tests|notebooks|\.ci)/[\w./-]*")
FILE_NAME = re.compile(r"(?<![\w./-])[\w.-]+\.(?:py|md|toml|yml|lock|json)\b")
MODULE = re.compile(r"(?<![\w./-])(?:mpcsim|node|tests)(?:\.\w+)+")
TEST = re.compile(r"(tests/[\w./-]+\.py)::(\w+)")
NAME = re.compile(r"\w+(?:\.\w+)*")
PROSE = re.compile(r'"""(?s:.*?)"""|#[^\n]*')


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def glossary() -> str:
    return read("ARCHITECTURE.md").partition("\n## Glossary\n")[2]


@cache
def names(*folders: str) -> frozenset[str]:
    """Every word in the code of these folders, but for docstrings and comments."""
    return frozenset(
        word
        for folder in folders
        for path in python_files(folder)
        if path.name != "test_documents.py"
        for word in re.findall(r"\w+", PROSE.sub("", path.read_text(encoding="utf-8")))
    )


@cache
def file_names() -> frozenset[str]:
    return frozenset(path.name for path in project_files())


@cache
def functions(path: str) -> frozenset[str]:
    return frozenset(
        node.name
        for node in ast.walk(parsed(ROOT / path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )


def is_module(dotted: str) -> bool:
    """Whether it is a module, or a name in one."""
    path = ROOT.joinpath(*dotted.split("."))
    if path.is_dir() or path.with_suffix(".py").is_file():
        return True
    module = path.parent
    file = module / "__init__.py" if module.is_dir() else module.with_suffix(".py")
    return file.is_file() and path.name in re.findall(r"\w+", file.read_text(encoding="utf-8"))


def missing(text: str, *code: str) -> Iterator[str]:
    """What a document names that is not there.

    Args:
        code: folders that names in code font are looked for in.
    """
    for path in LINK.findall(text):
        if not (ROOT / path).is_file():
            yield f"link to {path}"
    spans = SPAN.findall(FENCED.sub("", text))
    for span in [*spans, *FENCED.findall(text)]:
        for path in IN_FOLDER.findall(span):
            if not (ROOT / path.rstrip(".")).exists():
                yield path
        for name in FILE_NAME.findall(span):
            if name not in file_names():
                yield name
        for module in MODULE.findall(span):
            if not is_module(module):
                yield module
        for path, test in TEST.findall(span):
            if (ROOT / path).is_file() and test not in functions(path):
                yield f"{path}::{test}"
    for span in spans:
        if NAME.fullmatch(span) and not (FILE_NAME.fullmatch(span) or MODULE.fullmatch(span)):
            for word in span.split("."):
                if word not in names(*code):
                    yield span


@pytest.mark.parametrize("name", DOCUMENTS)
def test_what_a_document_names_is_there(name):
    assert list(missing(read(name), "mpcsim", "node", "tests")) == []


@pytest.mark.parametrize("name", MOST_WORDS)
def test_a_document_is_short(name):
    assert len(read(name).split()) <= MOST_WORDS[name]


def test_the_glossary_has_words_of_the_product():
    assert list(missing(glossary(), "mpcsim", "node")) == []


def test_the_pictures_show_the_rounds_as_they_are():
    text = FILE.read_text(encoding="utf-8")
    assert len(BLOCK.findall(text)) == 2
    assert text == redrawn(text), "run: python -m tests.helpers.state_picture"
