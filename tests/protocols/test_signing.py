"""What the libraries say of a signature, whatever its bytes."""

from dataclasses import replace

import pytest
from coincurve import PublicKey

from mpcsim.crypto.groups.secp256k1 import ORDER, SECP256K1
from mpcsim.errors import UsageError
from mpcsim.protocols import keys, results, run, session_id
from mpcsim.protocols.signing import prestart, signer, signing_input, verifies
from tests.helpers.sessions import signing_parties


def test_a_signature_of_a_child_key():
    shares, hashed, path = keys("secp256k1"), bytes(range(32)), (0, 7)
    record = shares[1].record
    signature = results(run(signing_parties(shares, (1, 2), hashed, path=path)))[1].encode()
    assert verifies(record, hashed, signature, path=path)
    for other in ((), (0,), (7, 0), (0, 7, 0)):
        assert not verifies(record, hashed, signature, path=other)


def test_no_children_on_ed25519():
    share = keys("ed25519")[1]
    keys_of_mine = share.auth_keys((2, 3))
    words = "ed25519 keys have no chain code"
    with pytest.raises(UsageError, match=words):
        signer(share, (1, 2), b"pay", path=(0,), session_id=session_id("pay"))
    with pytest.raises(UsageError, match=words):
        prestart(
            "ed25519",
            share.record.epoch,
            (1, 2),
            b"pay",
            path=(0,),
            me=share.identifier,
            auth_keys=keys_of_mine,
            session_id=session_id("pay"),
        )
    with pytest.raises(UsageError, match=words):
        verifies(share.record, b"pay", bytes(64), path=(0,))


@pytest.mark.parametrize("curve", ["secp256k1", "ed25519"])
def test_a_signature_and_bytes_that_are_none(curve):
    shares = keys(curve)
    record = shares[1].record
    message = signing_input(record, b"pay")
    signature = results(run(signing_parties(shares, (1, 2), message)))[1].encode()
    assert verifies(record, message, signature)
    assert not verifies(record, signing_input(record, b"pay more"), signature)
    others = [signature[:n] for n in range(len(signature))]
    others += [signature + b"\0", signature[:-1] + bytes([signature[-1] ^ 255])]
    assert not any(verifies(record, message, other) for other in others)


def test_the_twin_with_high_s_is_refused():
    shares, hashed = keys("secp256k1"), bytes(range(32))
    record = shares[1].record
    signature = results(run(signing_parties(shares, (1, 2), hashed)))[1]
    assert verifies(record, hashed, signature.encode())
    twin = replace(signature, s=ORDER - signature.s, recovery_id=signature.recovery_id ^ 1)
    recoverable = twin.compact() + bytes([twin.recovery_id])
    found = PublicKey.from_signature_and_message(recoverable, hashed, hasher=None)
    assert found.format() == record.public_key.encode(), "libsecp256k1 takes it"
    assert not verifies(record, hashed, twin.encode())


@pytest.mark.parametrize("recovery_id", [2, 3])
def test_v_is_27_or_28(recovery_id):
    # The x coordinate of R is r + q: about one signature in 2^127. Here the key is made to fit.
    record, hashed = keys("secp256k1")[1].record, bytes(range(32))
    r, s = (2).to_bytes(32, "big"), (1).to_bytes(32, "big")
    found = PublicKey.from_signature_and_message(r + s + bytes([recovery_id]), hashed, hasher=None)
    fitting = replace(record, public_key=SECP256K1.decode_point(found.format()))
    assert not verifies(fitting, hashed, r + s + bytes([27 + recovery_id]))
