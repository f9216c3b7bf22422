"""Costs of primitive operations on this machine, which no implementation can avoid."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from hashlib import sha256

from coincurve import PrivateKey, PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from nacl import bindings as sodium


def microseconds(operation: Callable[[], object], repeat: int = 300) -> float:
    """Return the median over 7 rounds of the mean CPU time of one call, in microseconds."""
    operation()
    means = []
    for _ in range(7):
        begin = time.process_time_ns()
        for _ in range(repeat):
            operation()
        means.append((time.process_time_ns() - begin) / repeat / 1000)
    return sorted(means)[3]


def primitive_costs() -> dict[str, float]:
    """Return microseconds for each primitive, by name."""
    secret = os.urandom(31).rjust(32, b"\0")
    P, Q = PublicKey.from_secret(secret), PublicKey.from_secret(os.urandom(31))
    encoded = P.format()
    recoverable = PrivateKey(secret).sign_recoverable(secret, hasher=None)
    signed = sodium.crypto_sign(secret, sodium.crypto_sign_seed_keypair(secret)[1])
    verifier = sodium.crypto_sign_seed_keypair(secret)[0]
    A = sodium.crypto_scalarmult_ed25519_base_noclamp(secret[::-1])
    B = sodium.crypto_scalarmult_ed25519_base_noclamp(os.urandom(31) + b"\0")
    megabyte = bytes(1 << 20)
    aes = Cipher(algorithms.AES256(bytes(32)), modes.ECB())
    return {
        "scalar_mult_us": microseconds(lambda: P.multiply(secret)),
        "base_mult_us": microseconds(lambda: PublicKey.from_secret(secret)),
        "point_add_us": microseconds(lambda: PublicKey.combine_keys([P, Q])),
        "point_decode_us": microseconds(lambda: PublicKey(encoded)),
        "recover_us": microseconds(
            lambda: PublicKey.from_signature_and_message(recoverable, secret, hasher=None)
        ),
        "ed25519_scalar_mult_us": microseconds(
            lambda: sodium.crypto_scalarmult_ed25519_noclamp(secret[::-1], A)
        ),
        "ed25519_base_mult_us": microseconds(
            lambda: sodium.crypto_scalarmult_ed25519_base_noclamp(secret[::-1])
        ),
        "ed25519_point_add_us": microseconds(lambda: sodium.crypto_core_ed25519_add(A, B)),
        "ed25519_point_check_us": microseconds(
            lambda: sodium.crypto_core_ed25519_is_valid_point(A)
        ),
        "ed25519_verify_us": microseconds(lambda: sodium.crypto_sign_open(signed, verifier)),
        "sha256_mb_us": microseconds(lambda: sha256(megabyte).digest(), repeat=5),
        "aes_mb_us": microseconds(lambda: aes.encryptor().update(megabyte), repeat=5),
    }
