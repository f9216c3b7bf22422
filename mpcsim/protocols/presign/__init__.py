"""Presignatures: everything of an ECDSA signature that does not depend on the message, made ahead.

``definition`` says what the protocol gives and how, and makes its parties; ``messages`` are what is
sent, ``steps`` the checks and computations as pure functions, ``rounds`` their order.
"""

from mpcsim.protocols.presign.definition import (
    PRESIGN,
    check_setup,
    party,
    prestart,
    setup,
)
from mpcsim.protocols.presign.messages import MAX_COUNT
from mpcsim.protocols.presign.presignature import Presignature
from mpcsim.protocols.presign.rounds import PresignSetup

__all__ = [
    "MAX_COUNT",
    "PRESIGN",
    "PresignSetup",
    "Presignature",
    "check_setup",
    "party",
    "prestart",
    "setup",
]
