"""OT-based multiplication: the algebra, and each way to cheat in it."""

from dataclasses import replace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpcsim.crypto.groups.secp256k1 import SECP256K1
from mpcsim.crypto.kernels import DEFAULT, Kernel, ScalarVector
from mpcsim.crypto.mta.base import direction_sid
from mpcsim.crypto.mta.ot import OtMta, challenge
from mpcsim.crypto.mta.schemes import mta_scheme
from mpcsim.crypto.ot import base as ot_base
from mpcsim.crypto.ot import extension
from mpcsim.crypto.ot.base import bit
from mpcsim.crypto.params import LIKE_SILENCE, STANDARD, OtParameters
from mpcsim.crypto.rng import SeededRng
from mpcsim.errors import CheckFailed, Reason, UsageError
from mpcsim.protocols.sample_keys import keys
from tests.helpers.sessions import check_base_ots
from tests.helpers.tiers import examples

MTA = mta_scheme("ot/80")
SID = bytes(range(32))
scalars = st.integers(0, SECP256K1.order - 1).map(SECP256K1.scalar)


@pytest.fixture(scope="module")
def setups():
    """(sender's state, receiver's state) from a real key generation."""
    shares = keys("secp256k1")
    return shares[1].peers[2].multiplication, shares[2].peers[1].multiplication


def set_up(mta):
    """(sender's state, receiver's state) of a pair."""
    offers = {i: mta.setup_start(SID, i, 3 - i, SeededRng(f"offer {i}")) for i in (1, 2)}
    replies = {
        i: mta.setup_answer(SID, i, 3 - i, offers[3 - i][1], SeededRng(f"reply {i}"))
        for i in (1, 2)
    }
    found = [
        mta.setup_finish(SID, i, 3 - i, offers[i][0], replies[i][0], replies[3 - i][1])
        for i in (1, 2)
    ]
    check_base_ots(*found)
    check_base_ots(*reversed(found))
    return found


def start(setups, seed=0):
    return MTA.receiver_start(setups[1], SID, SeededRng(f"receiver {seed}"))


@examples(12)
@given(scalars, scalars, st.integers())
def test_shares_add_up_to_the_product(setups, r, sk, seed):
    kept, chi, offer = start(setups, seed)
    c, reply = MTA.sender(setups[0], SID, offer, (r, sk), SeededRng(seed))
    d = MTA.receiver_finish(kept, reply)
    assert c[0] + d[0] == r * chi
    assert c[1] + d[1] == sk * chi


@pytest.mark.parametrize("k", [1, 2, 4])
@pytest.mark.parametrize("lambda_s", [40, 80, 128])
def test_other_parameters(lambda_s, k):
    mta = OtMta(OtParameters(lambda_s, k))
    setups = set_up(mta)
    kept, chi, offer = mta.receiver_start(setups[1], SID, SeededRng(1))
    assert len(offer.u) == 128 // k * (256 + 2 * lambda_s + 128) // 8
    a = SECP256K1.scalar(3), SECP256K1.scalar(4)
    c, reply = mta.sender(setups[0], SID, offer, a, SeededRng(2))
    d = mta.receiver_finish(kept, reply)
    assert (c[0] + d[0], c[1] + d[1]) == (a[0] * chi, a[1] * chi)


def test_base_ot_gives_one_key_of_two():
    choices = SeededRng("choices").bytes(16)
    kept, first = ot_base.receiver_start(SID, choices, SeededRng(1))
    (keys0, keys1), second = ot_base.sender_answer(SID, first, SeededRng(2))
    chosen = ot_base.receiver_finish(SID, kept, second)
    for k in range(128):
        at = slice(16 * k, 16 * k + 16)
        mine, other = (keys1, keys0) if bit(choices, k) else (keys0, keys1)
        assert chosen[at] == mine[at] != other[at]
    assert len({keys0[i : i + 16] for i in range(0, 2048, 16)}) == 128


def test_base_ot_receiver_hashes_what_its_sender_does_whatever_it_chooses(monkeypatch):
    """How many tries an oracle takes depends on the point, and both points are sent."""
    hashed, hash_point = [], ot_base._hash_point
    monkeypatch.setattr(ot_base, "_hash_point", lambda *of: hashed.append(of) or hash_point(*of))
    _, first = ot_base.receiver_start(SID, SeededRng("choices").bytes(16), SeededRng(1))
    by_receiver = set(hashed)
    hashed.clear()
    ot_base.sender_answer(SID, first, SeededRng(2))
    assert by_receiver == set(hashed)
    assert len(by_receiver) == len(hashed) == 256


def test_base_ot_refuses_another_number_of_instances():
    kept, first = ot_base.receiver_start(SID, bytes(16), SeededRng(1))
    _, second = ot_base.sender_answer(SID, first, SeededRng(2))
    for bad in (replace(first, r0=first.r0[1:]), replace(first, r0=first.r0[1:], r1=first.r1[1:])):
        with pytest.raises(CheckFailed) as caught:
            ot_base.sender_answer(SID, bad, SeededRng(2))
        assert caught.value.reason is Reason.MALFORMED_MESSAGE
    with pytest.raises(CheckFailed) as caught:
        ot_base.receiver_finish(SID, kept, replace(second, A=second.A[1:]))
    assert caught.value.reason is Reason.MALFORMED_MESSAGE


