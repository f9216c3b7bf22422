"""Figures by others, from ``tests/vectors``."""

import gzip
import json
from typing import Any

from mpcsim.crypto.groups.ed25519 import ED25519
from mpcsim.crypto.groups.group import Point, Scalar
from tests.helpers.repo import ROOT


def load(name: str) -> Any:
    """A JSON file, compressed or not."""
    data = (ROOT / "tests/vectors" / name).read_bytes()
    return json.loads(gzip.decompress(data) if name.endswith(".gz") else data)


def scalar(text: str) -> Scalar:
    """Return the scalar of ed25519 that stands in hexadecimal digits."""
    return ED25519.decode_scalar(bytes.fromhex(text))


def point(text: str) -> Point:
    """Return the point of ed25519 that stands in hexadecimal digits."""
    return ED25519.decode_point(bytes.fromhex(text))
