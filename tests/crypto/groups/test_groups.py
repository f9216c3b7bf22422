"""Groups against plain textbook arithmetic, and decoding against every kind of bad encoding."""

import operator
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nacl import bindings as sodium

from mpcsim.crypto import SeededRng
from mpcsim.crypto.groups import ED25519, SECP256K1, polynomial
from mpcsim.crypto.groups.curves import CURVES, curve
from mpcsim.errors import InternalError, InvalidEncoding, UsageError
from tests.helpers.tiers import examples

GROUPS = list(CURVES.values())
groups = st.sampled_from(GROUPS)
integers = st.one_of(
    st.integers(0, 2**256), st.sampled_from([0, 1, 2, SECP256K1.order - 1, ED25519.order - 1])
)

# --- an independent, slow implementation of both curves, from their definitions -----------------
P_K1 = 2**256 - 2**32 - 977
G_K1 = (
    0x79BE667EF9DCBBAC55A06295CE870B07029BFCDB2DCE28D959F2815B16F81798,
    0x483ADA7726A3C4655DA4FBFC0E1108A8FD17B448A68554199C47D08FFB10D4B8,
)
P_ED = 2**255 - 19
D_ED = -121665 * pow(121666, -1, P_ED) % P_ED
G_ED = (
    15112221349535400772501151409588531511454012693041857206046113283949847762202,
    46316835694926478169428394003475163141307993866256225615783033603165251855960,
)


def add_k1(a, b):
    if a is None or b is None:
        return a or b
    (x1, y1), (x2, y2) = a, b
    if x1 == x2 and (y1 + y2) % P_K1 == 0:
        return None
    slope = 3 * x1 * x1 * pow(2 * y1, -1, P_K1) if a == b else (y2 - y1) * pow(x2 - x1, -1, P_K1)
    x = (slope * slope - x1 - x2) % P_K1
    return x, (slope * (x1 - x) - y1) % P_K1


def add_ed(a, b):
    (x1, y1), (x2, y2) = a, b
    k = D_ED * x1 * x2 * y1 * y2
    return (
        (x1 * y2 + x2 * y1) * pow(1 + k, -1, P_ED) % P_ED,
        (y1 * y2 + x1 * x2) * pow(1 - k, -1, P_ED) % P_ED,
    )


def multiply(add, zero, point, n):
    total = zero
    while n:
        if n & 1:
            total = add(total, point)
        point, n = add(point, point), n >> 1
    return total


def textbook(group, n):
    """n * G, encoded."""
    if group is SECP256K1:
        x, y = multiply(add_k1, None, G_K1, n)
        return bytes([2 + (y & 1)]) + x.to_bytes(32, "big")
    x, y = multiply(add_ed, (0, 1), G_ED, n)
    return (y | (x & 1) << 255).to_bytes(32, "little")


@examples(12)
@given(groups, integers)
def test_base_multiplication_is_the_textbook_one(group, n):
    s = group.scalar(n)
    if s:
        assert group.base(s).encode() == textbook(group, s.n)


def test_secret_factors_meet_points_in_constant_time_functions_alone():
    """Of libsecp256k1: that of ECDH; ``pubkey_tweak_mul`` is variable-time."""
    called, P = set(), SECP256K1.base(SECP256K1.scalar(7))

    def tell(frame, event, argument):
        called.add(getattr(argument, "__name__", ""))

    sys.setprofile(tell)
    product = SECP256K1.scalar(5) * P
    sys.setprofile(None)
    assert product == SECP256K1.base(SECP256K1.scalar(35))
    assert "secp256k1_ecdh" in called
    assert not {name for name in called if "mul" in name and name.startswith("secp256k1")}


@examples(20)
@given(groups, integers, integers)
def test_group_laws(group, a, b):
    x, y = group.scalar(a), group.scalar(b)
    X, Y = group.base(x), group.base(y)
    assert X + Y == Y + X == group.base(x + y) == group.sum([X, Y])
    assert group.base(x - y) == X - Y
    assert y * X == x * Y == group.base(x * y)
    assert (X - X).is_identity
    assert (X + (-X)).is_identity
    assert X + group.identity == X == group.identity + X
    assert (group.scalar(0) * X).is_identity
    assert (x * group.identity).is_identity
    assert X - X == group.identity != group.base(group.scalar(1))
    assert group.sum([]).is_identity


@examples(20)
@given(groups, integers)
def test_encodings_round_trip(group, n):
    s = group.scalar(n)
    assert group.decode_scalar(s.encode()) == s
    if s:
        assert (s * s.inverse()).n == 1
        point = group.base(s)
        assert group.decode_point(point.encode()) == point


@pytest.mark.parametrize("group", GROUPS, ids=str)
def test_scalars_out_of_range_are_refused(group):
    for n in (group.order, group.order + 1, 2**256 - 1):
        with pytest.raises(InvalidEncoding, match="canonical"):
            group.decode_scalar(n.to_bytes(32, group.byteorder))
    for length in (0, 31, 33):
        with pytest.raises(InvalidEncoding):
            group.decode_scalar(bytes(length))
    with pytest.raises(InternalError):
        group.scalar(0).inverse()