def test_base_ot_binds_session_and_direction():
    choices = bytes(16)
    kept, first = ot_base.receiver_start(SID, choices, SeededRng(1))
    (keys0, _), second = ot_base.sender_answer(bytes(32), first, SeededRng(2))
    assert ot_base.receiver_finish(SID, kept, second) != keys0
    assert direction_sid(SID, 1, 2) != direction_sid(SID, 2, 1)


@pytest.mark.parametrize("field", ["u", "x", "t"])
def test_any_altered_part_of_the_offer_is_caught(setups, field):
    """In any row of u: the challenge depends on it, so that the honest opening fits none."""
    _, _, offer = start(setups)
    inputs = SECP256K1.scalar(1), SECP256K1.scalar(2)
    for at in (0, 68, 68 * 63, 68 * 127) if field == "u" else (-1,):
        value = bytearray(getattr(offer, field))
        value[at] ^= 0x10
        cheating = replace(offer, **{field: bytes(value)})
        with pytest.raises(CheckFailed) as caught:
            MTA.sender(setups[0], SID, cheating, inputs, SeededRng(1))
        assert caught.value.reason is Reason.OT_EXTENSION_CHECK


def test_a_row_that_fits_another_u_is_caught(setups):
    """The map that rows are compared by comes of u: with one known before, any u could pass."""
    _, _, offer = start(setups)
    row, xi = SeededRng("row").bytes(52), 416
    collides = row + extension._hashed_rows(DEFAULT, SID, offer.u, row + bytes(16), xi)
    assert not any(extension._hashed_rows(DEFAULT, SID, offer.u, collides, xi))
    u = DEFAULT.xor(offer.u, DEFAULT.repeat_row(collides, 128))
    with pytest.raises(CheckFailed) as caught:
        MTA.sender(setups[0], SID, replace(offer, u=u), (SECP256K1.scalar(1),) * 2, SeededRng(1))
    assert caught.value.reason is Reason.OT_EXTENSION_CHECK


class Cheating:
    """The kernel of a sender that adds to its corrections of OT ``j``, and goes on from there."""

    def __init__(self, j: int, added: tuple[int, int, int]) -> None:
        self.j, self.added = j, iter(added)

    def __getattr__(self, name: str) -> Any:
        return getattr(DEFAULT, name)

    def difference_plus(self, a: ScalarVector, b: ScalarVector, s: int) -> ScalarVector:
        data = bytearray(DEFAULT.join([DEFAULT.difference_plus(a, b, s)]))
        at = slice(32 * self.j, 32 * self.j + 32)
        n = (int.from_bytes(data[at], "little") + next(self.added)) % SECP256K1.order
        data[at] = n.to_bytes(32, "little")
        return DEFAULT.split_checked(bytes(data), 1, SECP256K1.order)[0]


def test_an_altered_correction_is_caught(setups):
    """What is added to one column is made up for by no other: each has a weight of its own."""
    kept, _, offer = start(setups)
    inputs = (SECP256K1.scalar(5),) * 2
    _, reply = MTA.sender(setups[0], SID, offer, inputs, SeededRng(1))
    spoilt = [replace(reply, eta=reply.eta + SECP256K1.scalar(1)), replace(reply, mu=bytes(32))]
    j = next(j for j in range(416) if bit(kept.beta, j))  # else it is multiplied with 0
    one, other = challenge(SID, DEFAULT.join(reply.a))  # what is added changes them
    made_up = ((1, -1, 0), (1, 0, -1), (0, 1, -1), (other, -one, 0))
    for added in ((1, 0, 0), (0, 1, 0), (0, 0, 1), *made_up):
        cheater = OtMta(STANDARD, cast(Kernel, Cheating(j, added)))
        spoilt.append(cheater.sender(setups[0], SID, offer, inputs, SeededRng(1))[1])
    for bad in spoilt:
        with pytest.raises(CheckFailed) as caught:
            MTA.receiver_finish(kept, bad)
        assert caught.value.reason is Reason.MULTIPLICATION_CHECK


def test_unknown_schemes_are_refused():
    names = ("", "ot", "ot/", "ot/080", "ot/8000", "ot/²", "ot/80/1", "ot/80/", "ot/80/44")
    for name in (*names, "paillier/2048"):
        with pytest.raises(UsageError, match="unknown multiplication scheme"):
            mta_scheme(name)
    assert (STANDARD.xi, LIKE_SILENCE.xi) == (416, 512)
    for name in ("ot/80/4", "ot/40", "ot/256"):
        assert mta_scheme(name).identifier == name
    for name in ("ot/80/3", "ot/80/8"):
        with pytest.raises(UsageError, match=r"k = [38]; 1, 2 or 4"):
            mta_scheme(name)
    for name in ("ot/81", "ot/36", "ot/260", "ot/0"):
        with pytest.raises(UsageError, match="multiple of 4 from 40 to 256"):
            mta_scheme(name)
