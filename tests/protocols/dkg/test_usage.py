"""The caller's mistakes are refused before anything is sent."""

import pytest

from mpcsim.crypto.rng import SeededRng
from mpcsim.errors import UsageError
from mpcsim.ids import MAX_PARTIES
from mpcsim.protocols import dkg


@pytest.mark.parametrize(
    ("curve", "t", "parties", "scheme", "text"),
    [
        ("ed25519", 4, (1, 2, 3), None, "between 2 and n"),
        ("ed25519", 1, (1, 2, 3), None, "between 2 and n"),
        ("ed25519", 0, (1, 2, 3), None, "between 2 and n"),
        ("ed25519", -1, (1, 2, 3), None, "between 2 and n"),
        ("ed25519", 2, (1,), None, "between 2 and n"),
        ("ed25519", 2, (), None, "between 2 and n"),
        ("ed25519", 2, (1, 2, 2), None, "duplicate"),
        ("ed25519", 2, (0, 1, 2), None, "outside 1..65535"),
        ("ed25519", 2, (-1, 1, 2), None, "outside 1..65535"),
        ("ed25519", 2, (1, 2, 0x10000), None, "outside 1..65535"),
        ("ed25519", 2, tuple(range(1, MAX_PARTIES + 2)), None, "at most 256"),
        ("ed25519", 2, (1, 2), "ot/80", "need no multiplication scheme"),
        ("secp256k1", 2, (1, 2), "ot/81", "multiple of 4"),
        ("secp256k1", 2, (1, 2), "paillier", "unknown multiplication scheme"),
        ("secp256k1", 2, (1, 2), object, "scheme: .* such as 'ot/80', not a type"),
        ("secp256k1", 2, (1, 2), ["ot/80"], "scheme: .* not a list"),
        ("secp256k1", 2, (1, 2), 0, "scheme: .* not a int"),
        ("ed25519", 2, (1, 2), 0, "scheme: .* not a int"),
        ("secp256r1", 2, (1, 2), None, "unknown curve"),
        ("", 2, (1, 2), None, "unknown curve"),
        (object, 2, (1, 2), None, "unknown curve"),
        (["secp256k1"], 2, (1, 2), None, "unknown curve"),
        ("Ed25519", 2, (1, 2), None, "unknown curve"),
    ],
)
def test_a_bad_setup(curve, t, parties, scheme, text):
    with pytest.raises(UsageError, match=text):
        dkg.setup(curve, t, parties, scheme)


AGREED = dkg.setup("ed25519", 2, (1, 2, 3))


@pytest.mark.parametrize("length", [0, 31, 33])
def test_a_session_id_of_another_length(length):
    with pytest.raises(UsageError, match="session id"):
        dkg.party(AGREED, 1, session_id=bytes(length))


@pytest.mark.parametrize("me", [0, 4, -1])
def test_a_party_that_takes_no_part(me):
    with pytest.raises(UsageError, match="takes no part"):
        dkg.party(AGREED, me, session_id=bytes(32))


def test_start_only_once():
    party = dkg.party(AGREED, 1, session_id=bytes(32), rng=SeededRng(1))
    party.start()
    with pytest.raises(UsageError, match="already started"):
        party.start()


@pytest.mark.parametrize(
    ("agreed", "text"),
    [
        (dkg.DkgSetup("ed25519", 1, (1, 2), ""), "threshold 1"),
        (dkg.DkgSetup("ed25519", 3, (1, 2), ""), "threshold 3"),
        (dkg.DkgSetup("ed25519", 2, (2, 1), ""), "ascending"),
        (dkg.DkgSetup("ed25519", 2, (1, 2), "ot/80"), "no multiplication scheme"),
        (dkg.DkgSetup("secp256k1", 2, (1, 2), ""), "no multiplication scheme"),
        (dkg.DkgSetup("secp256k1", 2, (1, 2), "ot/1"), "multiple of 4"),
    ],
    ids=str,
)
def test_a_setup_made_by_hand_is_checked_all_the_same(agreed, text):
    with pytest.raises(UsageError, match=text):
        dkg.party(agreed, 1, session_id=bytes(32))
