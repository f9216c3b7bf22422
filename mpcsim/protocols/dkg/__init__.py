"""Distributed key generation without a dealer.

``definition`` says what the protocol gives and how, and makes its parties; ``messages`` are what is
sent, ``steps`` the checks and computations as pure functions, ``rounds`` their order.
"""

from mpcsim.protocols.dkg.definition import (
    DEFAULT_MTA,
    DKG,
    DkgSetup,
    check_scheme,
    check_setup,
    check_threshold,
    epoch,
    multiplication_scheme,
    party,
    setup,
)
from mpcsim.protocols.dkg.messages import Deal, Reveal
from mpcsim.protocols.dkg.steps import commit_to_reveal

__all__ = [
    "DEFAULT_MTA",
    "DKG",
    "Deal",
    "DkgSetup",
    "Reveal",
    "check_scheme",
    "check_setup",
    "check_threshold",
    "commit_to_reveal",
    "epoch",
    "multiplication_scheme",
    "party",
    "setup",
]
