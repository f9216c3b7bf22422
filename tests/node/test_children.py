"""Child keys (BIP 32) through the REST interface: keys and xpubs as another library derives them,
signatures as libsecp256k1 verifies them."""

import coincurve
import pytest
from slip10 import SLIP10

from mpcsim.crypto.bip32 import HARDENED, parse_path
from node.errors import ApiError
from tests.node import double
from tests.node.harness import FAST_PLACES, PASSWORD, PLACES, answer, system
from tests.node.wallets import House, failing

BODIES = {path: double.BODIES[path] for path in ("/v3/wallet/sign", "/v3/wallet/publickey")}
HASH = "ab" * 32
PATH = "m/0/7"


def recovered_key(signature: str) -> str:
    """Whose signature of ``HASH`` it is, by libsecp256k1."""
    raw = bytes.fromhex(signature)
    recoverable = raw[:64] + bytes([raw[64] - 27])
    found = coincurve.PublicKey.from_signature_and_message(
        recoverable, bytes.fromhex(HASH), hasher=None
    )
    return "0x" + found.format().hex()


# --- the whole ------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=FAST_PLACES)
def built(request):
    with system(request.param) as found:
        found.make_keys()
        yield found


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
    body = {**built.keys["secp256k1"], "message": HASH, "signer": signer}
    for path in ("m", PATH, "m/1"):
        reply = answer(built.user().post("/v3/wallet/sign", {**body, "path": path}))
        assert list(reply) == ["signature"]
        assert recovered_key(reply["signature"]) == asked(built, path)["public_key"]
    for nothing in ({}, {"path": None}):
        reply = answer(built.user().post("/v3/wallet/sign", {**body, **nothing}))
        assert recovered_key(reply["signature"]) == body["public_key"]


BAD = [
    ("m/0/7h", 'step 2 ("7h") is hardened: that takes the private key, which nobody has'),
    ("m/2147483648/1", 'step 1 ("2147483648") is hardened'),
    ("m" + "/1" * 11, "step 11 of 11 is too deep: at most 10 steps"),
    ("m/0/x", "step 2 is not a number from 0 to 2147483647"),
    ("", "step 1 is not a number"),
    ("m/1/", "step 2 is not a number"),
]


@pytest.fixture(scope="module")
def layer():
    with double.doubled(PLACES[0]) as (api, gateway, wallet):
        yield api.as_user(gateway.token()), wallet


@pytest.mark.parametrize(("path", "words"), BAD)
def test_a_path_that_is_none_names_the_step(layer, path, words):
    api, _ = layer
    for endpoint in ("/v3/wallet/sign", "/v3/wallet/publickey"):
        said = answer(api.post(endpoint, {**BODIES[endpoint], "path": path}), 400)
        assert said.startswith(f"Invalid path: {words}")
    said = answer(api.get("/v3/wallet", params={"path": path}), 400)
    assert said.startswith(f"Invalid path: {words}")


def test_which_key_is_meant(layer):
    api, wallet = layer
    sign = BODIES["/v3/wallet/sign"]
    look = BODIES["/v3/wallet/publickey"]
    for said, path in [
        ({}, ()),
        ({"path": None}, ()),
        ({"path": "m"}, ()),
        ({"path": PATH}, (0, 7)),
    ]:
        answer(api.post("/v3/wallet/sign", {**sign, **said}))
        assert wallet.signed[-1]["path"] == path
    for said, path in [({}, None), ({"path": "m"}, ()), ({"path": PATH}, (0, 7))]:
        reply = answer(api.post("/v3/wallet/publickey", {**look, **said}))
        assert wallet.paths[-1] == path
        assert ("xpub" in reply) == (path is not None)
    for query, path in [({}, None), ({"path": "m"}, ()), ({"path": PATH}, (0, 7))]:
        answer(api.get("/v3/wallet", params=query))
        assert wallet.paths[-1] == path


# --- the wallet -----------------------------------------------------------------------------------


@pytest.mark.parametrize("early", [True, False])
async def test_a_hardened_step_that_nobody_has_looked_at(early: bool, house: House) -> None:
    """The REST interface refuses it; so does whoever comes after."""
    record = await house.generate("secp256k1")
    path = (0, HARDENED)
    for call in (house.sign(record, path=path), house.public_key(record, path)):
        assert 'step 2 ("2147483648") is hardened' in await failing(ApiError, call)
    await house.sign(record, path=(0,))
