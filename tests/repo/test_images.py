"""Each image's list in pyproject.toml is what its processes can import."""

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.helpers.reachable import reachable
from tests.helpers.repo import pyproject

NAMES = {"Crypto": "pycryptodome", "jwt": "pyjwt", "nacl": "pynacl", "pydantic_core": "pydantic"}
"""Packages of libraries that are called otherwise, or whose version another package decides."""


@pytest.mark.parametrize("image", ["node", "gateway"])
def test_an_image_has_what_its_processes_can_import_and_no_more(image):
    _, libraries = reachable(image)
    imported = {canonicalize_name(NAMES.get(name, name)) for name in libraries}
    extra = pyproject()["project"]["optional-dependencies"][image]
    assert imported == {canonicalize_name(Requirement(line).name) for line in extra}
