"""A run through the API of a node, checked step by step against a model of the specification.

Each method is one step: it sends requests, compares the answers with what the model expects, and
updates the model. A step that makes no sense yet (signing without a key) does nothing. The first
answer that is not as specified raises, with the steps that led to it::

    api = ApiRun(HttpTarget("http://127.0.0.1:9091", token=my_tokens))
    api.generate("alice", "ed25519")
    api.recover("alice", "ed25519")
    api.sign("alice", "ed25519", share=0)     # the old share: expects 404

Users are named by the caller; behind each name is a user of this run alone, so any
number of runs can go on at one service.
"""

from __future__ import annotations

from typing import Final

from mpcsim.testing.machine.api_steps.base import HASH, PASSWORD
from mpcsim.testing.machine.api_steps.children import BAD_PATHS, ChildSteps
from mpcsim.testing.machine.api_steps.concurrent_steps import ConcurrentSteps
from mpcsim.testing.machine.api_steps.cross_user_steps import (
    FAULTS,
    OPERATIONS,
    PROTECTED,
    CrossUserSteps,
    Operation,
    TokenFault,
)
from mpcsim.testing.machine.api_steps.outages import OutageSteps
from mpcsim.testing.machine.api_steps.presigning import PresigningSteps
from mpcsim.testing.machine.api_steps.shares import ShareSteps
from mpcsim.testing.machine.api_steps.signing import NONSENSE, PLACES, Damage, damaged

__all__ = [
    "BAD_PATHS",
    "FAULTS",
    "HASH",
    "NONSENSE",
    "OPERATIONS",
    "PASSWORD",
    "PLACES",
    "PROTECTED",
    "STEPS",
    "ApiRun",
    "Damage",
    "Operation",
    "TokenFault",
    "damaged",
]


class ApiRun(ConcurrentSteps, ChildSteps, PresigningSteps, ShareSteps, CrossUserSteps, OutageSteps):
    """All steps."""


STEPS: Final = ApiRun.steps()
"""The methods that are steps."""
