"""Our transcripts for others, ``tests/vectors/dkls23``: made by parties with both kernels, and
right by a program that has nothing of the package."""

import ast
import copy
import sys
from pathlib import Path
from zlib import crc32

import pytest

from mpcsim.crypto.kernels import PLAIN, VECTORISED
from tests.helpers.vectors import load
from tests.vectors.dkls23 import check, make

FOLDER = Path(make.__file__).parent
CASES = {name: load(f"dkls23/{name}")["cases"] for name in make.FILES}


def test_every_case_is_there():
    assert check.CHECKS.keys() == make.FILES.keys()
    assert {path.name for path in FOLDER.glob("*.json")} == make.FILES.keys()
    assert [len(CASES[name]) for name in make.FILES] == [21, 1, 3, 3, 1, 1]
    assert sum(path.stat().st_size for path in FOLDER.glob("*.json")) < 1_000_000


@pytest.mark.few(3)
@pytest.mark.parametrize(
    ("name", "kernel"),
    [
        (name, kernel)
        for name in make.FILES
        for kernel in (PLAIN, VECTORISED)
        if kernel is VECTORISED or name not in ("base_ot.json", "all_but_one_ot.json")
    ],
)
def test_both_kernels_make_the_same_files(name, kernel):
    assert (FOLDER / name).read_text() == make.made(name, kernel)


# ------------------------------------------------------------------ without the package


def test_the_check_has_nothing_of_the_package():
    nodes = list(ast.walk(ast.parse(Path(check.__file__).read_text())))
    found = {
        alias.name.split(".")[0] for n in nodes if isinstance(n, ast.Import) for alias in n.names
    }
    found |= {str(n.module).split(".")[0] for n in nodes if isinstance(n, ast.ImportFrom)}
    assert found - set(sys.stdlib_module_names) == {"coincurve", "cryptography"}


@pytest.mark.parametrize("name", make.FILES)
def test_they_are_right(name):
    for case in CASES[name]:
        check.CHECKS[name](case)


def places(value, path=()):
    """Every text of hexadecimal digits in a case, but for empty ones."""
    if isinstance(value, dict):
        for name, v in value.items():
            if name not in ("tag", "what", "drawn_from", "scheme"):
                yield from places(v, (*path, name))
    elif isinstance(value, list):
        for i, v in enumerate(value):
            yield from places(v, (*path, i))
    elif isinstance(value, str) and value:
        yield path


def altered(case, path):
    """The case with one bit changed in that text, somewhere."""
    found = copy.deepcopy(case)
    *way, last = path
    at = found
    for step in way:
        at = at[step]
    data = bytearray.fromhex(at[last])
    where = crc32(repr(path).encode())
    data[where // 8 % len(data)] ^= 1 << where % 8
    at[last] = data.hex()
    return found


@pytest.mark.few(2)
@pytest.mark.parametrize("name", make.FILES)
def test_no_byte_can_be_changed(name):
    cases = CASES[name] if name == "hashes.json" else CASES[name][-1:]
    for case in cases:
        paths = list(places(case))
        if name == "base_ot.json":
            # Every draw is like the first few.
            paths = [path for path in paths if "draws" not in path or path[-1] < 4]
        assert paths
        for path in paths:
            with pytest.raises((check.Different, ValueError)):
                check.CHECKS[name](altered(case, path))
