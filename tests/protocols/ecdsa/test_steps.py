"""Steps on inputs that no honest run produces."""

import pytest

from mpcsim.algebra.secp256k1 import ORDER, SECP256K1
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
