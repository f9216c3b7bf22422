"""Points and scalars as others encode them, and points of small order in all their encodings."""

import pytest

from mpcsim.attacks.gallery import edwards
from mpcsim.crypto.groups.ed25519 import ED25519
from mpcsim.errors import InvalidEncoding
from tests.helpers.vectors import load

SAMPLES = {name: bytes.fromhex(text) for name, text in load("zcash_frost/samples.json").items()}
CCTV = load("cctv/ed25519vectors.json.gz")


def encodings():
    """Every encoding of a point in CCTV's vectors, with its flags."""
    found = {}
    for vector in CCTV:
        for data, which in [(vector["key"], "_A"), (vector["sig"][:64], "_R")]:
            flags = {flag[:-2] for flag in vector["flags"] or () if flag.endswith(which)}
            assert found.setdefault(bytes.fromhex(data), flags) == flags
    return found


ENCODINGS = encodings()


def test_samples_of_zcash_frost():
    G = ED25519.base(ED25519.scalar(1))
    assert len(SAMPLES) == 5
    points = {name: SAMPLES[name] for name in ("element1", "element2")}
    scalars = {name: SAMPLES[name] for name in ("identifier", "scalar1")}
    decoded = {
        **{name: ED25519.decode_point(data) for name, data in points.items()},
        **{name: ED25519.decode_scalar(data) for name, data in scalars.items()},
    }
    assert {name: value.encode() for name, value in decoded.items()} == {**points, **scalars}
    assert decoded["element1"] == G
    assert decoded["element2"] == G + G
    assert decoded["identifier"] == ED25519.scalar(42)
    assert decoded["scalar1"] == ED25519.scalar(3).inverse()
    assert SAMPLES["proof_of_knowledge"] == SAMPLES["element1"] + SAMPLES["scalar1"]


def test_the_invalid_element_of_zcash_frost():
    (data,) = load("zcash_frost/elements.json")["elements"].values()
    with pytest.raises(InvalidEncoding):
        ED25519.decode_point(bytes.fromhex(data))


def test_points_of_the_prime_order_subgroup_and_no_others():
    taken = 0
    for data, flags in ENCODINGS.items():
        if flags:
            with pytest.raises(InvalidEncoding):
                ED25519.decode_point(data)
        else:
            assert ED25519.decode_point(data).encode() == data
            taken += 1
    assert (len(ENCODINGS), taken) == (30, 2)
    # Eight points of small order, six of their encodings not canonical; all others have a component
    # of small order.
    assert sum("low_order" in flags for flags in ENCODINGS.values()) == 14
    assert sum("non_canonical" in flags for flags in ENCODINGS.values()) == 6


def test_the_attackers_arithmetic_takes_them_all():
    # It stands for a careless library: what it says of a point must be right.
    for data, flags in ENCODINGS.items():
        point = edwards.decode(data)
        assert (edwards.encode(point) == data) == ("non_canonical" not in flags)
        assert (edwards.times(8, point) == (0, 1)) == ("low_order" in flags)
        component = edwards.times(edwards.L, point) != (0, 1)
        assert component == ("low_order_component" in flags)
