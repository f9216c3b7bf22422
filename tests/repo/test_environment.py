"""environment.yml (conda) and pyproject.toml must ask for the same packages."""

from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from tests.helpers.repo import ROOT, declared_requirements, pyproject

# conda-forge name -> name in pyproject.toml, where the two differ
PYPI_NAME = {"matplotlib-base": "matplotlib"}
# in environment.yml only, because conda also supplies the interpreter
CONDA_ONLY = {"python", "pip"}


@pytest.fixture(scope="module")
def environment() -> dict[str, Any]:
    return yaml.safe_load((ROOT / "environment.yml").read_text(encoding="utf-8"))


def conda_lines(environment: dict[str, Any]) -> list[str]:
    return [d for d in environment["dependencies"] if isinstance(d, str)]


def pip_lines(environment: dict[str, Any]) -> list[str]:
    return [line for d in environment["dependencies"] if isinstance(d, dict) for line in d["pip"]]


def test_only_the_conda_forge_channel(environment):
    assert environment["name"] == pyproject()["project"]["name"]
    assert environment["channels"] == ["conda-forge"]


def test_same_python(environment):
    (python,) = [r for r in map(Requirement, conda_lines(environment)) if r.name == "python"]
    assert python.specifier == SpecifierSet(pyproject()["project"]["requires-python"])


def test_installs_the_project_itself(environment):
    assert "-e ." in pip_lines(environment)


def test_same_packages_and_ranges(environment):
    lines = conda_lines(environment) + [p for p in pip_lines(environment) if p != "-e ."]
    asked: dict[str, SpecifierSet] = {}
    for req in map(Requirement, lines):
        if req.name in CONDA_ONLY:
            continue
        name = canonicalize_name(PYPI_NAME.get(req.name, req.name))
        assert name not in asked, f"environment.yml lists {name} twice"
        asked[name] = req.specifier
    assert asked == {name: req.specifier for name, req in declared_requirements().items()}
