"""ECDSA with a presignature: a message from every other signer, and the signature is there.

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
