"""The campaign's model sees every lie that it is there for."""

import pytest
from coincurve import PrivateKey
from nacl.signing import SigningKey

from tests.campaign.model import Key, Violation, verifies

MESSAGE = bytes(range(32))
SEED = SigningKey(bytes(32))
PUBLIC = "0x" + SEED.verify_key.encode().hex()
SIGNATURE = SEED.sign(MESSAGE).signature.hex()


def share(key_id, public_key=PUBLIC, curve="ed25519"):
    return {"key_id": key_id, "public_key": public_key, "curve": curve}


def holder(*key_ids):
    """A key that has been generated, and recovered as often as there are further shares."""
    key = Key("alice", "ed25519")
    for key_id in key_ids:
        key.received(key.begin(), share(key_id))
    return key


def test_an_honest_life():
    key = Key("alice", "ed25519")
    assert key.registered(None) is None
    key.received(key.begin(), share("one"))
    key.signed("one", False, MESSAGE, SIGNATURE)
    key.received(key.begin(), share("two"))
    assert key.registered(share("two"))["key_id"] == "two"
    assert key.retired == {"one"}


def test_a_recovery_in_doubt_may_have_been_one():
    for now in ("one", "another"):
        key = holder("one")
        key.unknown()
        assert (key.registered(share(now)) is None) == (now == "another")
        assert key.retired == ({"one"} if now == "another" else set())


def test_a_doubt_ends_with_the_next_recovery():
    key = holder("one")
    key.unknown()
    key.received(key.begin(), share("two"))
    with pytest.raises(Violation, match="by itself"):
        key.registered(share("another"))


def test_a_doubt_outlives_a_recovery_that_began_before_it():
    key = holder("one")
    making = key.begin()
    key.unknown()
    key.received(making, share("two"))
    assert key.registered(share("another")) is None


def test_of_two_recoveries_at_once_either_may_be_the_last():
    for last in ("two", "three"):
        key = holder("one")
        makings = [key.begin(), key.begin()]
        key.received(makings[0], share("two"))
        key.received(makings[1], share("three"))
        assert key.registered(share(last))["key_id"] == last
        assert key.retired == {"one", "two", "three"} - {last}


@pytest.mark.parametrize(
    ("entry", "what"),
    [
        (None, "lost"),
        (share("one"), "in force again"),
        (share("another"), "by itself"),
        (share("two", "0x" + "00" * 32), "another public key"),
    ],
)
def test_what_may_not_be_registered(entry, what):
    with pytest.raises(Violation, match=what):
        holder("one", "two").registered(entry)


def test_a_key_that_nobody_made():
    with pytest.raises(Violation, match="nobody has made"):
        Key("alice", "ed25519").registered(share("one"))


@pytest.mark.parametrize(
    "made", [share("one"), share("two", "0x" + "00" * 32), share("two", curve="secp256k1")]
)
def test_what_a_recovery_may_not_return(made):
    key = holder("one")
    with pytest.raises(Violation):
        key.received(key.begin(), made)


def test_what_may_not_sign():
    key = holder("one", "two")
    with pytest.raises(Violation, match="retired"):
        key.signed("one", True, MESSAGE, SIGNATURE)
    with pytest.raises(Violation, match="wrong signature"):
        key.signed("two", False, MESSAGE[::-1], SIGNATURE)


def test_signatures_on_secp256k1():
    private = PrivateKey(bytes(31) + b"\1")
    signature = bytearray(private.sign_recoverable(MESSAGE, hasher=None))
    signature[64] += 27
    public_key = "0x" + private.public_key.format().hex()
    assert verifies("secp256k1", public_key, MESSAGE, signature.hex())
    assert not verifies("secp256k1", public_key, MESSAGE[::-1], signature.hex())
    assert not verifies("secp256k1", public_key, MESSAGE, signature[:64].hex())
    assert not verifies("secp256k1", public_key, MESSAGE, "00" * 65)
