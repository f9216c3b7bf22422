"""Marks the cells of the gallery and of the compromise matrix that only `make soak` runs."""

import json
from pathlib import Path

import pytest

SOAK = json.loads(Path(__file__).with_name("soak_cells.json").read_text(encoding="utf-8"))
"""Cells without which the others, in a third of the time, still run nine tenths of the attacks."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        test, _, cell = item.name.removesuffix("]").partition("[")
        if "tests/attacks/" in item.nodeid and cell in SOAK.get(test, ()):
            item.add_marker("soak")
