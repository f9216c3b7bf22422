"""Threshold ECDSA on secp256k1 in the manner of DKLs23 (eprint 2023/765, Protocol 3.6).

``definition`` says what the protocol gives and how, and makes its parties; ``messages`` are what is
sent, ``steps`` the checks and computations as pure functions, ``rounds`` their order.
"""

from mpcsim.crypto.groups.secp256k1 import SECP256K1
from mpcsim.protocols.ecdsa import steps
from mpcsim.protocols.ecdsa.definition import (
    ECDSA,
    adapt_setup,
    check_hash,
    check_setup,
    check_signer,
    check_usable,
    discarded_text,
    party,
    prestart,
    setup,
)
from mpcsim.protocols.ecdsa.rounds import EcdsaSetup
from mpcsim.protocols.ecdsa.steps import EcdsaSignature

__all__ = [
    "ECDSA",
    "SECP256K1",
    "EcdsaSetup",
    "EcdsaSignature",
    "adapt_setup",
    "check_hash",
    "check_setup",
    "check_signer",
    "check_usable",
    "discarded_text",
    "party",
    "prestart",
    "setup",
    "steps",
]
