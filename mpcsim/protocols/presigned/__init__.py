"""ECDSA with a presignature: one message from every other signer completes the signature.

``definition`` says what the protocol gives and how, and makes its parties; ``messages`` are what is
sent, ``steps`` the checks and computations as pure functions, ``rounds`` their order.
"""

from mpcsim.protocols.presigned.definition import (
    PRESIGNED,
    check_setup,
    party,
    setup,
)
from mpcsim.protocols.presigned.rounds import PresignedSetup

__all__ = [
    "PRESIGNED",
    "PresignedSetup",
    "check_setup",
    "party",
    "setup",
]
