"""A walk through the API of a node, checked step by step against a model of the specification.

Each method is one step: it sends requests, compares the answers with what the model expects, and
updates the model. A step that makes no sense yet (signing without a key) does nothing. The first
answer that is not as specified raises, with the story of how it came about::

    walk = Walk(HttpTarget("http://127.0.0.1:9091", token=my_tokens))
    walk.generate("alice", "ed25519")
    walk.recover("alice", "ed25519")
    walk.sign("alice", "ed25519", share=0)     # the old share: expects 404

Users are named by whoever walks; behind each name is a user of this walk alone, so any number of
walks can go on at one service.
"""

from __future__ import annotations

from typing import Final

from mpcsim.testing.walk.base import HASH, PASSWORD
from mpcsim.testing.walk.crowds import CrowdSteps
from mpcsim.testing.walk.intruders import (
    FAULTS,
    OPERATIONS,
    PROTECTED,
    IntruderSteps,
    Operation,
    TokenFault,
)
from mpcsim.testing.walk.shares import ShareSteps
from mpcsim.testing.walk.signing import NONSENSE, PLACES, Damage, damaged
from mpcsim.testing.walk.trouble import TroubleSteps

__all__ = [
    "FAULTS",
    "HASH",
    "NONSENSE",
    "OPERATIONS",
    "PASSWORD",
    "PLACES",
    "PROTECTED",
    "STEPS",
    "Damage",
    "Operation",
    "TokenFault",
    "Walk",
    "damaged",
]


class Walk(CrowdSteps, ShareSteps, IntruderSteps, TroubleSteps):
    """All steps."""


STEPS: Final = tuple(name for name in dir(Walk) if hasattr(getattr(Walk, name), "__wrapped__"))
"""The methods that are steps."""
