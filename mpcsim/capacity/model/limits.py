"""Admission limits: how many calls may be at something at a time, and how many may wait for it."""

from __future__ import annotations

import math
from dataclasses import dataclass

from mpcsim.errors import UsageError
from mpcsim.sim.network.transport import is_whole_number


@dataclass(frozen=True)
class Limit:
    """Semaphore for calls of some operations: ``at_once`` at a time; more wait in order, or are
    refused.

    A call is inside from the arrival of its message ``enters`` until its message ``leaves`` has
    been handled, or it is over. By default these are the first and the last that the gateway
    handles.

    >>> Limit(("recover secp256k1",), at_once=4)
    """

    operations: tuple[str, ...]
    at_once: int
    waiting: float = math.inf
    """Capacity of the queue; beyond, calls are refused."""
    enters: str = ""
    """Names of messages."""
    leaves: str = ""

    def __post_init__(self) -> None:
        if not self.operations:
            raise UsageError("limit operations are none: one at least")
        if not is_whole_number(self.at_once, 1):
            raise UsageError(f"limit at_once is {self.at_once}: not a whole number from 1 on")
        if self.waiting != math.inf and not is_whole_number(self.waiting, 0):
            raise UsageError(f"limit waiting is {self.waiting}: a whole number from 0 on, or inf")
