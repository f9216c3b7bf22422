"""Threshold Ed25519 signatures: FROST(Ed25519, SHA-512) of RFC 9591.

``definition`` says what the protocol gives and how, and makes its parties; ``messages`` are what is
sent, ``steps`` the checks and computations as pure functions, ``rounds`` their order.
"""

from mpcsim.protocols.frost import steps
from mpcsim.protocols.frost.definition import (
    FROST,
    check_setup,
    party,
    prestart,
    setup,
)
from mpcsim.protocols.frost.rounds import MAX_MESSAGE_BYTES
from mpcsim.protocols.frost.steps import Ed25519Signature, verify_signature_share

__all__ = [
    "FROST",
    "MAX_MESSAGE_BYTES",
    "Ed25519Signature",
    "check_setup",
    "party",
    "prestart",
    "setup",
    "steps",
    "verify_signature_share",
]
