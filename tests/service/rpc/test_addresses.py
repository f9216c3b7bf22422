"""Addresses: figures of independent packages, and keys that are none."""

import json

import pytest

from mpcsim.crypto.groups.curves import CURVES
from mpcsim.errors import InvalidEncoding
from mpcsim.service.rpc.addresses import addresses
from tests.helpers.repo import ROOT

FIGURES = json.loads((ROOT / "tests/vectors/addresses.json").read_text(encoding="utf-8"))

# --- figures by others --------------------------------------------------------------------------


@pytest.mark.parametrize("figures", FIGURES["secp256k1"], ids=lambda f: f["public_key"][:8])
def test_secp256k1_figures(figures):
    key = bytes.fromhex(figures["public_key"])
    found = addresses("secp256k1", key)
    assert list(found) == ["evm", "btc", "aptos", "tron", "xrp"]
    assert found == {chain: figures[chain] for chain in found}
    testnet = addresses("secp256k1", key, bitcoin_testnet=True)
    assert testnet == {**found, "btc": figures["btc_testnet"]}


@pytest.mark.parametrize("figures", FIGURES["ed25519"], ids=lambda f: f["public_key"][:8])
def test_ed25519_figures(figures):
    found = addresses("ed25519", bytes.fromhex(figures["public_key"]))
    assert found == {"solana": figures["solana"]}


# --- bad keys -----------------------------------------------------------------------------------

GOOD = {name: group.base(group.scalar(7)).encode() for name, group in CURVES.items()}


LENGTHS = [lambda k: k[:-1], lambda k: k + b"\x00", lambda k: b"", lambda k: b"\x04" + bytes(64)]


@pytest.mark.parametrize("curve_name", CURVES)
@pytest.mark.parametrize("change", LENGTHS)
def test_a_key_of_another_length_is_refused(curve_name, change):
    with pytest.raises(InvalidEncoding, match="bytes"):
        addresses(curve_name, change(GOOD[curve_name]))


NO_KEYS = [
    ("secp256k1", b"\x02" + b"\xff" * 32),
    ("secp256k1", b"\x05" + GOOD["secp256k1"][1:]),
    # x = 5 is on no point of the curve
    ("secp256k1", b"\x02" + (5).to_bytes(32, "big")),
    ("ed25519", b"\x01" + bytes(31)),
    ("ed25519", bytes(32)),
    # y = p + 3, not canonical
    ("ed25519", b"\xf0" + b"\xff" * 30 + b"\x7f"),
]


@pytest.mark.parametrize(("curve_name", "key"), NO_KEYS)
def test_what_is_no_key_is_refused(curve_name, key):
    with pytest.raises(InvalidEncoding, match="not a"):
        addresses(curve_name, key)
