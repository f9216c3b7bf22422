"""Invariants that the kit checks by itself."""

from __future__ import annotations

from typing import Final

from mpcsim.testing.backend import service_checks
from mpcsim.testing.invariants import Invariant
from mpcsim.testing.runs import protocol_checks

INVARIANTS: Final[dict[str, Invariant[...]]] = {
    name: found
    for checks in (protocol_checks, service_checks)
    for name, found in vars(checks).items()
    if isinstance(found, Invariant)
}
"""Invariants by name."""