def test_bad_secp256k1_points_are_refused():
    good = SECP256K1.base(SECP256K1.scalar(1)).encode()
    x = good[1:]
    uncompressed = b"\x04" + b"".join(n.to_bytes(32, "big") for n in G_K1)
    hybrid = b"\x06" + uncompressed[1:]
    bad = [b"", good[:-1], good + b"\0", b"\x00" * 33, b"\x04" + x, b"\x05" + x, uncompressed]
    bad += [hybrid, b"\x02" + (5).to_bytes(32, "big"), b"\x02" + P_K1.to_bytes(32, "big")]
    bad += [b"\x02" + b"\xff" * 32]
    for data in bad:
        with pytest.raises(InvalidEncoding):
            SECP256K1.decode_point(data)
    with pytest.raises(InternalError):
        SECP256K1.identity.encode()


def test_bad_ed25519_points_are_refused():
    torsion = [
        "0100000000000000000000000000000000000000000000000000000000000000",
        "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
        "0000000000000000000000000000000000000000000000000000000000000080",
        "0000000000000000000000000000000000000000000000000000000000000000",
        "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
        "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa",
        "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
        "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc85",
    ]
    noncanonical = [
        (P_ED + 1).to_bytes(32, "little"),
        (P_ED | 1 << 255).to_bytes(32, "little"),
        b"\xff" * 32,
    ]
    good = ED25519.base(ED25519.scalar(7))
    shifted = sodium.crypto_core_ed25519_add(good.encode(), bytes.fromhex(torsion[4]))
    for data in [bytes.fromhex(t) for t in torsion] + noncanonical + [shifted, b"", bytes(31)]:
        with pytest.raises(InvalidEncoding):
            ED25519.decode_point(data)


@examples(10)
@given(groups, st.integers(2, 5), st.integers(), st.integers(0, 40))
def test_polynomials_in_the_clear_and_in_the_exponent(group, t, seed, x):
    rng = SeededRng(seed)
    f = polynomial.random_polynomial(group.scalar(seed), t - 1, rng)
    assert len(f) == t
    assert group.base(polynomial.evaluate(f, x)) == polynomial.evaluate_commitment(
        polynomial.commit(f), x
    )
    ids = list(range(3, 3 + t))
    interpolated = sum(
        (
            polynomial.lagrange_coefficient(group, i, ids, x) * polynomial.evaluate(f, i)
            for i in ids
        ),
        group.scalar(0),
    )
    assert interpolated == polynomial.evaluate(f, x)


def test_interpolation_refuses_nonsense():
    for i, ids in ((4, [1, 2, 3]), (1, [1, 2, 1]), (1, [1, 1 + SECP256K1.order])):
        with pytest.raises(UsageError):
            polynomial.lagrange_coefficient(SECP256K1, i, ids)


# --- operands that are none ----------------------------------------------------------------------

SIGNS = {"+": operator.add, "-": operator.sub, "*": operator.mul}


@pytest.mark.parametrize("group", GROUPS, ids=str)
@pytest.mark.parametrize("sign", SIGNS)
def test_what_cannot_be_calculated_with_is_a_type_error(group, sign):
    s, P, apply = group.scalar(3), group.base(group.scalar(3)), SIGNS[sign]
    with pytest.raises(TypeError, match=rf"scalar \{sign} float: .* must be a scalar"):
        apply(s, 2.0)
    mixed = [(P, P)] if sign == "*" else [(s, P)]
    pairs = [*mixed, *((x, y) for x in (s, P) for y in (2, None, "x", [1]))]
    for one, other in [(P, s), *pairs, *((y, x) for x, y in pairs)]:
        with pytest.raises(TypeError):
            apply(one, other)
    with pytest.raises(TypeError, match=r"unsupported operand type\(s\) for -: .* 'int'"):
        P - 2
    assert s != 3 != P


@pytest.mark.parametrize(("group", "another"), [GROUPS, GROUPS[::-1]], ids=str)
def test_groups_do_not_mix(group, another):
    s, t = group.scalar(3), another.scalar(3)
    P, Q = group.base(s), another.base(t)
    for sign, apply in SIGNS.items():
        with pytest.raises(TypeError, match=rf"{group} \{sign} {another}"):
            apply(s, t)
    for apply, one, other in [
        (operator.mul, s, Q),
        (operator.mul, s, another.identity),
        (operator.mul, group.scalar(0), Q),
        (operator.add, P, Q),
        (operator.sub, P, Q),
        (operator.add, group.identity, Q),
    ]:
        with pytest.raises(TypeError):
            apply(one, other)
    assert s != t
    assert P != Q
    assert group.identity != another.identity


def test_a_mistake_inside_a_multiplication_stays_visible(monkeypatch):
    def times(self, s):
        return s.nothing

    monkeypatch.setattr(type(SECP256K1.identity), "times", times)
    with pytest.raises(AttributeError, match="nothing"):
        SECP256K1.scalar(3) * SECP256K1.identity


def test_scalars_do_not_show():
    s = SECP256K1.scalar(123456789)
    assert "123456789" not in repr(s)
    assert "75bcd15" not in repr(s)
    with pytest.raises(UsageError, match="secp256k1, ed25519"):
        curve("p256")
