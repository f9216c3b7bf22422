"""Rules for what may be committed, and the version being the same everywhere."""

import re
from pathlib import Path

import pytest

import mpcsim
from tests.helpers.repo import ROOT, project_files, pyproject

TOP_FOLDERS = {"mpcsim", "node", "notebooks", "tests", ".ci"}

# A path into somebody's machine; a path that continues another one (a/tmp/b) is fine.
MACHINE_PATH = re.compile(r"(?<![\w.$})~-])/(?:work|tmp|home|root|opt|mnt|Users|private)/")
WINDOWS_PATH = re.compile(r"\b[A-Z]:\\\\?Users\b")
# Where packages come from is each machine's own business.
REGISTRY = re.compile(
    r"\b(?:pypi\.org|pythonhosted\.org|npmjs\.(?:org|com)|yarnpkg\.com|anaconda\.(?:org|com)"
    r"|deb\.debian\.org|archive\.ubuntu\.com|crates\.io|proxy\.golang\.org)\b"
    r"|https?://[^/\s\"'<>]*(?:pypi|artifactory|devpi|nexus|registry|mirror)"
    r"|(?<!no-emit-)\b(?:extra-)?index-url\b|\bPIP_(?:EXTRA_)?INDEX_URL\b|\bUV_[A-Z_]*INDEX\w*",
    re.IGNORECASE,
)
# This file spells the patterns out.
EXEMPT = {Path(__file__).resolve()}


def offences(text: str) -> list[str]:
    return [
        f"{number}: {match.group(0)}"
        for number, line in enumerate(text.splitlines(), 1)
        for pattern in (MACHINE_PATH, WINDOWS_PATH, REGISTRY)
        for match in pattern.finditer(line)
    ]


def test_no_file_names_a_machine_path_or_registry():
    found = []
    for path in project_files():
        if path in EXEMPT:
            continue
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue  # not text
        found += [f"{path.relative_to(ROOT)}:{offence}" for offence in offences(text)]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    "line",
    [
        "see /work/main/x",
        'open("/tmp/x")',
        "file:///home/me/x",
        r"C:\Users\me",
        "https://pypi.org/simple",
        "https://pypi.example.net/simple",
        "pip install --index-url X",
    ],
)
def test_the_patterns_catch(line):
    assert offences(line)


@pytest.mark.parametrize(
    "line",
    ["#!/usr/bin/env bash", '"$tmp/venv/bin"', "framework/main", "--no-emit-index-url", "a/tmp/b"],
)
def test_the_patterns_leave_alone(line):
    assert not offences(line)


def test_top_level_folders():
    folders = {rel.parts[0] for p in project_files() if len((rel := p.relative_to(ROOT)).parts) > 1}
    assert folders <= TOP_FOLDERS
    assert {"mpcsim", "node", "notebooks", "tests"} <= folders


def test_version_is_the_same_everywhere():
    version = pyproject()["project"]["version"]
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.search(rf"^## \[{re.escape(version)}\]", changelog, re.MULTILINE)
    assert mpcsim.__version__ == version


def test_packages_are_typed():
    assert (ROOT / "mpcsim" / "py.typed").is_file()
    assert (ROOT / "node" / "py.typed").is_file()
