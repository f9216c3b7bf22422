"""Resharing: any t holders give n parties fresh shares of the same key.

``definition`` says what the protocol gives and how, and makes its parties; ``rounds`` has its
rounds. Messages and steps are those of ``dkg``.
"""

from mpcsim.protocols.reshare.definition import (
    RESHARE,
    ReshareSetup,
    check_setup,
    party,
    setup,
)

__all__ = [
    "RESHARE",
    "ReshareSetup",
    "check_setup",
    "party",
    "setup",
]
