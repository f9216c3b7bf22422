"""Steps on inputs that no honest run produces."""

from dataclasses import replace

import pytest
from coincurve import PrivateKey

from mpcsim.crypto.groups.secp256k1 import ORDER, SECP256K1
from mpcsim.errors import CheckFailed, Reason
from mpcsim.protocols.ecdsa import steps


def test_a_nonce_that_makes_no_signature_is_refused():
    G = SECP256K1.base(SECP256K1.scalar(1))
    x_is_q = SECP256K1.decode_point(b"\2" + ORDER.to_bytes(32, "big"))  # r = x mod q = 0
    for shares in ([G, -G], [x_is_q]):
        with pytest.raises(CheckFailed) as failed:
            steps.combine_nonce(shares)
        assert failed.value.reason is Reason.DEGENERATE_NONCE
    R, r_x = steps.combine_nonce([G, G])
    assert R == G + G
    assert r_x.n == R.x()


def test_a_signature_is_one_of_the_message_under_the_key():
    key = PrivateKey(bytes(31) + b"\7")
    raw = key.sign_recoverable(b"M" * 32, hasher=None)
    r, s = int.from_bytes(raw[:32], "big"), int.from_bytes(raw[32:64], "big")
    good, pk = steps.EcdsaSignature(r, s, raw[64]), SECP256K1.base(SECP256K1.scalar(7))
    assert steps.verifies(good, b"M" * 32, pk)
    assert not steps.verifies(good, b"N" * 32, pk)
    assert not steps.verifies(good, b"M" * 32, pk + pk)
    # x = r + n is none of the field, and r = 0 of no nonce
    for bad in (replace(good, recovery_id=raw[64] | 2), replace(good, r=0)):
        assert not steps.verifies(bad, b"M" * 32, pk)
