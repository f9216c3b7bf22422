"""What the libraries say of a signature, whatever its bytes."""

import pytest

from mpcsim.protocols.signing import signer, to_sign, verifies
from mpcsim.runner import results, run
from mpcsim.sample_keys import keys, session_id


@pytest.mark.parametrize("curve", ["secp256k1", "ed25519"])
def test_a_signature_and_bytes_that_are_none(curve):
    shares = keys(curve)
    record = shares[1].record
    message = to_sign(record, b"pay")
    parties = [signer(shares[i], (1, 2), message, session_id=session_id("pay")) for i in (1, 2)]
    signature = next(iter(results(run(parties)).values())).encode()
    assert verifies(record, message, signature)
    assert not verifies(record, to_sign(record, b"pay more"), signature)
    others = [signature[:n] for n in range(len(signature))]
    others += [signature + b"\0", signature[:-1] + bytes([signature[-1] ^ 255])]
    assert not any(verifies(record, message, other) for other in others)
