"""Every planted bug is found, by the check that is for it, soon, and told shortly."""

import pytest

from mpcsim.testing import BrokenInvariant
from mpcsim.testing.protocols import check_protocol, protocol_examples
from tests.testing.planted import planted, toss

FOUND = {
    "echo missing": ("agreement", 0, 0),
}
ONLY = {}


def found_in(bug: str) -> tuple[BrokenInvariant, int]:
    """What is found first, and after how many examples."""
    for number, example in enumerate(protocol_examples(planted(bug), cheaters=(2,)), 1):
        try:
            example()
        except BrokenInvariant as broken:
            return broken, number
    raise AssertionError(f"{bug}: not found")
