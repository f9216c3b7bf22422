"""Figures by others, from ``tests/vectors``."""

import gzip
import json
from typing import Any

from tests.helpers.repo import ROOT


def load(name: str) -> Any:
    """A JSON file, compressed or not."""
    data = (ROOT / "tests/vectors" / name).read_bytes()
    return json.loads(gzip.decompress(data) if name.endswith(".gz") else data)
