"""The state machine that calls a wallet backend at random."""

from mpcsim.testing.machine.rules import rules
from mpcsim.testing.machine.shrink import shrink

__all__ = [
    "rules",
    "shrink",
]
