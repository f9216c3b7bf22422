"""Child keys (BIP 32) through the REST interface: keys and xpubs as another library derives them,
signatures as libsecp256k1 verifies them."""

import pytest
from slip10 import SLIP10

from mpcsim.crypto.bip32 import HARDENED, parse_path
from node.errors import ApiError
from tests.node import double
from tests.node.harness import PASSWORD, answer
from tests.node.wallets import check_signature, failing

BODIES = {path: double.BODIES[path] for path in ("/v3/wallet/sign", "/v3/wallet/publickey")}
HASH = b"\xab" * 32
PATH = "m/0/7"


# --- the whole ------------------------------------------------------------------------------------


def asked(found, path):
    body = {**found.keys["secp256k1"], "password": PASSWORD, "path": path}
    return answer(found.user().post("/v3/wallet/publickey", body))


def test_an_xpub_and_what_follows_from_it(built):
    key = built.keys["secp256k1"]["public_key"]
    root = asked(built, "m")
    assert root.keys() == {"public_key", "xpub"}
    assert root["public_key"] == key
    tree = SLIP10.from_xpub(root["xpub"])
    assert "0x" + tree.pubkey.hex() == key
    assert (tree.depth, tree.parent_fingerprint, tree.index) == (0, bytes(4), 0)
    for path in ("0", PATH, "m/2147483647/0/1/2/3/4/5/6/7/8"):
        child = asked(built, path)
        theirs = tree.get_child_from_path(list(parse_path(path)))
        assert child == {"public_key": "0x" + theirs.pubkey.hex(), "xpub": theirs.get_xpub()}


@pytest.mark.parametrize("signer", ["operator", "institution"])
def test_a_child_signs(built, signer):
    body = {**built.keys["secp256k1"], "message": HASH.hex(), "signer": signer}
    for path in ("m", PATH, "m/1"):
        reply = answer(built.user().post("/v3/wallet/sign", {**body, "path": path}))
        assert list(reply) == ["signature"]
        check_signature(asked(built, path)["public_key"], HASH, reply["signature"])
    for nothing in ({}, {"path": None}):
        reply = answer(built.user().post("/v3/wallet/sign", {**body, **nothing}))
        check_signature(body["public_key"], HASH, reply["signature"])


@pytest.fixture(scope="module")
def layer():
    with double.doubled() as (api, gateway, wallet):
        yield api.as_user(gateway.token()), wallet


def test_a_path_that_is_none_names_the_step(layer):
    api, _ = layer
    why = 'step 2 ("7h") is hardened: that takes the private key, which nobody has'
    for path, words in (("m/0/7h", why), ("", "step 1 is not a number")):
        asked = [api.post(at, {**body, "path": path}) for at, body in BODIES.items()]
        for response in (*asked, api.get("/v3/wallet", params={"path": path})):
            assert answer(response, 400).startswith(f"Invalid path: {words}")


def test_which_key_is_meant(layer):
    api, wallet = layer
    sign, look = BODIES.items()
    answer(api.post(sign[0], {**sign[1], "path": None}))
    assert wallet.signed[-1]["path"] == ()
    for said, path in [({}, None), ({"path": "m"}, ()), ({"path": PATH}, (0, 7))]:
        answer(api.post(sign[0], {**sign[1], **said}))
        assert wallet.signed[-1]["path"] == (path or ())
        reply = answer(api.post(look[0], {**look[1], **said}))
        assert wallet.paths[-1] == path
        assert ("xpub" in reply) == (path is not None)
        answer(api.get("/v3/wallet", params=said))
        assert wallet.paths[-1] == path


# --- the wallet -----------------------------------------------------------------------------------


async def test_a_hardened_step_that_nobody_has_looked_at(early, house, ec_record):
    """The REST interface refuses it; so does whoever comes after."""
    path = (0, HARDENED)
    for call in (house.sign(ec_record, path=path), house.public_key(ec_record, path)):
        assert 'step 2 ("2147483648") is hardened' in await failing(ApiError, call)
    await house.sign(ec_record, path=(0,))
