"""Child keys are those of BIP 32, by its vectors and by a library of other authors."""

import hmac

import pytest
from hypothesis import given
from hypothesis import strategies as st
from slip10 import SLIP10

from mpcsim.crypto import bip32
from mpcsim.crypto import bip32 as ours
from mpcsim.crypto.bip32 import ExtendedKey, derive
from mpcsim.crypto.groups import ED25519, SECP256K1
from mpcsim.crypto.groups.secp256k1 import ORDER
from mpcsim.errors import UsageError
from tests.helpers.tiers import examples
from tests.helpers.vectors import load

VECTORS = load("bip32.json")["vectors"]
NUMBERS = st.integers(0, ours.HARDENED - 1)
PATHS = st.lists(NUMBERS, max_size=ours.MAX_STEPS).map(tuple)
SCALARS = st.integers(1, ORDER - 1)
CHAIN_CODES = st.binary(min_size=32, max_size=32)


def parsed(xpub: str) -> ExtendedKey:
    """As the other library reads it."""
    found = SLIP10.from_xpub(xpub)
    return ExtendedKey(
        SECP256K1.decode_point(found.pubkey),
        found.chaincode,
        found.depth,
        found.parent_fingerprint,
        found.index,
    )


def test_published_vectors():
    compared = 0
    for chain in VECTORS:
        assert len(chain) == 6
        for path, xpub in chain.items():
            assert parsed(xpub).xpub() == xpub
            above, _, last = path.rpartition("/")
            if above and not last.endswith("H"):
                assert derive(parsed(chain[above]), (int(last),)).key.xpub() == xpub
                compared += 1
    assert compared == 6


@examples(30)
@given(k=SCALARS, c=CHAIN_CODES, path=PATHS)
def test_children_are_those_of_another_implementation(k, c, path):
    root = ExtendedKey(SECP256K1.base(SECP256K1.scalar(k)), c)
    theirs = SLIP10(c, privkey=k.to_bytes(32, "big"))
    found = derive(root, path)
    assert found.key.xpub() == theirs.get_xpub_from_path(list(path))
    assert parsed(found.key.xpub()) == found.key
    # The tweak is how far the child's private key is from the root's.
    child = int.from_bytes(theirs.get_privkey_from_path(list(path)), "big")
    assert found.tweak == SECP256K1.scalar(child - k)
    assert root.public_key + SECP256K1.base(found.tweak) == found.key.public_key


@given(c=CHAIN_CODES, path=PATHS, at=st.integers(0, ours.MAX_STEPS))
def test_children_of_children(c, path, at):
    root = ExtendedKey(SECP256K1.base(SECP256K1.scalar(7)), c)
    between = derive(root, path[:at])
    found = derive(between.key, path[at:])
    assert found.key == derive(root, path).key
    assert between.tweak + found.tweak == derive(root, path).tweak


@given(PATHS)
def test_text_of_a_path_and_back(path):
    assert ours.parse_path(ours.path_text(path)) == path
    if path:
        assert ours.parse_path(ours.path_text(path).removeprefix("m/")) == path


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("m/0/7h", 'step 2 ("7h") is hardened'),
        ("7'", 'step 1 ("7\'") is hardened'),
        ("m/1/2/3H", 'step 3 ("3H") is hardened'),
        ("m/2147483648", 'step 1 ("2147483648") is hardened'),
        *((path, "step 1 is not a number") for path in ("m/4294967296", "", "m/", "/0", "M/0")),
        *((path, "step 2 is not a number") for path in ("m/0/99999999999", "m/0/", "0/m")),
        *(
            (f"m/{step}", "step 1 is not a number")
            for step in ("/0", "-1", "+1", "07", "0x7", "7 ", "7\n", "1_0", "٧")
        ),
        ("m" + 11 * "/1", "step 11 of 11 is too deep: at most 10 steps"),
        ("m" + 11 * "/x", "step 11 of 11 is too deep"),
    ],
)
def test_what_is_no_path(text, words):
    with pytest.raises(UsageError) as refused:
        ours.parse_path(text)
    assert str(refused.value).startswith(words)


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ((0, ours.HARDENED), "step 2"),
        ((-1,), "step 1 is not a number"),
        ((0,) * 11, "step 11 of 11 is too deep"),
    ],
)
def test_what_is_no_path_as_numbers(path, words):
    with pytest.raises(UsageError, match=words):
        ours.check_path(path)
    with pytest.raises(UsageError, match=words):
        derive(ExtendedKey(SECP256K1.base(SECP256K1.scalar(7)), bytes(32)), path)


@pytest.mark.parametrize("IL", [ORDER, 2**256 - 1, ORDER - 7])
def test_a_child_that_there_is_not(monkeypatch, IL):
    """IL not below n, or a sum at infinity: nobody has ever seen either."""
    root = ExtendedKey(SECP256K1.base(SECP256K1.scalar(7)), IL.to_bytes(32, "big"))
    derive.cache_clear()
    genuine = hmac.digest

    def digest(key, message, name):
        if message[-4:] == b"\0\0\0\5":
            return IL.to_bytes(32, "big") + key
        return genuine(key, message, name)

    monkeypatch.setattr(bip32.hmac, "digest", digest)
    with pytest.raises(UsageError, match=r"step 1 \(5\) leads to no key"):
        derive(root, (5, 1))
    assert derive(root, (6,)).tweak


def test_the_root_of_a_tree():
    K = SECP256K1.base(SECP256K1.scalar(7))
    assert ours.extended_key("secp256k1", K, bytes(32)) == ExtendedKey(K, bytes(32))
    with pytest.raises(UsageError, match="this key has no chain code"):
        ours.extended_key("secp256k1", K, None)
    with pytest.raises(UsageError, match="ed25519 keys have no chain code"):
        ours.extended_key("ed25519", ED25519.base(ED25519.scalar(7)), None)
